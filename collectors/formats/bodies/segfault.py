"""Processes that the kernel saw crash: segmentation faults and other traps of user programs.

The module named at the end is where the program was when it fell, seldom what is wrong.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, process, told
from sickbay.components import UNKNOWN, Kind, name

LITERALS = ("]: segfault at ", "traps: ", "]: unhandled ")

_MODULE = r"(?:.{0,200}? in (?P<module>[^\s\[\]]{1,128})\[)?"
# Process names may hold blanks and brackets; the last bracket before the colon is the process id.
_SEGFAULT = re.compile(rf"^(?P<name>.{{1,32}}?)\[(?P<pid>\d{{1,10}})\]: (?P<what>segfault) at {_MODULE}")
_TRAP = re.compile(
    r"^traps: (?P<name>.{1,32}?)\[(?P<pid>\d{1,10})\] (?:trap )?(?P<what>[a-z][a-z0-9 ]{2,40}?)(?: error:| ip:| in )"
    + _MODULE
)
_UNHANDLED = re.compile(
    rf"^(?P<name>.{{1,32}}?)\[(?P<pid>\d{{1,10}})\]: unhandled (?P<what>[^(]{{3,60}}) \(\d+\) at {_MODULE}"
)


class GRAMMAR:
    """One event a crash, on the process."""

    def read(self, line: Line) -> Iterator[Record]:
        """The crash that a kernel line tells."""
        if not kernel_speaks(line):
            return
        for pattern in (_SEGFAULT, _TRAP, _UNHANDLED):
            if match := pattern.match(line.body):
                who = process(match["name"], match["pid"])
                attributes = {"fault": match["what"].strip()} | ({"module": match["module"]} if match["module"] else {})
                yield told("process.crashed", name(Kind.PROCESS, UNKNOWN, who), process=who, attributes=attributes)
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _crash(who: str, **attributes: str) -> tuple[dict[str, object], ...]:
    return (
        {
            "type": "event",
            "kind": "process.crashed",
            "component": f"process:?/{who.replace(' ', '_')}",
            "process": who,
            "attributes": attributes,
        },
    )


SAMPLES = (
    Sample(
        "pt_data_worker[71204]: segfault at 7f11a2c00010 ip 00007f11c0ffee42 sp 00007f10aa7fd6b0 error "
        "4 in libcoll.so.2[7f11c0e00000+d3d3000]",
        _crash("pt_data_worker[71204]", fault="segfault", module="libcoll.so.2"),
    ),
    Sample(
        "solver[9120]: segfault at 18 ip 000055d26855077c sp 00007ffff2eeaab0 error 6 in "
        "solver[55d268550000+1000] likely on CPU 12 (core 4, socket 0)",
        _crash("solver[9120]", fault="segfault", module="solver"),
    ),
    Sample(
        "io thread [2][415]: segfault at 0 ip 0000000000000000 sp 00007ffe1 error 14",
        _crash("io thread [2][415]", fault="segfault"),
    ),
    Sample(
        "traps: python3[48122] general protection fault ip:7f2a1c40 sp:7ffc0a10 error:0 in "
        "libc.so.6[7f2a1c400000+195000]",
        _crash("python3[48122]", fault="general protection fault", module="libc.so.6"),
    ),
    Sample(
        "traps: bench[77] trap invalid opcode ip:401136 sp:7ffd0b80 error:0 in bench[401000+1000]",
        _crash("bench[77]", fault="invalid opcode", module="bench"),
    ),
    Sample(
        "trainer[5150]: unhandled level 2 translation fault (11) at 0x00000010, esr 0x92000006, in "
        "libtorch_cpu.so[ffff8a000000+9a0000]",
        _crash("trainer[5150]", fault="level 2 translation fault", module="libtorch_cpu.so"),
    ),
)
