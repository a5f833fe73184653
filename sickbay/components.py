"""Components and their names: `kind:host/part[/subpart]`, the same in code, topics, metrics and reports.

Names are plain strings, so that they can be keys of frames, messages and URLs alike. A reader that does not know
the host (or the job) writes `?` in its place; whoever joins the inputs fills it in with `placed`.
"""

import re
from enum import StrEnum
from typing import TypeAlias

Name: TypeAlias = str

UNKNOWN = "?"  # stands for a host or job that the input does not tell
_STAND_IN = re.compile(r"\b([a-z]+:)~[^/\s]*")
MAX_NAME = 240  # longer names are cut: hostile input must not make keys of megabytes


class Kind(StrEnum):
    """What can fail. A closed list: a new kind is a change of the schema."""

    ACCELERATOR = "accelerator"
    NIC = "nic"
    PORT = "port"
    OPTIC = "optic"
    LINK = "link"
    PATH = "path"
    SWITCH = "switch"
    HOST = "host"
    PCIE = "pcie"
    CPU = "cpu"
    DIMM = "dimm"
    DISK = "disk"
    FILESYSTEM = "filesystem"
    STORAGE = "storage"
    FABRIC = "fabric"
    RACK = "rack"
    PDU = "pdu"
    CDU = "cdu"
    CLUSTER = "cluster"
    COHORT = "cohort"
    PROCESS = "process"
    MONITOR = "monitor"
    JOB = "job"
    RANK = "rank"


_KINDS = {str(kind): kind for kind in Kind}

HOST_SCOPED = frozenset(
    {
        Kind.ACCELERATOR, Kind.NIC, Kind.PORT, Kind.OPTIC, Kind.HOST, Kind.PCIE, Kind.CPU,
        Kind.DIMM, Kind.DISK, Kind.FILESYSTEM, Kind.FABRIC, Kind.PROCESS, Kind.MONITOR,
    }
)  # fmt: skip
JOB_SCOPED = frozenset({Kind.JOB, Kind.RANK})

_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
_PCI = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([01][0-9a-fA-F])(?:\.([0-7]))?$")


def part(text: str) -> str:
    """`text` as it may stand in a name: the source's own spelling, runs of blanks and control characters become `_`."""
    return _UNSAFE.sub("_", text.strip())[:MAX_NAME]


def name(kind: Kind, *parts: str) -> Name:
    """The name of a component from its parts, the first of which is the host, switch or job where the kind has one."""
    return f"{kind}:{'/'.join(part(piece) for piece in parts)}"[:MAX_NAME]


def link(end: str, other: str = UNKNOWN) -> Name:
    """The name of a link: its ends sorted, an unknown end `?` last."""
    ends = sorted((part(end), part(other)), key=lambda piece: (piece == UNKNOWN, piece))
    return f"{Kind.LINK}:{'~'.join(ends)}"[:MAX_NAME]


def ends_of(component: Name) -> tuple[Name, ...]:
    """The ports at the known ends of a link, by its name."""
    kind, _, rest = component.partition(":")
    if kind != Kind.LINK or rest.startswith("~"):  # an end whose host only an input's path stands for
        return ()
    return tuple(f"{Kind.PORT}:{end}" for end in rest.split("~") if end not in ("", UNKNOWN))


def path(end: str, other: str = UNKNOWN) -> Name:
    """The name of a network path between two addresses, in either direction the same."""
    return Kind.PATH + link(end, other).removeprefix(Kind.LINK)


def kind_of(component: Name) -> Kind:
    """The kind of a name. Raises ValueError for a string that is not one."""
    word = component.partition(":")[0]
    return _KINDS.get(word) or Kind(word)  # asked so often that the look-up of an enumeration is too slow


def parts_of(component: Name) -> list[str]:
    """What stands after the kind, split at `/`."""
    return component.partition(":")[2].split("/")


def host_of(component: Name) -> str | None:
    """The host (or switch) a name belongs to, None for kinds that have none and for an unknown one."""
    kind = kind_of(component)
    if kind not in HOST_SCOPED and kind is not Kind.SWITCH:
        return None
    host = parts_of(component)[0]
    return None if host in ("", UNKNOWN) else host


def called(text: str) -> str:
    """A component, or a sentence with some, as people read it: a host or job that only an input's path stands for
    (`~…`) is unknown, `?`. Data keep the whole name, which tells such hosts apart."""
    return _STAND_IN.sub(r"\1?", text)


def placed(component: Name, host: str, job: str = UNKNOWN) -> Name:
    """The name with an unknown host (or job) filled in; any other name is returned as it is."""
    kind, _, rest = component.partition(":")
    first, slash, tail = rest.partition("/")
    if first != UNKNOWN or kind not in Kind.__members__.values():
        return component
    owner = job if Kind(kind) in JOB_SCOPED else host if Kind(kind) in HOST_SCOPED else UNKNOWN
    return f"{kind}:{part(owner)}{slash}{tail}"[:MAX_NAME]


def pci_address(text: str, *, function: bool = False) -> str | None:
    """The canonical PCI address of `text` (`0000:cb:00`), None where it is not one.

    Lower case, the domain's significant digits with at least four, a missing domain is 0000. The function digit is
    dropped unless asked for: for accelerators .1 is audio and never matters, for root ports it does.
    """
    match = _PCI.match(text.strip())
    if not match:
        return None
    domain, bus, device, digit = match.groups()
    address = f"{(domain or '0').lower().lstrip('0').rjust(4, '0')}:{bus.lower()}:{device.lower()}"
    return f"{address}.{digit or '0'}" if function else address
