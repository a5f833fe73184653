"""How a kernel line reaches a file: the envelopes that real log programs put around it."""

import json
from collections.abc import Callable

from simulator.moments import moment
from simulator.printing.lines import Printed

BOOT_MS = 912_344_000  # the hosts of the simulation booted that long before the night


def syslog(line: Printed, start_ms: int) -> str:
    """rsyslog with ISO stamps."""
    when = moment(line.at_ms)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}+00:00 {line.host} {line.speaker}: {line.text}"


def syslog_classic(line: Printed, start_ms: int) -> str:
    """The old stamp: no year, no zone, the day padded with a blank."""
    when = moment(line.at_ms)
    boot = (line.at_ms - start_ms + BOOT_MS) / 1000
    stamp = f"[{boot:.6f}] " if line.speaker == "kernel" else ""
    return f"{when:%b} {when.day:2d} {when:%H:%M:%S} {line.host} {line.speaker}: {stamp}{line.text}"


def journal(line: Printed, start_ms: int) -> str:
    """`journalctl -o json`."""
    return json.dumps(
        {
            "__REALTIME_TIMESTAMP": str(line.at_ms * 1000),
            "_SOURCE_MONOTONIC_TIMESTAMP": str((line.at_ms - start_ms + BOOT_MS) * 1000),
            "_HOSTNAME": line.host,
            "_BOOT_ID": f"{abs(hash_of(line.host)):032x}",
            "_TRANSPORT": "kernel" if line.speaker == "kernel" else "syslog",
            "SYSLOG_IDENTIFIER": line.speaker.partition("[")[0],
            **_pid(line.speaker),
            "PRIORITY": "4",
            "MESSAGE": line.text,
        }
    )


def _pid(speaker: str) -> dict[str, str]:
    found = speaker.partition("[")[2].rstrip("]")
    return {"_PID": found} if found else {}


def dmesg(line: Printed, start_ms: int) -> str:
    """`dmesg --time-format=iso`: no host."""
    when = moment(line.at_ms)
    return f"{when:%Y-%m-%dT%H:%M:%S},{when.microsecond:06d}+00:00 {line.text}"


def hash_of(text: str) -> int:
    """A number that depends on the text only (Python's own hash differs from run to run)."""
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 % 2**128
    return number


Envelope = Callable[[Printed, int], str]
ENVELOPES: dict[str, Envelope] = {
    "syslog": syslog,
    "syslog_classic": syslog_classic,
    "journal": journal,
    "dmesg": dmesg,
}
