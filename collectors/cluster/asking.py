"""Asks many devices side by side, each within its time: one that hangs holds up no other."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

WORKERS = 32  # devices asked at the same time
MOST_NAMED = 3  # devices of one reason, and reasons, of those that a line names


class Target(NamedTuple):
    """A device and where it answers."""

    name: str
    address: str


class Answers(NamedTuple, Generic[T]):
    """What the devices said, and why the others did not."""

    told: Mapping[str, T]
    failed: Mapping[str, str]


def some_of(failed: Mapping[str, str]) -> str:
    """Who did not answer and why, in one line: a few by name, those of the same reason together, and how many more."""
    whom: dict[str, list[str]] = {}
    for name, why in failed.items():
        whom.setdefault(why.replace(name, "").strip(" :"), []).append(name)
    told = {why: names[:MOST_NAMED] for why, names in list(whom.items())[:MOST_NAMED]}
    more = len(failed) - sum(map(len, told.values()))
    lines = [f"{', '.join(names)}: {why}" for why, names in told.items()]
    return "; ".join([*lines, *([f"and {more} more of {len(failed)}"] if more else [])])


@dataclass(slots=True)
class Asker(Generic[T]):
    """Asks by `ask(target)`, which has a time limit of its own. A device that still hangs from an earlier round is not
    asked again until that question has ended, so that hanging ones never use up the workers of the others."""

    ask: Callable[[Target], T]
    limit_s: float
    _busy: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def round(self, targets: Sequence[Target]) -> Answers[T]:
        """One question to each, all within `limit_s`."""
        deadline = time.monotonic() + self.limit_s
        told: dict[str, T] = {}
        failed: dict[str, str] = {}
        with self._lock:
            due = [target for target in targets if target.name not in self._busy]
            self._busy |= {target.name for target in due}
        failed |= {target.name: "still hangs from an earlier question" for target in targets if target not in due}
        pool = ThreadPoolExecutor(min(WORKERS, max(1, len(due))), thread_name_prefix="ask")
        try:
            asked = {target.name: pool.submit(self._one, target) for target in due}
            for name, future in asked.items():
                try:
                    told[name] = future.result(max(0.0, deadline - time.monotonic()))
                except Late:
                    if future.cancel():  # its turn did not come
                        self._ended(name)
                    failed[name] = f"no answer within {self.limit_s:g} s"
                except Exception as error:  # whatever one device does to its client must not silence the others
                    failed[name] = f"{type(error).__name__}: {error}"[:300]
        finally:
            pool.shutdown(wait=False, cancel_futures=False)
        return Answers(told, failed)

    def _one(self, target: Target) -> T:
        try:
            return self.ask(target)
        finally:
            self._ended(target.name)

    def _ended(self, name: str) -> None:
        with self._lock:
            self._busy.discard(name)


def targets(told: Sequence[str], setting: str) -> list[Target]:
    """Targets as settings write them, `name=address`. Raises ValueError that says what would be right."""
    found = []
    for text in told:
        name, equals, address = text.partition("=")
        if not (name.strip() and equals and address.strip()):
            raise ValueError(f"{setting}: {text!r} must be name=address")
        found.append(Target(name.strip(), address.strip()))
    if len({one.name for one in found}) < len(found):
        raise ValueError(f"{setting}: two targets of the same name")
    return found
