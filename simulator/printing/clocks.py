"""Lines as a machine stamps them whose clock is off."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from simulator.moments import moment
from simulator.printing.lines import Printed


def skewed(lines: Iterable[Printed], ahead_ms: Mapping[str, int]) -> list[Printed]:
    """The same lines in the same order; those of hosts and switches whose clocks are ahead carry later times.

    Lines of jobs stay as they are: their own stamps come from many hosts.
    """
    return [_skewed(line, ahead_ms.get(line.host, 0)) for line in lines]


def _skewed(line: Printed, ahead_ms: int) -> Printed:
    if not ahead_ms or line.source not in ("kernel", "switch"):
        return line
    at_ms = line.at_ms + ahead_ms
    old, new = _stamp(line.at_ms), _stamp(at_ms)
    text = new + line.text[len(old) :] if line.dated and line.text.startswith(old) else line.text
    return replace(line, at_ms=at_ms, text=text)


def _stamp(at_ms: int) -> str:
    """As switches begin their lines with it."""
    when = moment(at_ms)
    return f"{when:%b} {when.day:2d} {when:%H:%M:%S}.{when.microsecond:06d}"
