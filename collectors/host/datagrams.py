"""A local datagram socket that any user of the host may write to; the kernel names the sender of each datagram."""

import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collectors.agent.bell import heard

MAX_BYTES = 16_384  # of one datagram; longer ones are cut by the kernel, and refused
NOBODY = -1  # where the kernel names no sender
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid: struct ucred, unix(7)
_MODE = 0o666  # a datagram needs the right to write


class Datagram(NamedTuple):
    """One datagram. `whole` False: it was longer than is taken."""

    data: bytes
    uid: int
    pid: int
    whole: bool


class Unavailable(OSError):
    """The socket cannot be had; the text says why."""


class Listener:
    """Listens at `path` until closed. Raises Unavailable, also where another one listens there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = _opened(path.parent)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # Through the open folder: names of sockets are short (108 bytes), a host's root need not be.
        self._name = f"/proc/self/fd/{self._folder}/{path.name}"
        try:
            self._bind()
        except OSError as error:
            self.close()
            raise Unavailable(f"{path}: {error.strerror or error}") from None

    def _bind(self) -> None:
        self._socket.setblocking(False)
        if hasattr(socket, "SO_PASSCRED"):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with suppress(FileNotFoundError):
            found = os.stat(self.path.name, dir_fd=self._folder, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode):
                raise OSError("there is something that is no socket")
            if _answers(self._name):
                raise OSError("another process listens there")
            os.unlink(self.path.name, dir_fd=self._folder)  # an earlier run's
        self._socket.bind(self._name)
        os.chmod(self.path.name, _MODE, dir_fd=self._folder)
        self._inode = os.stat(self.path.name, dir_fd=self._folder, follow_symlinks=False).st_ino

    @property
    def reachable(self) -> bool:
        """Whether the path still leads here: somebody may have cleared the folder, or made it anew."""
        with suppress(OSError):
            return os.stat(self.path, follow_symlinks=False).st_ino == self._inode
        return False

    @property
    def handle(self) -> int:
        """What can be waited for."""
        return self._socket.fileno()

    def wait(self, seconds: float) -> bool:
        """Whether something came in that time."""
        return bool(heard(seconds, self.handle))

    def receive(self) -> Datagram | None:
        """The next datagram, None where there is none now."""
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except (BlockingIOError, InterruptedError):
            return None
        pid, uid = _sender(ancillary)
        return Datagram(data, uid, pid, not flags & socket.MSG_TRUNC)

    def close(self) -> None:
        """Stop listening. The name stays: taking it away could take that of a process that came after."""
        self._socket.close()
        with suppress(OSError):
            os.close(self._folder)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"{folder}: {error.strerror or error}") from None


def _answers(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
        except OSError:
            return False
        return True


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    pid, uid = 0, NOBODY
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, getattr(socket, "SCM_CREDENTIALS", None)):
            pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):  # nobody's open files are wanted
            for at in range(0, len(data) - len(data) % 4, 4):
                os.close(int.from_bytes(data[at : at + 4], "little"))
    return pid, uid
