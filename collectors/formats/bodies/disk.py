"""Local disks and the file systems on them: NVMe, block layer, ext4, XFS, Btrfs, software RAID."""

import re
from collections.abc import Callable, Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import kernel_speaks, told
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Severity

LITERALS = (
    " timeout, aborting", " timeout, reset controller", " timeout, completion polled", " timeout, disable controller",
    "controller is down; will reset", "Device not ready; aborting reset", "Disabling device after reset failure",
    "Removing after probe failure", "I/O error, dev ", "critical medium error, dev ", "critical target error, dev ",
    "Buffer I/O error on dev", "I/O Error (sct ", "Sense Key : Medium Error", "Sense Key : Hardware Error",
    "Disk failure on ", "emounting filesystem read-only", "EXT4-fs error (device", "Aborting journal on device",
    "log I/O error", "metadata I/O error", "hutting down filesystem", "Filesystem has been shut down",
    "forced readonly", "BTRFS error (device", "BTRFS critical (device",
)  # fmt: skip

_NVME = r"^(?:nvme )?(?P<disk>nvme\d{1,4}): "
_TIMEOUT = re.compile(
    _NVME + r"I/O (?:tag )?\d{1,6}(?: \([0-9a-f]{1,8}\))?(?: opcode 0x[0-9a-f]{1,4})?(?: \([\w /]{1,30}\))? "
    r"QID (?P<queue>\d{1,6}) timeout, (?P<what>aborting|reset controller|completion polled|disable controller)"
)
_DOWN = re.compile(_NVME + r"controller is down; will reset: CSTS=(?P<status>0x[0-9a-f]{1,8})")
_FAILED = re.compile(
    _NVME
    + r"(?P<what>Device not ready; aborting reset|Disabling device after reset failure|Removing after probe failure)"
)
_IO_ERROR = re.compile(
    r"^(?:blk_update_request: |print_req_error: |end_request: )?"
    r"(?P<what>I/O error|critical medium error|critical target error), "
    r"dev (?P<disk>[\w-]{1,40}), sector (?P<sector>\d{1,20})"
)
_BUFFER = re.compile(r"^Buffer I/O error on dev(?:ice)? (?P<disk>[\w-]{1,40}), logical block (?P<sector>\d{1,20})")
_NVME_STATUS = re.compile(
    r"^(?P<disk>nvme\d{1,4}n\d{1,4}): .{1,80}, I/O Error \(sct (?P<type>0x[0-9a-f]) / sc (?P<status>0x[0-9a-f]{1,2})\)"
)
_SENSE = re.compile(
    r"^sd [\d:]{7,20}: \[(?P<disk>sd[a-z]{1,3})\] .{0,40}Sense Key : (?P<what>Medium Error|Hardware Error)"
)
_RAID = re.compile(r"^md/raid\w{0,4}:md\w{1,12}: Disk failure on (?P<disk>\w{2,20}), disabling device")
_READ_ONLY = re.compile(
    r"^(?:EXT\d-fs \((?P<disk>[\w-]{1,40})\): [Rr]emounting filesystem read-only"
    r"|BTRFS info \(device (?P<other>[\w-]{1,40})[^)]{0,20}\): forced readonly)"
)
_SHUT = re.compile(
    r"^XFS \((?P<disk>[\w-]{1,40})\): (?:.{0,120}[Ss]hutting down filesystem|.{0,40}Filesystem has been shut down)"
)
_FS_ERROR = re.compile(
    r"^(?:EXT\d-fs error \(device (?P<ext>[\w-]{1,40})\)"
    r"|Aborting journal on device (?P<journal>[\w-]{1,40}?)(?:-\d{1,3})?\."
    r"|XFS \((?P<xfs>[\w-]{1,40})\): (?:log|metadata) I/O error"
    r"|BTRFS (?:error|critical) \(device (?P<btrfs>[\w-]{1,40})[^)]{0,20}\))"
)
_REMOVABLE = re.compile(r"^(?:sr|fd|loop|nbd|zram|ram)\d")
_PARTITION = re.compile(r"^(nvme\d+)(?:c\d+)?n\d+(?:p\d+)?$|^(sd[a-z]+|vd[a-z]+|xvd[a-z]+)\d*$")


def _disk(device: str) -> Name:
    """The disk of a device: partitions and name spaces belong to their controller."""
    match = _PARTITION.match(device)
    return name(Kind.DISK, UNKNOWN, (match[1] or match[2]) if match else device)


def _filesystem(device: str) -> Name:
    return name(Kind.FILESYSTEM, UNKNOWN, device)


def _timeout(match: re.Match[str]) -> Record:
    completed = "completion polled" in match["what"]  # the answer was there, only its interrupt was lost
    attributes = {"queue": match["queue"], "then": match["what"]}
    return told(
        "disk.timeout",
        _disk(match["disk"]),
        attributes=attributes,
        **({"severity": Severity.INFO} if completed else {}),
    )


def _down(match: re.Match[str]) -> Record:
    return told(
        "disk.timeout",
        _disk(match["disk"]),
        severity=Severity.ERROR,
        attributes={"controller": "down", "status": match["status"]},
    )


def _failed(match: re.Match[str]) -> Record:
    return told("disk.failed", _disk(match["disk"]), attributes={"what": match["what"]})


def _io_error(match: re.Match[str]) -> Record | None:
    if _REMOVABLE.match(match["disk"]):
        return None
    attributes = {"sector": match["sector"], "device": match["disk"]} | (
        {"what": match["what"]} if "what" in match.groupdict() else {}
    )
    return told("disk.io_error", _disk(match["disk"]), attributes=attributes)


