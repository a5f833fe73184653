"""Laws that every detector, and diagnosis as a whole, must obey."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.case import Case
from diagnosis.detectors import CATALOGUE
from diagnosis.engine import advance, detectors, diagnose, evidence_of
from diagnosis.explain import LANGUAGES, says, sentences
from sickbay import messages
from sickbay.messages import Event, Incident
from sickbay.vocabulary import event_kinds, faults
from tests.diagnosis.kit import HOSTS, T0, case, event, placement
from tests.diagnosis.test_diagnosis_nights import night_1, night_8, night_14

NIGHTS: dict[str, Callable[[], Case]] = {"1": night_1, "8": night_8, "14": night_14}
KINDS = sorted(event_kinds())


@st.composite
def any_events(draw: st.DrawFn) -> list[Event]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(KINDS))
        host = draw(st.sampled_from(["h15", "h16", "?"]))
        at_s = draw(st.none() | st.integers(-900, 900))
        found.append(
            event(kind, f"{event_kinds()[kind].component}:{host}/{draw(st.sampled_from('ab'))}", at_s, line=number)
        )
    return found


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_silence_raises_nothing(name: str) -> None:
    detect = detectors()[name]
    assert list(detect(case())) == []
    assert list(detect(case([], [placement("4471", HOSTS)]))) == []


def test_the_catalogue_names_the_files() -> None:
    from pathlib import Path

    import diagnosis.detectors

    folder = Path(diagnosis.detectors.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(CATALOGUE)


@pytest.mark.slow
@pytest.mark.parametrize("night", sorted(NIGHTS))
def test_a_replay_gives_the_same_evidence_and_incidents(night: str) -> None:
    assert evidence_of(NIGHTS[night]()) == evidence_of(NIGHTS[night]())
    assert diagnose(NIGHTS[night]()) == diagnose(NIGHTS[night]())


@pytest.mark.parametrize("night", sorted(NIGHTS))
def test_the_input_is_left_alone(night: str) -> None:
    at = NIGHTS[night]()
    before = {table: frame.clone() for table, frame in at.features.items()}
    events = [messages.encode(one) for one in at.events]
    diagnose(at)
    assert all(frame.equals(before[table]) for table, frame in at.features.items())
    assert [messages.encode(one) for one in at.events] == events


@pytest.mark.parametrize("night", sorted(NIGHTS))
def test_the_order_of_rows_and_progress_changes_nothing(night: str) -> None:
    at = NIGHTS[night]()
    shuffled = replace(
        at,
        progress=tuple(random.Random(1).sample(at.progress, len(at.progress))),
        features={table: frame.sample(fraction=1.0, shuffle=True, seed=2) for table, frame in at.features.items()},
    )
    assert diagnose(shuffled) == diagnose(at)


def renamed(text: str) -> str:
    return text.replace("h17", "q17")


def test_renaming_a_host_changes_only_names() -> None:
    def shape(incident: Incident) -> tuple[object, ...]:
        return incident.verdict, incident.fault, incident.action, incident.probability, incident.onset_ms

    def named(incident: Incident) -> tuple[object, ...]:
        return (renamed(incident.component), *(renamed(suspect.component) for suspect in incident.suspects))

    at = night_1()
    moved = [messages.decode(renamed(messages.encode(one).decode()).encode()) for one in at.events]
    places = [messages.decode(renamed(messages.encode(one).decode()).encode()) for one in at.placements]
    features = {
        table: frame.with_columns(frame["component"].str.replace_all("h17", "q17"))
        for table, frame in at.features.items()
    }
    assert all(isinstance(one, Event) for one in moved)
    other = case(moved, places, [], features, progress=at.progress, now_ms=at.now_ms)  # type: ignore[arg-type]
    assert [shape(one) for one in diagnose(other)] == [shape(one) for one in diagnose(at)]
    assert [named(one) for one in diagnose(other)] == [named(one) for one in diagnose(at)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(any_events())
def test_any_events_give_lawful_incidents_that_cross_a_seam(events: list[Event]) -> None:
    incidents = diagnose(case(events, [placement("4471", HOSTS)]))
    assert len({one.id for one in incidents}) == len(incidents)
    for incident in incidents:
        assert incident.action in messages.ALLOWED_ACTIONS[incident.verdict]
        assert sum(suspect.probability for suspect in incident.suspects) <= 1.0
        assert incident.probability <= 0.98
        assert incident.id in {one.id for one in incident.evidence}
        assert messages.decode(messages.encode(incident)) == incident
        assert incident.component not in incident.dependants


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(any_events(), st.randoms(use_true_random=False))
def test_the_order_of_undated_events_changes_nothing(events: list[Event], chance: random.Random) -> None:
    undated = [messages.replace(one, at_ms=None) for one in events]
    mixed = chance.sample(undated, len(undated))
    assert diagnose(replace(case(), events=tuple(mixed))) == diagnose(replace(case(), events=tuple(undated)))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(any_events())
def test_each_claim_says_something_in_both_languages(events: list[Event]) -> None:
    for one in evidence_of(case(events)):
        assert one.says in sentences()
        assert all(says(one, lang) for lang in LANGUAGES)
        assert one.fault in faults()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(any_events())
def test_looking_twice_changes_nothing(events: list[Event]) -> None:
    at = case(events, now_ms=T0 + 900_000)
    once = advance((), at)
    assert advance(once, at) == once


def test_a_record_about_nothing_that_has_a_name_does_not_stop_the_rest() -> None:
    bad = [event("accelerator.off_bus", text) for text in ("", "h17", "nonsense:h17/x", ":", "host")]
    peer = event("filesystem.request_slow", "filesystem:h17/a", peer="what is this")
    (incident,) = diagnose(case([*bad, peer, event("port.down", "port:h17/eth0")]))
    assert incident.component == "port:h17/eth0"


def test_late_symptoms_join_and_the_id_stays() -> None:
    at = night_1()
    early = replace(
        at, progress=(), events=tuple(one for one in at.events if (one.at_ms or 0) <= T0), now_ms=T0 + 2_000
    )
    (first,) = advance((), early)
    late = replace(at, events=(), features={}, now_ms=T0 + 660_000)
    (joined,) = advance((first,), late)
    assert joined.id == first.id
    assert joined.component == first.component
    assert "collective_stall" in {one.fault for one in joined.evidence}


def test_single_links_merge_into_the_switch_that_took_them_down() -> None:
    at = night_14()
    one_port = replace(at, events=at.events[:1], now_ms=T0)
    (first,) = advance((), one_port)
    assert first.component.startswith("port:")
    after = advance((first,), replace(at, now_ms=T0 + 60_000))
    (open_,) = [one for one in after if one.state == "open"]
    assert (open_.id, open_.component) == (first.id, "switch:leaf-07")


def test_an_incident_closes_when_nothing_is_seen_of_it_for_longer_than_a_time_out() -> None:
    at = case([event("port.down", "port:h17/eth0")], now_ms=T0)
    (first,) = advance((), at)
    (later,) = advance((first,), replace(at, events=(), now_ms=T0 + 3_600_000))
    assert (first.state, later.state, later.id) == ("open", "closed", first.id)


@pytest.mark.slow
def test_a_storm_of_claims_does_not_grow_an_incident_for_ever() -> None:
    known: tuple[Incident, ...] = ()
    for minute in range(60):
        down = [event("port.error", "port:h17/eth0", minute * 60.0)]
        known = advance(known, case(down, now_ms=T0 + minute * 60_000))
    (incident,) = known
    assert len(incident.evidence) <= 20
    assert incident.onset_ms == T0
