"""Everything in one process: all stages, the poller, remediation and any number of agents over one log."""

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.cluster.poll import wanted
from sickbay.app.demonstrating.simulated_site import Simulated, SimulatedStage
from sickbay.app.running.poller import pollings
from sickbay.app.running.service import Context, Make, Stage
from sickbay.app.running.stages import chosen
from sickbay.config import ConfigError
from sickbay.settings import Config

AGENT_WAIT_S = 0.2  # that an agent's step waits for a collection


def stages(config: Config, agents: Sequence[Config] = (), simulated: Simulated | None = None) -> dict[str, Make]:
    """The stages that the settings give something to do, by name. `agents`: the settings of each agent to run here."""
    found: dict[str, Make] = dict(chosen((), config))
    found["remediation"] = remediation(simulated)
    found |= pollings(wanted(config), config)
    if config.listen.address:
        found["listen"] = listening(config)
    if simulated is not None:
        site = simulated
        found["site"] = lambda context: SimulatedStage(context, site)
    for settings in agents:
        found[f"agent {settings.agent.host}"] = AgentMake(settings)
    return found


def listening(config: Config, *, packs: bool = False) -> Make:
    """The stage that listens; `packs`: a relay. Raises ConfigError for what is missing."""
    try:
        from sickbay.app.listening.listener import checked, stage
    except ModuleNotFoundError as error:
        raise ConfigError(f"a listener needs {error.name}: pip install 'sickbay[listen]'") from None
    checked(config)
    return stage(packs=packs)


def remediation(simulated: Simulated | None) -> Make:
    """The remediation stage, on the simulated scheduler where there is one."""

    def make(context: Context) -> Stage:
        from sickbay.app.remediating.remediator import Remediator, scheduler_of

        scheduler = simulated.scheduler if simulated else scheduler_of(context.config, context.clock)
        return Remediator(context, scheduler)

    return make


@dataclass(frozen=True, slots=True)
class AgentMake:
    """Makes an agent of its own settings as a stage: it appends to the log of this process."""

    settings: Config

    def __call__(self, context: Context) -> "AgentStage":
        """The agent, at work."""
        return AgentStage(context, self.settings)


class AgentStage:
    """An agent as a stage."""

    def __init__(self, context: Context, settings: Config) -> None:
        from collectors.agent.agent import start

        host = settings.agent.host
        self._agent = start(
            settings, context.log.appender, metrics=context.metrics, say=lambda text: context.say(f"{host}: {text}")
        )

    @property
    def waiting(self) -> str:
        """Why the agent is not ready."""
        return self._agent.waiting

    def step(self, now_ms: int) -> bool:
        """Spool and send what is due."""
        return self._agent.step(now_ms, AGENT_WAIT_S)

    def close(self) -> None:
        """End with everything spooled."""
        self._agent.close()
