"""Firmware-first error records as the kernel prints them: groups of lines `{359}[Hardware Error]: …`.

One group holds a severity and sections (PCIe, memory, processor). A section is finished when the next one begins, or
with the input. Records of the boot before (BERT) have no group's number; their rows are indented below a severity.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats.reading import Line

LITERALS = ("[Hardware Error]:",)
_ROW = re.compile(r"^(?:\{(\d{1,9})\})?\[Hardware Error\]: (.{0,400})$")
BEFORE = "before this boot"  # the group of records that the firmware kept
_MAX_FIELDS = 40


@dataclass(slots=True)
class Section:
    """One error of a group: its kind (`PCIe error`, `memory error` …), severity and fields."""

    line: Line  # at which the group began
    group: str
    severity: str = ""
    kind: str = ""
    fields: dict[str, str] = field(default_factory=dict)


class Groups:
    """Follows the groups of one input."""

    def __init__(self) -> None:
        self._section: Section | None = None

    def read(self, line: Line) -> tuple[bool, Section | None]:
        """Whether the line is a row of a group, and the section that it finished."""
        match = _ROW.match(line.body)
        if match is None:
            return False, None
        before, finished = self._section, None
        group, text = match[1] or self._unnumbered(match[2]), match[2].strip()
        if not group:
            return False, None
        if before is None or before.group != group or (group == BEFORE and text.startswith("event severity:")):
            self._section, finished = Section(line, group), before
        elif before.kind and text.startswith(("Error ", "section_type:", "section type:")):
            self._section, finished = Section(before.line, group, before.severity), before
        _take(self._section or Section(line, group), text)
        return True, finished

    def _unnumbered(self, text: str) -> str:
        """The group of a row without a number; "" for what other parts of the kernel print behind these words."""
        if text.startswith("event severity:"):
            return BEFORE
        return BEFORE if text[:1] == " " and self._section is not None and self._section.group == BEFORE else ""

    def end(self) -> Iterator[Section]:
        """The section that the end of the input left open."""
        section, self._section = self._section, None
        if section is not None:
            yield section


def attributes(section: Section) -> dict[str, str]:
    """What an event of the section says of the record itself."""
    told = {"reported_by": "firmware", "record": section.group}
    return told | ({"cleared_by_boot": "yes"} if section.group == BEFORE else {})


def _take(section: Section, text: str) -> None:
    key, _, value = text.partition(":")
    key, value = key.strip().replace(" ", "_"), value.strip()
    if key == "event_severity":
        section.severity = value
    elif key.startswith("Error_") and "type:" in text:
        section.severity = text.rpartition("type:")[2].strip() or section.severity
    elif key == "section_type":
        section.kind = value
    elif section.kind and len(section.fields) < _MAX_FIELDS:
        section.fields.setdefault(key[:40], value[:200])
