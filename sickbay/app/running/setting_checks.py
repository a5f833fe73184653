"""What settings name, begun as far as that goes without the network: what a process would refuse, for `doctor`."""

import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from collectors.cluster.poll import sources, wanted
from collectors.looking import looked
from sickbay.config import ConfigError
from sickbay.doctor import Check
from sickbay.log import LogError, wall_ms
from sickbay.settings import Config

LIMIT_S = 8.0  # for all of them: a file may be a pipe, or lie on a mount that hangs
DO = "correct it in the settings: docs/sources.md says what each source needs"
Try = Callable[[Config], str]  # what to say of it, "" for nothing; raises ConfigError, ValueError, LogError, Absent


class Absent(Exception):
    """It would be refused here, and that may be right: the text says when."""


def checks(config: Config, limit_s: float = LIMIT_S) -> list[Check]:
    """One finding for each part that the settings name, in order; one that hangs holds up no other."""
    tries = {**_PARTS, **{f"poll {name}": _polling(name) for name in wanted(config) if name != "slurm"}}
    found = dict[str, Check]()
    threads = [
        threading.Thread(target=_tried, args=(name, attempt, config, found), name=name, daemon=True)
        for name, attempt in tries.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = "does not return: a file that it names may be a pipe, or on a mount that hangs"
    done = dict(found)
    told = [done.get(name) or Check(name, False, late, DO) for name in tries]
    return [one for one in told if one.says]


def _tried(name: str, attempt: Try, config: Config, found: dict[str, Check]) -> None:
    try:
        found[name] = Check(name, True, attempt(config))
    except Absent as error:
        found[name] = Check(name, None, str(error))
    except (ConfigError, LogError, ValueError) as error:
        found[name] = Check(name, False, str(error), "" if "pip install" in str(error) else DO)
    except Exception as error:  # the doctor must not die of the patient's illness
        found[name] = Check(name, False, f"{type(error).__name__}: {error}"[:300], "please report it")


def _polling(name: str) -> Try:
    def attempt(config: Config) -> str:
        made = sources([name], config)
        for source in made:
            source.close()
        looked(name, config)
        return f"can begin: {', '.join(source.name for source in made)}"

    return attempt


def _log(config: Config) -> str:
    settings = config.log
    if settings.engine != "kafka":
        return ""
    from sickbay.log.kafka_clients import checked, confluent, password, trust

    checked(settings)
    if settings.sasl:
        password(settings)
    if settings.tls:
        trust(settings)
    try:
        confluent()
    except LogError as error:
        raise Absent(f"an agent can begin; all else cannot: {error}") from None
    return f"can begin: {settings.brokers}"


def _signing(config: Config) -> str:
    from sickbay.admission import secret

    if not config.security.key_file:
        return ""
    secret(config.security.key_file)
    return f"the key of {config.security.key_file}"


def _remediation(config: Config) -> str:
    from sickbay.app.remediating.remediator import scheduler_of

    try:
        scheduler_of(config, wall_ms)
    except ConfigError as error:
        raise Absent(str(error)) from None
    return ""


def _alerts(config: Config) -> str:
    from urllib.parse import urlsplit

    from remediation.notify.client import Alertmanager
    from sickbay.addresses import basic

    try:
        basic(urlsplit(config.agent.alerts))
    except ValueError as error:
        raise ConfigError(f"[agent] alerts: {error}") from None
    return f"can begin: {Alertmanager(config.alerts.url).address}" if config.alerts.url else ""


def _archive(config: Config) -> str:
    if not config.archive.path:
        return ""
    if find_spec("deltalake") is None:
        raise ConfigError("[archive] path needs deltalake: pip install 'sickbay[archive]'")
    return f"can begin: {config.archive.path}"


def _listen(config: Config) -> str:
    if not config.listen.address:
        return ""
    from sickbay.app.running.up import listening

    listening(config)
    from sickbay.app.listening.listen_sockets import SOON_MS, Certificate

    if soon := Certificate(config.listen, lambda text: None).trouble(wall_ms(), SOON_MS):
        raise Absent(soon)
    return f"can begin: https://{config.listen.address}"


_PARTS: Mapping[str, Try] = {
    "log": _log,
    "signing": _signing,
    "archive": _archive,
    "alerts": _alerts,
    "remediation": _remediation,
    "listen": _listen,
}
