"""Where the records of a simulation go: files, the log, or nowhere; the sum of all bytes is told of each."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from sickbay.log import Appender
from sickbay.topics import TELEMETRY

Record = tuple[bytes, bytes | memoryview]  # key and value


class Sink(Protocol):
    """Takes the records of one part of the hosts."""

    def put(self, topic: str, records: Iterable[Record], at_ms: int) -> None:
        """Records of a topic, appended at `at_ms`."""
        ...

    def close(self) -> Mapping[str, str]:
        """The digest of each file that was, or would have been, written."""
        ...


class Files:
    """`TOPIC-PART.frames`: frames, one behind the other, each tells its own size and host; `TOPIC-PART.jsonl`: a record
    a line, with its key and the time at which it was appended. `folder` None: the digests of all that, and no files."""

    def __init__(self, folder: Path | None, part: int) -> None:
        self._folder, self._part = folder, part
        self._files: dict[str, BinaryIO] = {}
        self._digests: dict[str, hashlib._Hash] = {}

    def put(self, topic: str, records: Iterable[Record], at_ms: int) -> None:
        """See `Sink`."""
        frames = topic == TELEMETRY
        pieces = [value if frames else _line(key, value, at_ms) for key, value in records]
        if pieces:
            self._write(f"{topic.split('.')[1]}-{self._part:03d}.{'frames' if frames else 'jsonl'}", b"".join(pieces))

    def _write(self, name: str, data: bytes) -> None:
        if name not in self._digests:
            self._digests[name] = hashlib.sha256()
            if self._folder:
                self._files[name] = (self._folder / name).open("wb")
        self._digests[name].update(data)
        if self._folder:
            self._files[name].write(data)

    def close(self) -> Mapping[str, str]:
        """See `Sink`."""
        for file in self._files.values():
            file.close()
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


class Appended:
    """Appended to the log."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._digests: dict[str, hashlib._Hash] = {}

    def put(self, topic: str, records: Iterable[Record], at_ms: int) -> None:
        """See `Sink`."""
        for key, value in records:
            self._digests.setdefault(topic, hashlib.sha256()).update(key + b"\0" + value)
            self._appender.append(topic, key, bytes(value))
        self._appender.flush()

    def close(self) -> Mapping[str, str]:
        """See `Sink`. The appender is closed by who opened it."""
        return {topic: digest.hexdigest() for topic, digest in self._digests.items()}


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of all files: SHA-256 of their names and digests, in the order of the names."""
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode()).hexdigest()


def _line(key: bytes, value: bytes | memoryview, at_ms: int) -> bytes:
    import msgspec

    return b'{"key":%s,"at_ms":%d,"value":%s}\n' % (msgspec.json.encode(key.decode()), at_ms, value)
