"""What switches print of ports and pause, as SONiC words it."""

from simulator.moments import moment
from simulator.printing.lines import Printed
from simulator.printing.site_lines import switch_link

__all__ = ["closed", "pause_storm", "switch_link"]


def _sonic(at_ms: int, switch: str, text: str) -> Printed:
    when = moment(at_ms)
    head = f"{when:%b} {when.day:2d} {when:%H:%M:%S}.{when.microsecond:06d} {switch} NOTICE swss#orchagent: "
    return Printed(at_ms, "switch", head + text, host=switch, dated=True)


def closed(at_ms: int, switch: str, port: str) -> Printed:
    """A port that a person closed."""
    return _sonic(at_ms, switch, f":- setPortAdminStatus: Set admin status DOWN host_tx_ready to false for port {port}")


def pause_storm(at_ms: int, switch: str, port: str, queue: int = 3) -> Printed:
    """The watchdog's word on a port at which pause comes in without end."""
    return _sonic(
        at_ms,
        switch,
        f":- report_pfc_storm: PFC Watchdog detected PFC storm on port {port}, queue index {queue}, "
        f"queue id 0x15000000000{queue:03x} and port id 0x1000000000019",
    )
