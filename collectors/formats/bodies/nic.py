"""Network adapters as the kernel tells them: mlx5, bnxt, irdma and the wording all drivers share.

Function names and line numbers in front of a message change with every driver build and are never looked at. Floods of
refused register reads come from monitors on boards that restrict them: told as information.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import ADDRESS, kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Severity

LITERALS = (
    "Port module event", "insufficient power on the PCIe slot", "health compromised", "Health issue observed",
    "handling bad device", "mlx5_error_sw_reset", "health recovery", "Fatal error ", "PCI slot is unavailable",
    "op_mod(0x", "Will cause a leak of a command resource", "ink up", "ink down", "ink is Up", "ink is Down",
    "ink is up", "ink is down", "link becomes ready", "NETDEV WATCHDOG", "Lost carrier", "Gained carrier",
    "reporting a fatal error", "High temperature on sensors", "emperature warning", "Firmware fatal reset",
    "irmware non-fatal reset", "Global reset", "Critical temperature", "catastrophic error", "TX timeout detected",
    "PCIe link lost", "failed with error code -", "HMC Error", "error cqe on cqn", "etected Hardware Unit Hang",
    "ink DOWN", "ink ACTIVE", "ink Up", "ink Down", "Internal error detected:",
)  # fmt: skip

_DEVICE = re.compile(
    rf"^(?P<driver>[a-z][\w-]{{1,20}}) (?P<device>{ADDRESS})"
    r"(?: (?:\(unnamed net_device\)|\(?(?P<port>[A-Za-z][\w.-]{0,20}?)\)?))?: (?P<rest>.*)$"
)
_WHERE = re.compile(r"^(?:[A-Za-z_]\w{2,60}:)?(?:\d{1,6}:)?\(pid \d{1,10}\): ")  # the function and line that printed it
_MODULE = re.compile(
    r"^Port module event(?P<error>\[error\])?: module (?P<module>\d{1,3}), Cable "
    r"(?P<what>plugged|unplugged|error)(?:, (?P<reason>.{1,80}))?"
)
_POWER = re.compile(r"^Detected insufficient power on the PCIe slot \((?P<watts>\d{1,4})W\)")
_ISSUE = re.compile(r"^Health issue observed, (?P<what>.{1,80}), severity\((?P<level>\d{1,2})\)")
_REFUSED = re.compile(
    r"^(?P<command>[A-Z][A-Z0-9_]{2,40})\((?P<code>0x[0-9a-f]{1,8})\) op_mod\(0x[0-9a-f]{1,8}\) "
    r"failed, status (?P<status>[\w ]{1,40})"
)
_LEAK = re.compile(
    r"^(?P<command>[A-Z][A-Z0-9_]{2,40})\(0x[0-9a-f]{1,8}\) timeout\. Will cause a leak of a command resource"
)
_LINK = re.compile(
    r"^(?:NIC )?[Ll]ink (?:is )?(?P<state>[Uu]p|[Dd]own)(?![\w-])(?:,? (?P<speed>\d{1,7}) ?(?P<unit>[GM])bps)?"
)
_PLAIN = (  # text at the start of a driver's message -> kind, severity where it is not the kind's
    (re.compile(r"^device's health compromised"), "nic.health", None),
    (re.compile(r"^(?:Fatal error \d{1,3} detected|handling bad device here)"), "nic.health", None),
    (re.compile(r"^health recovery flow aborted|^health recovery failed"), "nic.health", None),
    (re.compile(r"^(?:mlx5_error_sw_reset: )?start$|^starting health recovery flow"), "nic.reset", None),
    (re.compile(r"^health recovery succeeded"), "nic.reset", Severity.INFO),
    (re.compile(r"^Internal error detected:"), "nic.health", None),
    (re.compile(r"^(?:PCI slot is unavailable|PCIe link lost)"), "nic.gone", None),
    (re.compile(r"^\w{1,40} failed with error code -\d"), "nic.health", None),
    (re.compile(r"^(?:TX timeout detected|Detected Hardware Unit Hang)"), "nic.queue_timeout", None),
    (re.compile(r"^HMC Error"), "nic.reset", None),
    (re.compile(r"^(?:High temperature on sensors|[Tt]emperature warning|Critical temperature)"), "nic.hot", None),
    (re.compile(r"^Firmware fatal reset event"), "nic.health", None),
    (re.compile(r"^Firmware non-fatal reset event"), "nic.reset", None),
    (re.compile(r"^(?:PE critical error|.{0,40}Global reset (?:requested|detected))"), "nic.reset", None),
)
_FATAL_VERBS = re.compile(
    r"^infiniband (?P<device>[a-z][\w]{2,20}): .{0,120}(?:reporting a fatal error|catastrophic error)"
)
_QUEUE = re.compile(
    r"^NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?(?P<port>[\w.-]{1,20}) \((?P<driver>[\w-]{1,24})\): "
    r"transmit queue (?P<queue>\d{1,6}) timed out"
)
# The same from a driver without a PCI address in front (systems on a chip), and since 6.3 from every one.
_QUEUE_OF = re.compile(
    r"^(?P<driver>[a-z][\w-]{1,24}) [\w:.]{1,40} (?P<port>[\w.-]{1,20}): NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?"
    r"transmit queue (?P<queue>\d{1,6}) timed out"
)
_CQE = re.compile(r"^infiniband (?P<device>[a-z]\w{2,20}): .{0,60}(?:Requester|Responder|Unknown) error cqe on cqn")
_STATE = re.compile(
    r"^(?:infiniband|mlx\d_en:) (?P<device>[a-z]\w{1,20}): (?:Port: (?P<number>\d{1,3}) )?"
    r"Link (?P<state>DOWN|ACTIVE|Up|Down)$"
)
_CARRIER = re.compile(r"^(?P<port>[\w.-]{1,20}): (?P<state>Lost|Gained) carrier$")
_READY = re.compile(r"^(?:IPv6: )?(?:ADDRCONF\(NETDEV_(?:CHANGE|UP)\): )?(?P<port>[\w.-]{1,20}): link becomes ready")
_ISSUE_WARNING = 4  # kernel levels: 0 emergency to 7 debug; 3 is an error


class GRAMMAR:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """What a driver, the network core or the network service says of an adapter or port."""
        if line.origin in ("systemd-networkd", "") and (match := _CARRIER.match(line.body)):
            yield _port("port.down" if match["state"] == "Lost" else "port.up", match["port"], "")
        if not kernel_speaks(line):
            return
        if match := _QUEUE.match(line.body) or _QUEUE_OF.match(line.body):
            yield told(
                "nic.queue_timeout",
                name(Kind.NIC, UNKNOWN, match["port"]),
                attributes={"queue": match["queue"], "driver": match["driver"]},
            )
        elif match := _DEVICE.match(line.body):
            rest = _WHERE.sub("", match["rest"], count=1)
            if (record := _of_driver(rest, match["device"], match["port"] or "")) is not None:
                yield record
        elif match := _FATAL_VERBS.match(line.body):
            yield told("nic.health", name(Kind.NIC, UNKNOWN, match["device"]))
        elif match := _CQE.match(line.body):
            yield told(
                "nic.command_refused", name(Kind.NIC, UNKNOWN, match["device"]), attributes={"what": "error cqe"}
            )
        elif match := _STATE.match(line.body):
            port = "/".join(filter(None, (match["device"], match["number"])))
            yield _port("port.down" if match["state"].lower() == "down" else "port.up", port, "")
        elif match := _READY.match(line.body):
            yield _port("port.up", match["port"], "")

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _of_driver(text: str, device: str, port: str) -> Record | None:
    for pattern, tell in _TELLS:
        if match := pattern.match(text):
            return tell(match, device, port)
    for pattern, kind, severity in _PLAIN:
        if pattern.match(text):
            return told(kind, _nic(device), **({"severity": severity} if severity else {}), **_named(port))
    return None


def _nic(device: str) -> Name:
    return name(Kind.NIC, UNKNOWN, pci_address(device, function=True) or device)


def _named(port: str) -> dict[str, dict[str, str]]:
    return {"attributes": {"port": port}} if port else {}


def _port(kind: str, port: str, device: str, **attributes: str) -> Record:
    """A port by its interface name, by its adapter's address where no name is told."""
    address = (pci_address(device, function=True) or device) if device else ""
    more = attributes | ({"pci": address} if address and port else {})
    return told(kind, name(Kind.PORT, UNKNOWN, port or address), attributes=more)


