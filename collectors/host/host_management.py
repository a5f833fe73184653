"""The host's own management controller by `ipmitool sdr elist`, which only reads: air, power, supplies and fans.

A walk over all sensors takes a controller some seconds, so it is asked twice a minute at most.
"""

from collections.abc import Sequence

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats import management_sensors
from collectors.host import tool
from collectors.host.tree import Tree
from sickbay.components import Kind, name
from sickbay.messages import Event
from sickbay.schema import Samples

INTERVAL_S = 30.0
LEAST_S = 20.0  # a walk over the sensors may take so long
COMMAND = ("ipmitool", "sdr", "elist")
OR_ELSE = ": give it, or ask the controller from outside (facility_redfish)"
DEVICES = ("dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0")


def answered(tree: Tree, ask: tool.Ask, command: Sequence[str], limit_s: float) -> bytes | Collected:
    """What the tool prints of the controller, or why there is nothing. A host without a controller is asked nothing."""
    if not any(tree.exists(device) for device in DEVICES):
        return Collected(absent="no management controller: no device dev/ipmi0")
    try:
        return ask(command, limit_s)
    except tool.ToolMissing:
        return Collected(absent=f"ipmitool is not installed{OR_ELSE}")
    except tool.ToolFailed as error:
        if tool.is_refused(error):
            return Collected(absent=f"no right to open dev/ipmi0{OR_ELSE}")
        return Collected(problem=str(error))


class HostManagement:
    """The collector `host_management`."""

    name = "host_management"
    asks_driver = True
    interval_s = INTERVAL_S

    def __init__(self, host: Host, ask: tool.Ask) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self.limit_s = max(LEAST_S, host.settings.timeout_s)
        self._host, self._ask, self._tree = host, ask, Tree(host.root)
        self._sensors = management_sensors.Sensors(host.name)

    def collect(self, now_ms: int) -> Collected:
        """One row, and events of what fails."""
        raw = answered(self._tree, self._ask, COMMAND, self.limit_s)
        if isinstance(raw, Collected):
            return raw
        found = management_sensors.read(raw.decode("utf-8", "replace"))
        if not found:
            return Collected(problem=f"{' '.join(COMMAND)}: no sensor is told")
        cells = {name(Kind.HOST, self._host.name): management_sensors.columns(found)}
        records: list[Samples | Event] = [*rows.samples("host", cells, now_ms), *self._sensors.events(found)]
        return Collected([Seen(one, now_ms, " ".join(COMMAND), host=self._host.name) for one in records])

    def close(self) -> None:
        """Nothing is held open."""


def collectors(host: Host) -> Sequence[HostManagement]:
    """One."""
    return (HostManagement(host, tool.Careful(tool.ask)),)
