"""AMD's own tool, asked which device is which; where no exporter is set, also for what they measure.

The exporter numbers devices and the kernel's log gives addresses: `amd-smi list` knows both.
"""

from collections.abc import Iterator, Sequence

from collectors.agent.source import Collected, Host, Seen
from collectors.formats.amd_smi_json import devices_of, readings
from collectors.formats.metric_names import vendors
from collectors.formats.reading import Tally
from collectors.host import tool
from collectors.host.accelerator_bus import look
from collectors.host.tree import Tree
from sickbay.messages import Identity, replace

INTERVAL_S = 30.0
NAMES_MS = 600_000  # between two questions for names: they change with a boot
LIST = ("amd-smi", "list", "--json")
METRIC = ("amd-smi", "metric", "--json")


class AmdSmi:
    """The collector `accelerator_amd_smi`."""

    name = "accelerator_amd_smi"
    asks_driver = True

    def __init__(self, host: Host, ask: tool.Ask = tool.ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._ask, self._named_ms = host, ask, -NAMES_MS

    def collect(self, now_ms: int) -> Collected:
        """One answer or two. A host without such devices is asked nothing."""
        vendor = vendors()["amd"].name
        if not any(card.vendor == vendor for card in look(Tree(self._host.root))):
            return Collected(absent=f"no card of {vendor} on the bus")
        seen: list[Seen] = []
        try:
            if not 0 <= now_ms - self._named_ms < NAMES_MS:
                seen += self._answer(LIST, now_ms)
                self._named_ms = now_ms
            if not self._host.settings.exporters:
                seen += self._answer(METRIC, now_ms)
        except tool.ToolMissing as error:
            # Without an exporter nothing measures; with one, only the names may stay unjoined.
            return Collected(seen, problem="" if self._host.settings.exporters else str(error))
        except tool.ToolFailed as error:
            return Collected(seen, problem=str(error))
        return Collected(seen)

    def close(self) -> None:
        """Nothing is held open."""

    def _answer(self, command: Sequence[str], now_ms: int) -> Iterator[Seen]:
        devices = devices_of(self._ask(command, self._host.settings.timeout_s))
        if devices is None:
            raise tool.ToolFailed(f"{' '.join(command)}: no whole answer")
        for reading in readings(devices, Tally(), now_ms):
            record = reading.record
            if isinstance(record, Identity):
                record = replace(record, host=self._host.name)
            yield Seen(record, now_ms, " ".join(command), host=self._host.name)


def collectors(host: Host) -> Sequence[AmdSmi]:
    """One."""
    return (AmdSmi(host, tool.Careful(tool.ask)),)