def _module(match: re.Match[str], device: str, port: str) -> Record:
    what = "error" if match["error"] or match["what"] == "error" else match["what"]
    attributes = {"module": match["module"]} | ({"reason": match["reason"].strip()} if match["reason"] else {})
    optic = name(Kind.OPTIC, UNKNOWN, port or pci_address(device, function=True) or device)
    return told(f"optic.{what}", optic, attributes=attributes)


def _power(match: re.Match[str], device: str, _: str) -> Record:
    return told("nic.power", _nic(device), attributes={"slot_watts": match["watts"]})


def _issue(match: re.Match[str], device: str, _: str) -> Record:
    kind = "nic.hot" if "temperature" in match["what"].lower() else "nic.health"
    mild = int(match["level"]) >= _ISSUE_WARNING
    return told(
        kind, _nic(device), attributes={"issue": match["what"]}, **({"severity": Severity.WARNING} if mild else {})
    )


def _refused(match: re.Match[str], device: str, _: str) -> Record:
    attributes = {"command": match["command"], "status": match["status"].strip()}
    return told("nic.command_refused", _nic(device), attributes=attributes)


def _leak(match: re.Match[str], device: str, _: str) -> Record:
    return told("nic.queue_timeout", _nic(device), attributes={"command": match["command"]})


