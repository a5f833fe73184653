"""Where a log file may lie: not on a network file system, whose locks and shared memory do not hold."""

import os
import re
from pathlib import Path

from sickbay.log import UnfitPlace

# As /proc/self/mountinfo spells them. SQLite's WAL needs memory shared between processes, which none of these gives.
NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "ceph", "gpfs", "beegfs", "afs", "orangefs", "pvfs2", "9p",
        "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.juicefs", "fuse.rclone", "fuse.gcsfuse",
        "fuse.weka", "wekafs", "panfs", "glusterfs",
    }
)  # fmt: skip


def filesystem_of(path: str, mountinfo: str) -> str | None:
    """The type of the file system that `path` (absolute, resolved) lies on, None where the table does not tell."""
    best, kind = "", None
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):  # of two mounts on one place the later one is seen
            best, kind = mount, right.split(" ")[0]
    return kind


def check_place(directory: Path) -> None:
    """Raises UnfitPlace where `directory` lies on a network file system (known on Linux only)."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = filesystem_of(os.path.realpath(directory), mountinfo)
    if kind in NETWORK:
        raise UnfitPlace(f"{directory} lies on {kind}: put the log on a local disk, or use a broker")