def _status(match: re.Match[str]) -> Record | None:
    if match["type"] not in ("0x2", "0x3"):  # media and path errors; others are refused commands
        return None
    return told("disk.io_error", _disk(match["disk"]), code=f"NVMe {match['type']}/{match['status']}")


def _sense(match: re.Match[str]) -> Record:
    return told("disk.io_error", _disk(match["disk"]), attributes={"what": match["what"]})


def _raid(match: re.Match[str]) -> Record:
    return told("disk.failed", _disk(match["disk"]), attributes={"what": "failed in its array"})


def _read_only(match: re.Match[str]) -> Record:
    return told("filesystem.read_only", _filesystem(match["disk"] or match["other"]))


def _shut(match: re.Match[str]) -> Record:
    return told("filesystem.read_only", _filesystem(match["disk"]), attributes={"what": "shut down"})


def _fs_error(match: re.Match[str]) -> Record:
    return told("filesystem.error", _filesystem(next(device for device in match.groups() if device)))


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Record | None]], ...] = (
    (_TIMEOUT, _timeout), (_DOWN, _down), (_FAILED, _failed), (_IO_ERROR, _io_error), (_BUFFER, _io_error),
    (_NVME_STATUS, _status),
    (_SENSE, _sense), (_RAID, _raid), (_READ_ONLY, _read_only), (_SHUT, _shut), (_FS_ERROR, _fs_error),
)  # fmt: skip


class GRAMMAR:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """The error that a kernel line tells."""
        if not kernel_speaks(line):
            return
        for pattern, tell in _TELLS:
            if match := pattern.match(line.body):
                if (record := tell(match)) is not None:
                    yield record
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample(
        "nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
        ({"type": "event", "kind": "disk.timeout", "component": "disk:?/nvme1"},),
    ),
    Sample(
        "nvme nvme2: I/O 263 (I/O Cmd) QID 2 timeout, aborting",
        ({"type": "event", "kind": "disk.timeout", "component": "disk:?/nvme2"},),
    ),
    Sample(
        "nvme nvme2: I/O tag 71 (a047) opcode 0x2 (I/O Cmd) QID 9 timeout, aborting req_op:READ(0) size:65536",
        _expect("disk.timeout", "disk:?/nvme2", attributes={"queue": "9", "then": "aborting"}),
    ),
    Sample("nvme nvme2: I/O 71 QID 9 timeout, aborting", _expect("disk.timeout", "disk:?/nvme2")),
    Sample("nvme nvme2: I/O 4 QID 0 timeout, reset controller", _expect("disk.timeout", "disk:?/nvme2")),
    Sample(
        "nvme nvme2: I/O 12 QID 3 timeout, completion polled",
        _expect("disk.timeout", "disk:?/nvme2", severity=Severity.INFO),
    ),
    Sample(
        "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
        _expect("disk.timeout", "disk:?/nvme2", severity=Severity.ERROR),
    ),
    Sample("nvme nvme2: Device not ready; aborting reset, CSTS=0x1", _expect("disk.failed", "disk:?/nvme2")),
    Sample("nvme nvme2: Disabling device after reset failure: -19", _expect("disk.failed", "disk:?/nvme2")),
    Sample(
        "blk_update_request: I/O error, dev sdb, sector 88213 op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 0",
        _expect("disk.io_error", "disk:?/sdb"),
    ),
    Sample(
        "I/O error, dev nvme2n1, sector 90211 op 0x1:(WRITE) flags 0x4000 phys_seg 16 prio class 0",
        _expect("disk.io_error", "disk:?/nvme2"),
    ),
    Sample(
        "critical medium error, dev sdc, sector 5123 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        _expect("disk.io_error", "disk:?/sdc"),
    ),
    Sample("I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0", ()),
    Sample(
        "Buffer I/O error on dev nvme2n1p1, logical block 71, lost async page write",
        _expect("disk.io_error", "disk:?/nvme2"),
    ),
    Sample(
        "nvme2n1: Read(0x2) @ LBA 5120, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE DNR",
        _expect("disk.io_error", "disk:?/nvme2"),
    ),
    Sample("sd 0:0:2:0: [sdc] tag#14 Sense Key : Medium Error [current]", _expect("disk.io_error", "disk:?/sdc")),
    Sample("md/raid1:md0: Disk failure on nvme4n1p2, disabling device.", _expect("disk.failed", "disk:?/nvme4")),
    Sample("EXT4-fs (md127): Remounting filesystem read-only", _expect("filesystem.read_only", "filesystem:?/md127")),
    Sample(
        "EXT4-fs error (device dm-3): ext4_find_entry:1455: inode #2: comm trainer: reading directory lblock 0",
        _expect("filesystem.error", "filesystem:?/dm-3"),
    ),
    Sample("Aborting journal on device md127-8.", _expect("filesystem.error", "filesystem:?/md127")),
    Sample("XFS (nvme2n1p1): log I/O error -5", _expect("filesystem.error", "filesystem:?/nvme2n1p1")),
    Sample(
        "XFS (nvme2n1p1): Filesystem has been shut down due to log error (0x2).",
        _expect("filesystem.read_only", "filesystem:?/nvme2n1p1"),
    ),
    Sample("BTRFS info (device sdb state EA): forced readonly", _expect("filesystem.read_only", "filesystem:?/sdb")),
)