def _link(match: re.Match[str], device: str, port: str) -> Record:
    speed = {"speed": f"{match['speed']}{match['unit']}bps"} if match["speed"] else {}
    return _port("port.up" if match["state"].lower() == "up" else "port.down", port, device, **speed)


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, str], Record]], ...] = (
    (_MODULE, _module), (_POWER, _power), (_ISSUE, _issue), (_REFUSED, _refused), (_LEAK, _leak), (_LINK, _link),
)  # fmt: skip


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample(
        "infiniband mlx5_2: Port: 1 Link DOWN\nmlx4_en: eth1: Link Up",
        (
            {"type": "event", "kind": "port.down", "component": "port:?/mlx5_2/1"},
            {"type": "event", "kind": "port.up", "component": "port:?/eth1"},
        ),
    ),
    Sample(
        "mlx4_core 0000:04:00.0: Internal error detected:",
        ({"type": "event", "kind": "nic.health", "component": "nic:?/0000:04:00.0"},),
    ),
    Sample(
        "r8125 0000:22:04.0 enp34s4: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms",
        ({"type": "event", "kind": "nic.queue_timeout", "component": "nic:?/enp34s4"},),
    ),
    Sample(
        "mlx5_core 0000:5e:00.0 ens4f0np0: TX timeout detected",
        ({"type": "event", "kind": "nic.queue_timeout", "component": "nic:?/0000:5e:00.0"},),
    ),
    Sample(
        "igb 0000:02:00.0 enp2s0: PCIe link lost",
        ({"type": "event", "kind": "nic.gone", "component": "nic:?/0000:02:00.0"},),
    ),
    Sample(
        "mlx5_core 0000:03:00.0: mlx5_load_one failed with error code -22",
        ({"type": "event", "kind": "nic.health", "component": "nic:?/0000:03:00.0"},),
    ),
    Sample(
        "infiniband rocep33s0f0: mlx5_poll_one:527:(pid 0): Responder error cqe on cqn 0x406:",
        ({"type": "event", "kind": "nic.command_refused", "component": "nic:?/rocep33s0f0"},),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable unplugged",
        _expect("optic.unplugged", "optic:?/0000:9a:00.0"),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable plugged",
        _expect("optic.plugged", "optic:?/0000:9a:00.0"),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: Port module event[error]: module 1, Cable error, High Temperature",
        _expect("optic.error", "optic:?/0000:9a:00.0", attributes={"module": "1", "reason": "High Temperature"}),
    ),
    Sample(
        "mlx5_core 0000:9a:00.1: mlx5_pcie_event:317:(pid 404): Detected insufficient power on the PCIe slot (27W).",
        _expect("nic.power", "nic:?/0000:9a:00.1", attributes={"slot_watts": "27"}),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: poll_health:739:(pid 0): device's health compromised - reached miss count",
        _expect("nic.health", "nic:?/0000:9a:00.0", severity=Severity.FATAL),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: print_health_info:455:(pid 0): Health issue observed, firmware "
        "internal error, severity(3) ERROR:",
        _expect("nic.health", "nic:?/0000:9a:00.0", attributes={"issue": "firmware internal error"}),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: print_health_info:455:(pid 0): Health issue observed, High "
        "temperature, severity(4) WARNING:",
        _expect("nic.hot", "nic:?/0000:9a:00.0", severity=Severity.WARNING),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: poll_health:788:(pid 0): Fatal error 1 detected",
        _expect("nic.health", "nic:?/0000:9a:00.0"),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: mlx5_error_sw_reset:235:(pid 991): start", _expect("nic.reset", "nic:?/0000:9a:00.0")
    ),
    Sample("mlx5_core 0000:9a:00.0: PCI slot is unavailable", _expect("nic.gone", "nic:?/0000:9a:00.0")),
    Sample(
        "mlx5_core 0000:9a:00.0: mlx5_cmd_out_err:835:(pid 7711): ACCESS_REG(0x805) op_mod(0x1) "
        "failed, status bad resource(0x5), "
        "syndrome (0x305684), err(-22)",
        _expect("nic.command_refused", "nic:?/0000:9a:00.0", severity=Severity.INFO),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0: wait_func:1203:(pid 88): CREATE_EQ(0x301) timeout. Will cause a leak "
        "of a command resource",
        _expect("nic.queue_timeout", "nic:?/0000:9a:00.0", attributes={"command": "CREATE_EQ"}),
    ),
    Sample(
        "mlx5_core 0000:9a:00.0 ens7f0np0: Link down",
        _expect("port.down", "port:?/ens7f0np0", attributes={"pci": "0000:9a:00.0"}),
    ),
    Sample("mlx5_core 0000:9a:00.0 ens7f0np0: Link up", _expect("port.up", "port:?/ens7f0np0")),
    Sample("bnxt_en 0000:41:00.0 enp65s0f0np0: NIC Link is Down", _expect("port.down", "port:?/enp65s0f0np0")),
    Sample(
        "ice 0000:41:00.0 ens2f0: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC",
        _expect("port.up", "port:?/ens2f0", attributes={"speed": "100Gbps", "pci": "0000:41:00.0"}),
    ),
    Sample(
        "bnxt_en 0000:41:00.0 (enp65s0f0np0): Firmware fatal reset event, data1: 0x1, data2: 0x0",
        _expect("nic.health", "nic:?/0000:41:00.0"),
    ),
    Sample("infiniband mlx5_3: mlx5_ib_event: reporting a fatal error", _expect("nic.health", "nic:?/mlx5_3")),
    Sample(
        "NETDEV WATCHDOG: ens7f0np0 (mlx5_core): transmit queue 7 timed out",
        _expect("nic.queue_timeout", "nic:?/ens7f0np0", attributes={"queue": "7", "driver": "mlx5_core"}),
    ),
    Sample(
        "NETDEV WATCHDOG: CPU: 31: ens7f0np0 (mlx5_core): transmit queue 7 timed out 5120 ms",
        _expect("nic.queue_timeout", "nic:?/ens7f0np0"),
    ),
    Sample("systemd-networkd[901]: ib3: Lost carrier", _expect("port.down", "port:?/ib3")),
    Sample("systemd-networkd[901]: ib3: Gained carrier", _expect("port.up", "port:?/ib3")),
    Sample("IPv6: ADDRCONF(NETDEV_CHANGE): ib3: link becomes ready", _expect("port.up", "port:?/ib3")),
)
