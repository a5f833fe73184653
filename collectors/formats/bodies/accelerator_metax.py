"""MetaX's kernel driver (METAX, MXCD, MXGVM): numbered error messages of a device."""

import re
from collections.abc import Iterable, Iterator

from collectors.codes import metax
from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import ADDRESS, kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, name, pci_address
from sickbay.messages import Blame, Severity

LITERALS = ("EID (", "EID(")
MAX_TEXT = 1000  # characters of a line that are looked at

_EID = re.compile(rf"\bEID ?\((?P<pci>{ADDRESS})\)[:, ]{{1,3}}(?:0x)?(?P<code>[0-9a-fA-F]{{4,8}})\b(?P<text>.*)")
_TYPE = re.compile(r"\berror_type[ :=]{1,3}0x(?P<bits>[0-9a-fA-F]{1,8})\b")
_PORT = re.compile(r"\bport (\d{1,3})\b")


class Grammar:
    """One event a line; a fault that takes several lines of one code stays one burst by its time."""

    def read(self, line: Line) -> Iterator[Record]:
        """The event of an error message."""
        found = _EID.search(line.body[:MAX_TEXT]) if kernel_speaks(line) else None
        if found is None:
            return
        number, component = (
            int(found["code"], 16),
            name(Kind.ACCELERATOR, UNKNOWN, pci_address(found["pci"]) or UNKNOWN),
        )
        facts = {"port": port[1]} if (port := _PORT.search(found["text"])) else {}
        kind = _TYPE.search(found["text"])
        if number == metax.EXCEPTION and kind and int(kind["bits"], 16) & metax.MEMORY:
            yield told(
                "accelerator.memory_contained",
                component,
                code=f"EID {number:#06x}",
                severity=Severity.ERROR,
                blame=Blame.HARDWARE,
                scope="device",
                attributes={"error_type": kind["bits"]},
            )
            return
        row = metax.code(number)
        yield told(
            row.kind,
            component,
            code=f"EID {number:#06x}",
            severity=row.severity,
            blame=row.blame,
            scope=row.scope,
            advice=row.advice,
            attributes=facts | ({"error_type": kind["bits"]} if kind else {}),
        )

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


GRAMMAR = Grammar

SAMPLES = (
    Sample(
        "METAX.B3B00.LINK.ERROR EID (0000:3b:00.0): 0x110a, MetaXLink abnormal, check link, port 2",
        ({"type": "event", "component": "accelerator:?/0000:3b:00", "kind": "accelerator.link_fatal",
          "code": "EID 0x110a", "advice": "check_link", "severity": "error"},),
    ),
    Sample(
        "MXCD.B5E00.CORE.ERROR EID (0000:5e:00.0): 0x2102, shader exception, error_type: 0x2",
        ({"type": "event", "component": "accelerator:?/0000:5e:00", "kind": "accelerator.engine_error",
          "advice": "restart_job"},),
    ),
    Sample(
        "MXCD.B5E00.CORE.ERROR EID (0000:5e:00.0): 0x2102, shader exception, error_type: 0x41",
        ({"type": "event", "kind": "accelerator.memory_contained", "blame": "hardware", "advice": None},),
    ),
    Sample(
        "METAX.B10200.INIT.CRIT EID (0001:02:00.0): 0x3107, not published",
        ({"type": "event", "component": "accelerator:?/0001:02:00", "kind": "accelerator.unknown_code",
          "advice": "watch"},),
    ),
)  # fmt: skip
