"""Power, cooling and hosts' management controllers by Redfish, asked side by side: readings, and their own word.

A unit that fell silent while others answer is a reading (`up`, `management_up` 0) and a notice. Where nobody answers
the fault may be ours: nothing is told of any. Of one that answers by half, only what it says is wrong is believed.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collectors.cluster import asking
from collectors.cluster.asking import WORKERS, Answers, Asker, Target, some_of
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.cluster.poll_frames import sender_of
from collectors.cluster.redfish_get import Session, Told, seconds, unit
from collectors.formats import facility_findings, redfish_units
from collectors.formats.events import event
from collectors.formats.facility_findings import Finding, Key
from collectors.http_get import address_of
from collectors.rows import samples
from sickbay.addresses import guarded
from sickbay.components import Kind, Name, kind_of, name
from sickbay.config import ConfigError
from sickbay.messages import MAX_MESSAGE, Event, replace
from sickbay.schema import Samples
from sickbay.settings import Config
from sickbay.source_settings import Facility
from sickbay.topics import EVENTS

KINDS = (Kind.CDU, Kind.PDU, Kind.HOST)
SOURCE = "redfish"
_UP = {Kind.HOST: "management_up"}  # of the other kinds: up
# Of errors in what the device itself said, a certificate that ran out too.
_ALIVE = ("answered ", "the answer", "units behind", "the service has", "TLS: ")
_STUMBLED = re.compile(r"(?!HttpError)\w+(?:Error|Exception): ")


@dataclass(frozen=True, slots=True)
class State:
    """What stands, who has been heard, and who was silent at the last look and why."""

    known: Mapping[Key, Finding] = field(default_factory=dict)
    heard: frozenset[Name] = frozenset()
    silent: Mapping[Name, str] = field(default_factory=dict)


def sources(config: Config) -> list[Source[State]]:
    """The one question of all units. Raises ConfigError."""
    settings = config.facility
    targets = checked(settings)
    headers = {"Accept": "application/json", "OData-Version": "4.0", **_authorization(settings)}
    return [of(lambda target: asked(target, headers, settings), targets, settings)]


def of(ask: Callable[[Target], Told], targets: list[Target], settings: Facility) -> Source[State]:
    """The question to units that `ask` reaches."""
    limit_s = seconds(settings.timeout_s, len(targets), WORKERS)
    asker = Asker(ask, limit_s)
    return Source(
        "facility",
        settings.poll_s,
        State(),
        lambda state, now_ms: polled(state, asker.round(targets), now_ms),
        limit_s=limit_s + 5,
    )


def checked(settings: Facility) -> list[Target]:
    """The units that the settings name. Raises ConfigError that says what would be right."""
    if not settings.redfish:
        raise ConfigError('[facility] redfish: names nothing: write redfish = ["cdu:c1=https://10.0.0.9"]')
    try:
        found = asking.targets(settings.redfish, "[facility] redfish")
        for target in found:
            address_of(target.address)
            guarded(target.address, settings.user)
            if (kind := target.name.partition(":")[0]) not in KINDS or not target.name.partition(":")[2]:
                raise ValueError(f"{target.name!r}: {kind[:20]!r} is none of {', '.join(KINDS)}, such as cdu:c1")
    except ValueError as error:
        raise ConfigError(f"[facility] redfish: {error}") from None
    return [Target(name(kind_of(one.name), one.name.partition(":")[2]), one.address) for one in found]


def _authorization(settings: Facility) -> dict[str, str]:
    if not settings.user:
        return {}
    try:
        password = Path(settings.password_file).read_text("utf-8").strip() if settings.password_file else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"[facility] password_file {settings.password_file}: {error}") from None
    return {"Authorization": "Basic " + base64.b64encode(f"{settings.user}:{password}".encode()).decode()}


def asked(target: Target, headers: Mapping[str, str], settings: Facility) -> Told:
    """What one unit tells, within its time. Raises HttpError."""
    address = address_of(target.address)
    session = Session(address, headers, settings.ca_file, settings.timeout_s)
    try:
        return unit(session.get, kind_of(target.name), address.path)
    finally:
        session.close()


def polled(state: State, answers: Answers[Told], now_ms: int) -> Polled[State]:
    """Rows and events of one round. Raises PollFailed where nobody answered."""
    if not answers.told:
        whom = some_of(answers.failed) or "there is no unit"
        raise PollFailed(f"no unit answers: {whom} ([facility] redfish, user, ca_file, timeout_s)")
    cells = {kind: dict[Name, dict[str, float]]() for kind in KINDS}
    known, events = dict(state.known), list[Event]()
    for component, told in answers.told.items():
        judged = redfish_units.judged(component, told.resources)
        whole = judged.whole or kind_of(component) is Kind.HOST
        cells[kind_of(component)][component] = _up(component, 1.0) | ({} if told.missing else judged.row)
        before = {key: one for key, one in known.items() if key.component == component}
        heard = [component] if whole and not told.missing else []
        after, fresh = facility_findings.step(before, judged.findings, heard, now_ms)
        known = {key: one for key, one in known.items() if key not in before} | after
        events += fresh if component in state.heard else map(_found_so, fresh)
    for component, why in answers.failed.items():
        if any(word in why for word in _ALIVE) or _STUMBLED.match(why):
            cells[kind_of(component)][component] = _up(component, 1.0)
        elif component in state.heard:
            cells[kind_of(component)][component] = _up(component, 0.0)
    silent = dict(answers.failed) | {one: told.missing for one, told in answers.told.items() if told.missing}
    events += _notices(state.silent, silent, now_ms)
    after_state = State(known, state.heard | answers.told.keys(), silent)
    return Polled(after_state, [_outgoing(one) for one in events], samples=_samples(cells, now_ms))


def _up(component: Name, value: float) -> dict[str, float]:
    return {_UP.get(kind_of(component), "up"): value}


def _found_so(one: Event) -> Event:
    """What stood there at the first look: since when nobody knows."""
    return replace(one, attributes={**one.attributes, "onset": "unknown"})  # type: ignore[no-any-return]


def _notices(before: Mapping[Name, str], now: Mapping[Name, str], now_ms: int) -> Iterable[Event]:
    """Who has fallen silent, and who answers again."""
    for component in sorted(now.keys() - before.keys()):
        yield _notice("monitor.blind", component, "no answer", now[component], now_ms)
    for component in sorted(before.keys() - now.keys()):
        yield _notice("monitor.notice", component, "answers again", "it answers again", now_ms)


def _notice(kind: str, component: Name, code: str, text: str, now_ms: int) -> Event:
    monitor = name(Kind.MONITOR, sender_of(component), SOURCE)
    return event(kind, monitor, {"unit": component}, code=code, message=text[:MAX_MESSAGE], at_ms=now_ms)


def _outgoing(one: Event) -> Outgoing:
    return Outgoing(EVENTS, sender_of(one.component), one)


def _samples(cells: Mapping[Kind, Mapping[Name, Mapping[str, float]]], now_ms: int) -> list[Samples]:
    return [batch for kind, rows in cells.items() for batch in samples(str(kind), rows, now_ms)]
