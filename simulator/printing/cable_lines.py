"""What switches print of ports and pause, as SONiC words it."""

from simulator.moments import moment
from simulator.printing.lines import Printed
from simulator.printing.site_lines import switch_link

__all__ = ["asic", "closed", "configured", "module", "pause_storm", "switch_link"]


def _sonic(at_ms: int, switch: str, text: str, level: str = "NOTICE", program: str = "swss#orchagent") -> Printed:
    when = moment(at_ms)
    head = f"{when:%b} {when.day:2d} {when:%H:%M:%S}.{when.microsecond:06d} {switch} {level} {program}: "
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


def module(at_ms: int, switch: str, port: str, what: str) -> Printed:
    """A module that was `removed` or `inserted`, as the transceiver daemon tells it."""
    return _sonic(at_ms, switch, f"{port}: Got SFP {what} event", program="pmon#xcvrd")


def asic(at_ms: int, switch: str, text: str, *, fatal: bool) -> Printed:
    """The switching chip's own word on its health."""
    level, when = "fatal" if fatal else "notice", f"{moment(at_ms):%Y-%m-%d %H:%M:%S}"
    return _sonic(
        at_ms,
        switch,
        f":- onSwitchAsicSdkHealthEvent: [{level}] ASIC/SDK health event occurred at {when}, category asic_hw: {text}",
        level="ERR" if fatal else "NOTICE",
    )


def configured(at_ms: int, switch: str, who: str, where: str = "198.51.100.7") -> Printed:
    """A person changed the configuration, in the words of a switch of another maker."""
    when = moment(at_ms)
    text = f"{when:%b} {when.day:2d} {when:%H:%M:%S} {switch} %SYS-5-CONFIG_I: Configured from vty by {who} on {where}"
    return Printed(at_ms, "switch", text, host=switch, dated=True)
