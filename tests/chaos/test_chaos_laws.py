"""Laws of the whole stream on the memory log: what comes late, twice or in another order within the lateness changes
nothing, what comes later is counted, what is damaged, foreign or unsigned stops nothing and is counted."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sickbay import messages, wire
from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.running.live import WINDOWS_GROUP, window_maker
from sickbay.layouts import Schemas, decoded
from sickbay.log import driving, tick
from sickbay.log.memory import MemoryLog
from sickbay.messages import Placement
from sickbay.schema import LIVENESS
from sickbay.seal import host_key, sealed
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import DEADLETTER, EVENTS, PLACEMENT, SCHEMAS, TELEMETRY
from streams import dead_letters
from streams.feature_record import is_clock
from streams.runner import Runner
from streams.window_task import WindowTask
from tests.chaos import oracle
from tests.chaos.site import KEY, LATENESS_MS, SMALL, WIDTH_MS, Host, named
from tests.process.kit import lost_card

START, SECONDS, ROWS = 1_796_000_000_000, 14, 4  # rows of a frame: two cards and two ports
BAD = ("damaged", "foreign", "unsigned", "event damaged", "event foreign", "event unsigned", "nonsense")
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to make an example smaller takes minutes here


class Sent(NamedTuple):
    """A record to be appended. `at_ms`: of its rows."""

    append_ms: int
    topic: str
    key: bytes
    value: bytes
    at_ms: int = 0


class Found(NamedTuple):
    """What the stages made of it. `windows`: without clocks. `signs`: windows of liveness, which tell when frames came
    and so must follow it."""

    windows: dict[oracle.Place, list[oracle.Pair]]
    signs: dict[oracle.Place, list[oracle.Pair]]
    evidence: list[oracle.Pair]
    incidents: list[oracle.Pair]
    letters: list[str]
    counts: Counter[str]


@cache
def steady() -> tuple[Sent, ...]:
    """A frame of four hosts each second, as soon as it was made; two lost cards, and a job."""
    chance, found = random.Random(3), list[Sent]()
    hosts, layouts = [Host(name) for name in named("n", 4)], set[int]()
    for second in range(SECONDS):
        for place, host in enumerate(hosts):
            at_ms = START + second * 1000 + 100 + 60 * place
            matrices = host.matrices([at_ms], chance)
            for layout in (matrix.layout for matrix in matrices):
                if layout.id not in layouts:
                    layouts.add(layout.id)
                    found.append(Sent(START, SCHEMAS, layout.key, layout.encoded()))
            frame = host.frame(matrices, at_ms, host_key(KEY, host.name))
            found.append(Sent(at_ms + 5, TELEMETRY, host.name.encode(), frame, at_ms))
    for second, host in ((4, hosts[0]), (9, hosts[2])):
        at_ms = START + second * 1000 + 400
        event = messages.encode(lost_card(host.name, at_ms))
        value = sealed(event, host.seal(EVENTS), host_key(KEY, host.name))
        found.append(Sent(at_ms, EVENTS, host.name.encode(), value))
    job = Placement(job="7", hosts=(hosts[0].name, hosts[1].name), from_ms=START + 3_500)
    found.append(Sent(START + 5_000, PLACEMENT, b"7", messages.encode(job)))
    return tuple(found)


def outcome(sent: Iterable[Sent], limit: int = 500) -> Found:
    """Both stages over the records, in the order of their append times."""
    now, trust, metrics = [START], Admission(KEY, True), SelfMetrics()
    log = MemoryLog(SMALL, clock=lambda: now[0])
    make = window_maker(log, trust, metrics, width_ms=WIDTH_MS, lateness_ms=LATENESS_MS)
    windows = Runner(log.join(WINDOWS_GROUP, [TELEMETRY], "w"), make, metrics, WINDOWS_GROUP)
    diagnoser = Diagnoser(log, admission=trust, metrics=metrics, window_ms=WIDTH_MS, lateness_ms=LATENESS_MS)
    put, waiting = log.appender(), sorted(sent, key=lambda one: one.append_ms)
    for second in range(SECONDS + 8):
        now[0] = START + second * 1000
        while waiting and waiting[0].append_ms <= START + second * 1000:
            one = waiting.pop(0)
            now[0] = one.append_ms
            put.append(one.topic, one.key, one.value)
        now[0] = START + second * 1000
        tick(put, SMALL, driving(SMALL))
        windows.drain(limit)
        diagnoser.drain(now[0])
    counts = Counter[str]()
    for task in windows.held.values():
        assert isinstance(task, WindowTask)
        for (what, _), number in task.counts.items():
            counts[what] += number
    return _found(log, counts)


def _found(log: MemoryLog, counts: Counter[str]) -> Found:
    words = oracle.written(log)
    # Who was heard when is told by append time: a frame that comes later or twice is another sign of life.
    signs, windows = (
        {place: [pair for pair in pairs if _is(pair[0], sign)] for place, pairs in words.features.items()}
        for sign in (True, False)
    )
    letters = [one for one in oracle.everything(log, DEADLETTER) if one.value]
    reasons = sorted(dead_letters.decode(one.value or b"").reason for one in letters)
    return Found(windows, signs, words.evidence, words.incidents, reasons, counts)


def _is(key: bytes, sign: bool) -> bool:
    return not is_clock(key) and key.startswith(f"{LIVENESS.name}/".encode()) == sign


@cache
def right() -> Found:
    """What the steady stream gives."""
    found = outcome(steady())
    assert found.windows
    assert len(found.evidence) >= 2
    assert not found.letters
    assert not found.counts["late"] + found.counts["duplicate"] + found.counts["missed"]
    return found


def same(found: Found) -> None:
    """Windows, evidence and incidents are those of the steady stream, byte for byte."""
    assert found.windows == right().windows
    assert found.evidence == right().evidence
    assert found.incidents == right().incidents


@pytest.mark.slow
@settings(max_examples=15, phases=PHASES)
@given(seed=st.integers(0, 2**32), share=st.floats(0.05, 1.0), limit=st.integers(1, 60))
def test_late_repeated_and_disordered_frames_within_the_lateness_change_nothing(
    seed: int, share: float, limit: int
) -> None:
    chance, sent, repeated = random.Random(seed), list[Sent](), 0
    for one in steady():
        if one.topic != TELEMETRY:
            sent.append(one)
            continue
        closes_ms = (one.at_ms // WIDTH_MS + 1) * WIDTH_MS + LATENESS_MS
        moved = chance.randrange(one.append_ms, closes_ms) if chance.random() < share else one.append_ms
        sent.append(one._replace(append_ms=moved))
        while chance.random() < share / 3:  # however much later: its number tells
            repeated += 1
            sent.append(one._replace(append_ms=moved + chance.randrange(1, 6_000)))
    chance.shuffle(sent)
    found = outcome(sent, limit)
    same(found)
    assert found.counts["late"] == 0
    assert found.counts["duplicate"] == repeated
    assert found.counts["missed"] == found.counts["found"]
    assert not found.letters


@pytest.mark.slow
@settings(max_examples=15, phases=PHASES)
@given(late=st.lists(st.tuples(st.integers(3, SECONDS + 4), st.integers(0, 3), st.integers(0, 20_000)), max_size=12))
def test_what_comes_beyond_the_lateness_changes_nothing_and_is_counted(late: Sequence[tuple[int, int, int]]) -> None:
    chance, hosts, extra = random.Random(1), [Host(name) for name in named("n", 4)], list[Sent]()
    for host in hosts:
        host.numbers[TELEMETRY] = 1000  # of no frame of the others
    for second, place, beyond_ms in late:
        append_ms, host = START + second * 1000 + 500, hosts[place]
        over_ms = (append_ms - LATENESS_MS) // WIDTH_MS * WIDTH_MS  # what ends by then is out
        matrices = host.matrices([over_ms - 1 - beyond_ms], chance)
        matrices = [one for one in matrices if one.layout.id in _layouts()]
        frame = host.frame(matrices, append_ms, host_key(KEY, host.name))
        extra.append(Sent(append_ms, TELEMETRY, host.name.encode(), frame))
    found = outcome([*steady(), *extra])
    same(found)
    assert found.counts["late"] == sum(_rows(one.value) for one in extra)
    assert found.counts["duplicate"] == 0
    assert not found.letters


@cache
def _layouts() -> frozenset[int]:
    return frozenset(decoded(one.value).id for one in steady() if one.topic == SCHEMAS)


def _rows(frame: bytes) -> int:
    schemas = Schemas()
    for one in steady():
        if one.topic == SCHEMAS:
            schemas.learn(decoded(one.value))
    return sum(len(matrix.at_ms) for matrix in wire.decode(frame, schemas).tables)


spoilt = st.tuples(st.sampled_from(BAD), st.integers(0, 10**6), st.integers(0, SECONDS * 1000), st.integers(1, 255))


@pytest.mark.slow
@settings(max_examples=20, phases=PHASES)
@given(bad=st.lists(spoilt, min_size=1, max_size=12))
def test_damaged_foreign_and_unsigned_records_stop_nothing_and_are_counted(
    bad: Sequence[tuple[str, int, int, int]],
) -> None:
    extra = [_spoilt(*one) for one in bad]
    found = outcome([*steady(), *extra])
    same(found)
    assert found.signs == right().signs
    assert len(found.letters) == len(extra)
    assert found.counts["late"] == found.counts["duplicate"] == found.counts["missed"] == 0


def _spoilt(kind: str, chosen: int, after_ms: int, mask: int) -> Sent:
    """A good record of the steady stream made bad, at any moment."""
    topic = EVENTS if kind.startswith("event") else TELEMETRY
    good = [one for one in steady() if one.topic == topic]
    one = good[chosen % len(good)]
    value, at = one.value, chosen % len(one.value)
    ways: dict[str, Callable[[], bytes]] = {
        "damaged": lambda: value[:at] + bytes([value[at] ^ mask]) + value[at + 1 :],
        "foreign": lambda: _frame(one, host_key(KEY, "another")),
        "unsigned": lambda: _frame(one, None),
        "event damaged": lambda: value[: max(1, at)],
        "event foreign": lambda: _event(one, host_key(KEY, "another")),
        "event unsigned": lambda: _event(one, None),
        "nonsense": lambda: bytes([mask]) * (1 + chosen % 300),
    }
    return one._replace(append_ms=START + after_ms, value=ways[kind]())


def _frame(one: Sent, key: bytes | None) -> bytes:
    host = Host(one.key.decode())
    matrices = [matrix for matrix in host.matrices([one.at_ms], random.Random(2)) if matrix.layout.id in _layouts()]
    return host.frame(matrices, one.at_ms, key)


def _event(one: Sent, key: bytes | None) -> bytes:
    host = Host(one.key.decode())
    return sealed(messages.encode(lost_card(host.name, one.append_ms)), host.seal(EVENTS), key)
