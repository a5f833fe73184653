"""Readings as messages: every component under its one name, with the time and place of what was read."""

from collections.abc import Iterable

from collectors.agent.source import Seen
from collectors.identity import Names
from sickbay.components import UNKNOWN, Kind
from sickbay.messages import MAX_MESSAGE, Event, Identity, Progress, Step, replace

MAX_TOLD = 8 << 10  # characters of an event's texts; the topic takes 64 KiB of JSON, escapes included
MAX_FACT, MAX_FACTS = 100, 24  # of one that has more
MAX_IDENTITIES = 4096  # of one host


def event_of(event: Event, seen: Seen, names: Names, seen_ms: int) -> Event:
    """The event as it is sent, with the time and place at which it was `seen`, by a look at `seen_ms`."""
    host, job = seen.host, seen.job
    return replace(  # type: ignore[no-any-return]
        event,
        component=names.canonical(event.component, host, event.job or job),
        peer=names.canonical(event.peer, host, job) if event.peer else "",
        host=event.host or ("" if host == UNKNOWN else host),
        at_ms=seen.at_ms,
        seen_ms=seen_ms,
        path=seen.path,
        line=seen.line,
        job=event.job or ("" if job == UNKNOWN else job),
    )


def progress_of(record: Progress | Step, seen: Seen) -> Progress | Step:
    """The record as it is sent, with the time and place at which it was `seen`."""
    job = seen.job if record.job == UNKNOWN else record.job
    return replace(record, job=job, at_ms=seen.at_ms, path=seen.path, line=seen.line)  # type: ignore[no-any-return]


def fitting(event: Event) -> Event:
    """The event as readers accept it and the topic takes it: a text of megabytes must not cost the event itself."""
    told = (
        len(event.message) + len(event.code) + sum(len(name) + len(value) for name, value in event.attributes.items())
    )
    if told <= MAX_TOLD and len(event.message) <= MAX_MESSAGE:
        return event
    facts = {name[:MAX_FACT]: value[:MAX_FACT] for name, value in list(event.attributes.items())[:MAX_FACTS]}
    return replace(event, message=event.message[:MAX_MESSAGE], code=event.code[:MAX_FACT], attributes=facts)  # type: ignore[no-any-return]


class Cards:
    """The devices of one host as its sources tell them: of two that claim one place, the newer."""

    def __init__(self, known: Iterable[Identity] = ()) -> None:
        self._rows: dict[str, Identity] = {}
        self.names = Names(())
        self.learn(known)

    @property
    def known(self) -> list[Identity]:
        """All that was learnt."""
        return list(self._rows.values())

    def learn(self, told: Iterable[Identity]) -> list[Identity]:
        """Take identities; those that are news, and those that are so no more."""
        news = []
        for one in told:
            key = identity_key(one)
            if self._rows.get(key) != one and (key in self._rows or len(self._rows) < MAX_IDENTITIES):
                changed = [*self._taken_over(one, key), one]
                self._rows |= {identity_key(each): each for each in changed}
                news += changed
        if news:
            self.names = Names(self._rows.values())
        return news

    def _taken_over(self, one: Identity, key: str) -> list[Identity]:
        """Ports at other addresses, now nameless, that were called so until devices were numbered anew at a boot."""
        if one.kind != Kind.PORT:
            return []
        named = ((place, row) for place, row in self._rows.items() if row.kind == Kind.PORT and place != key)
        return [
            replace(row, index="", name="", uuid="")
            for _, row in named
            if row.pci and ((row.index and row.index == one.index) or (row.name and row.name == one.name))
        ]


def identity_key(one: Identity) -> str:
    """The key of an identity on its topic. Ports keep their address where they are called anew at each boot."""
    if one.kind == Kind.PORT:
        return f"{one.host} {one.kind} {one.pci or one.index or one.name}"
    return f"{one.host} {one.kind} {one.index or one.pci or one.uuid or one.name}"
