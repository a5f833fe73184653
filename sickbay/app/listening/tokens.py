"""Who may send what to a listener: a TOML file of tokens, each bound to hosts and to kinds of data.

    [prometheus-south]
    sha256 = "..."                     # of the token: `openssl rand -hex 32 | tee token | tr -d '\\n' | sha256sum`
    hosts = ["gx-*", "rack:r7"]        # patterns of hosts and switches; of other parts by their full name
    kinds = ["metrics", "logs"]        # of metrics, logs, conditions, changes, maintenance, records
    requests_per_s = 50                # else as in [listen]

The file holds no secret that could be used. It is read again when it changes; a damaged one leaves the old in force.
"""

import hashlib
import hmac
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from collectors.listen import KINDS, owner
from collectors.listen.memory import SeenSeries, SeriesMemory
from sickbay.components import Name, host_of
from sickbay.config import ConfigError
from sickbay.source_settings import Listen

MAX_FILE = 1 << 20  # bytes
LOOK_S = 2.0  # between two looks whether the file has changed
BURST_S = 2.0  # of requests at once, in seconds of the rate
MAX_TOKEN = 512  # characters


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One token of the file."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    hosts: tuple[Annotated[str, Meta(min_length=1, max_length=240)], ...]
    kinds: tuple[str, ...]
    requests_per_s: Annotated[float, Meta(ge=0.01, le=100_000)] | None = None


@dataclass(slots=True)
class Grant:
    """A token at work: what it may do, how much of it is left, and what its requests have taught."""

    name: str
    row: Row
    memory: SeriesMemory
    lock: threading.Lock = field(default_factory=threading.Lock)
    _left: float = 0.0
    _at: float = field(default_factory=lambda: -BURST_S)

    def allowed(self, component: Name) -> bool:
        """Whether it may tell of a component: its host or switch must fit one of the patterns, else its full name.

        A pattern of hosts fits hosts only: `r*` is no word on `rack:r7`.
        """
        try:
            told = owner(component)
        except ValueError:
            return False
        of_host = host_of(component) is not None
        return any(fnmatchcase(told, pattern) for pattern in self.row.hosts if (":" in pattern) != of_host)

    def passes(self, rate: float, now: float | None = None) -> bool:
        """Takes one request from its share; False: it has had it."""
        rate, now = self.row.requests_per_s or rate, time.monotonic() if now is None else now
        most = max(1.0, rate * BURST_S)
        self._left = min(most, self._left + max(0.0, now - self._at) * rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Tokens:
    """The tokens of a file. Raises ConfigError where it cannot be used."""

    def __init__(self, settings: Listen, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._path = Path(settings.tokens_file)
        self._grants: dict[str, Grant] = {}
        self._stamp: tuple[int, int] = (0, 0)
        self._looked, self._trouble = 0.0, ""
        self._load()

    def grant(self, authorization: str) -> Grant | None:
        """Whose token an Authorization header shows; None: nobody's. All are compared, each in constant time."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            return None
        self._look()
        shown, found = hashlib.sha256(token.strip().encode("utf-8", "replace")).hexdigest(), None
        for grant in self._grants.values():
            if hmac.compare_digest(grant.row.sha256, shown):
                found = grant
        return found

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        try:
            if self._stamp != self._stamped():
                self._load()
                self._say(f"listen: {len(self._grants)} tokens read anew")
            self._trouble = ""
        except (ConfigError, OSError) as error:
            if str(error) != self._trouble:
                self._say(f"listen: the tokens stay as they were: {error}")
            self._trouble = str(error)

    def _stamped(self) -> tuple[int, int]:
        told = self._path.stat()
        return told.st_mtime_ns, told.st_size

    def _load(self) -> None:
        try:
            self._stamp = self._stamped()
            with self._path.open("rb") as file:
                rows = rows_of(file.read(MAX_FILE + 1))
        except OSError as error:
            raise ConfigError(f"[listen] tokens_file {self._path}: {error.strerror or error}") from None
        except ValueError as error:
            raise ConfigError(f"[listen] tokens_file {self._path}: {error}") from None
        self._grants = {name: self._grant(name, row) for name, row in rows.items()}

    def _grant(self, name: str, row: Row) -> Grant:
        """What a token has taught stays where its rights change."""
        grant = self._grants.get(name) or Grant(name, row, SeriesMemory(seen=SeenSeries(self._settings.max_series)))
        grant.row = row
        return grant


def rows_of(text: bytes) -> Mapping[str, Row]:
    """The rows of a file. Raises ValueError that says what is wrong."""
    if len(text) > MAX_FILE:
        raise ValueError(f"larger than {MAX_FILE} bytes")
    rows = msgspec.convert(tomllib.loads(text.decode("utf-8")), dict[str, Row])
    for name, row in rows.items():
        if unknown := set(row.kinds) - set(KINDS):
            raise ValueError(f"[{name}] kinds: there is no {min(unknown)!r}; there are {', '.join(KINDS)}")
    if len({row.sha256 for row in rows.values()}) != len(rows):
        raise ValueError("two of them are the same token")
    return rows
