"""A sender that makes names up, or measures nonsense, costs the others nothing, and no more memory than is bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import admission, wire
from sickbay.admission import Admission
from sickbay.frames import matrix_of
from sickbay.layouts import Schemas, layout_of
from sickbay.log import Output, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.schema import TABLES, Samples
from sickbay.topics import FEATURES, STATE, TELEMETRY, TOPICS
from streams import crowds, repartition, window_core, window_state
from streams.feature_record import decode
from streams.repartition import Repartition
from streams.runner import Mark
from streams.side_inputs import NoSides
from streams.window_core import Features, Last
from streams.window_rows import Rows
from streams.window_task import Decoded, WindowTask

END, WIDTH = 1_800_000_000_000, 10_000
TASK = Task(TELEMETRY, 0)


def rows_of(codes: list[int]) -> Rows:
    at_ms = np.full(len(codes), END - 5_000)
    values = np.ones((len(codes), 1), np.float32)
    return Rows(np.array(codes, np.int32), at_ms, ("power_watts",), values, (), np.empty((len(codes), 0), np.int64))


def last_of(names: list[str]) -> Last:
    told = tuple(sorted(names))
    return Last(told, np.full(len(told), END - 10_000), (), np.empty((len(told), 0), np.int64))


senders = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), unique=True, max_size=16)


@given(before=senders, now=senders, of_one=st.integers(0, 6), of_all=st.integers(0, 12), data=st.data())
def test_the_first_new_names_of_each_sender_fit_and_all_that_were_known(
    before: list[tuple[str, int]], now: list[tuple[str, int]], of_one: int, of_all: int, data: st.DataObject
) -> None:
    names = tuple(sorted(f"accelerator:{host}/{number}" for host, number in now))
    last = last_of([f"accelerator:{host}/{number}" for host, number in before])
    codes = data.draw(st.lists(st.integers(0, max(0, len(names) - 1)), max_size=20)) if names else []
    kept, beyond = crowds.within(rows_of(codes), names, last, of_one=of_one, of_all=of_all)
    told = list(last.names)
    fits = set()
    for name in names:  # the naive twin
        if names.index(name) not in codes:
            continue
        own = [one for one in told if one.startswith(name[: len("accelerator:a")])]
        if name in told:
            fits.add(name)
        elif len(own) < of_one and len(told) < of_all:
            told.append(name)
            fits.add(name)
    want = [code for code in codes if names[code] in fits]
    assert kept.code.tolist() == want
    assert beyond == len(codes) - len(want)


def test_names_that_nobody_owns_count_together() -> None:
    names = tuple(sorted(f"job:{number}" for number in range(9)))
    kept, beyond = crowds.within(rows_of([*range(9)]), names, last_of(["host:a", "host:b"]), of_one=4)
    assert (len(kept.code), beyond) == (4, 5)


def test_a_flood_of_names_stops_no_task_and_takes_no_row_of_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repartition, "MOST_BYTES", 64 << 10)
    monkeypatch.setattr(window_state, "MOST_BYTES", 64 << 10)
    frames: dict[bytes, Decoded] = {}
    task = WindowTask(TASK, Mark(), lambda record: frames[record.value or b""], sides=NoSides(), partitions=1)

    def said(host: str, names: list[str], at_ms: int) -> Record:
        told = Samples("accelerator", names, np.full(len(names), at_ms), {"power_watts": np.ones(len(names))})
        frames[key := f"{host}{len(frames)}".encode()] = Decoded([matrix_of(told)], host, 1, len(frames))
        return Record(*TASK, len(frames), at_ms, host.encode(), key)

    outputs: list[Output] = []
    made = 0
    for second in range(60):
        now = END + 1000 * second
        outputs += task.take(said("good", ["accelerator:good/0"], now))
        for _ in range(2 if second < 20 else 0):
            names = [f"accelerator:evil/{made + one:06d}{'x' * 200}" for one in range(1_000)]
            made += len(names)
            outputs += task.take(said("evil", names, now))
        outputs += task.take(Record(*TASK, 0, now, b"", b""))
    assert max(len(one.value or b"") for one in outputs) <= 64 << 10
    blocks = [decode(one.value or b"") for one in outputs if one.topic == FEATURES]
    told = {name for block in blocks for name in block.names if "accelerator:evil" in name}
    assert len(told) == crowds.MOST_OF_ONE
    closed = {block.end_ms for block in blocks if "accelerator:good/0" in block.names}
    assert len(closed) == 5
    assert task.counts["beyond", "accelerator"] == made - crowds.MOST_OF_ONE
    assert any(one.topic == STATE for one in outputs)


def test_a_large_window_goes_in_records_that_the_topic_takes_and_is_whole() -> None:
    names = tuple(sorted(f"port:h/{number:05d}{'p' * 220}" for number in range(20_000)))
    values = np.arange(20_000, dtype=np.float32)[np.newaxis]
    features = Features(names, ("up",), values)
    facts = NoSides().known(0)
    found = [payload for _, payload in Repartition(0, 1).records("port", END, features, facts, stale=False)]
    assert len(found) > 1
    assert max(map(len, found)) <= TOPICS[FEATURES].max_bytes
    blocks = [decode(payload) for payload in found]
    assert tuple(name for block in blocks for name in block.names) == names
    assert np.concatenate([block.values[0] for block in blocks]).tolist() == values[0].tolist()


def test_a_state_of_long_names_goes_in_records_that_the_topic_takes_and_is_whole() -> None:
    last = last_of([f"port:h/{number:05d}{'ß' * 220}" for number in range(12_000)])
    outputs = list(window_state.outputs(TASK, "port", END, last))
    assert max(len(one.value or b"") for one in outputs) <= TOPICS[STATE].max_bytes
    assert tuple(name for one in outputs for name in window_state.decode(one.value or b"").last.names) == last.names


def test_the_state_of_a_window_that_was_closed_twice_counts_once() -> None:
    found: dict[str, list[tuple[int, object]]] = {}
    last = last_of([f"accelerator:h/{number}" for number in range(3)])
    for offset, one in enumerate([*window_state.outputs(TASK, "accelerator", END, last)] * 2):
        record = Record(STATE, 0, offset, END, one.key, one.value)
        window_state._keep(found, record)  # type: ignore[arg-type]
    ((offset, _),) = found["accelerator"]
    assert offset == 1


def test_what_lies_further_apart_than_a_number_holds_is_not_infinite() -> None:
    most = float(np.finfo(np.float32).max)
    gauges = np.array([[most], [-most]], np.float32)
    rows = Rows(np.zeros(2, np.int32), np.array([END - 9, END - 8]), ("power_watts",), gauges, (), np.empty((2, 0)))
    features, _ = window_core.close(
        rows, ["accelerator:h/0"], Last(), TABLES["accelerator"], END, WIDTH, ["power_watts__spread", "power_watts"]
    )
    assert np.isfinite(features.values).all()


def test_lists_of_names_that_were_checked_are_no_endless_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_NAMES_CHECKED", 100)
    entry, schemas = Admission(), Schemas()
    schemas.learn(layout_of(TABLES["accelerator"], ["power_watts"]))
    for number in range(50):
        names = [f"accelerator:evil/{number}-{one}" for one in range(30)]
        told = Samples("accelerator", names, np.full(30, END), {"power_watts": np.ones(30)})
        frame = wire.encode("evil", [told], sequence=number, incarnation=1, sent_ms=END)
        entry.frame(Record(*TASK, number, END, b"evil", frame), schemas)
        assert sum(len(names) for _, names in entry._checked) <= 100


@pytest.mark.parametrize("offset", [-7, 99_999])
def test_a_state_that_lies_elsewhere_than_was_noted_is_found(offset: int) -> None:
    log, last = MemoryLog(), last_of(["accelerator:h/0"])
    for one in window_state.outputs(TASK, "accelerator", END, last):
        log.appender().append(one.topic, one.key, one.value, partition=one.partition)
    assert window_state.read(log.reader(), TASK, offset)["accelerator"].last.names == last.names
