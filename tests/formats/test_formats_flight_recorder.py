"""Flight recorder dumps: what suffices to find who never came; hostile pickles; versions and shapes of the files."""

import io
import json
import pickle
import random
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import flight_recorder, restricted_pickle
from collectors.formats.reading import Tally
from sickbay.messages import Progress, encode

Plain = dict[str, object]


def entry(group: str, seq: int, state: str = "scheduled", op: str = "all_reduce", **more: object) -> Plain:
    base: Plain = {
        "record_id": seq, "pg_id": int(group) + 3, "process_group": [group, f"GROUP_{group}"], "collective_seq_id": seq,
        "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"nccl:{op}", "time_created_ns": 1_758_610_505_592_849_034,
        "state": state, "input_sizes": [[4, 8]], "timeout_ms": 600_000, "retired": False, "is_p2p": False,
    }  # fmt: skip
    return base | more


def dump(rank: int, entries: list[Plain], groups: dict[str, list[int]], **more: object) -> Plain:
    status = {
        str(int(group) + 3): {
            "last_enqueued_collective": max(
                [e["collective_seq_id"] for e in entries if e["process_group"] == [group, f"GROUP_{group}"]], default=-1
            ),  # type: ignore[type-var]
            "last_started_collective": -1,
            "last_completed_collective": 9,
        }
        for group in groups
    }
    config = {group: {"name": group, "desc": f"GROUP_{group}", "ranks": str(ranks)} for group, ranks in groups.items()}
    return {"rank": rank, "version": "2.10", "pg_config": config, "pg_status": status, "entries": entries} | more


def read(raw: bytes, name: str = "", size: int = 1 << 16) -> tuple[list[Progress], Tally]:
    tally = Tally()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    records = [reading.record for reading in flight_recorder.read(pieces, tally, name)]
    assert all(isinstance(record, Progress) for record in records)
    return [record for record in records if isinstance(record, Progress)], tally


def json_lines(dumps: Iterable[Plain]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in dumps)


def stalled() -> list[Plain]:
    """Four ranks, groups 1 = [0..3], 2 = [0, 1], 3 = [2, 3]: rank 3 never posts 11 in group 3; 2 waits for it there,
    so 2 has not come to 20 in group 1, where 0 and 1 wait."""
    members = {"1": [0, 1, 2, 3], "2": [0, 1], "3": [2, 3]}
    mine = {rank: {key: ranks for key, ranks in members.items() if rank in ranks} for rank in range(4)}
    return [
        dump(0, [entry("2", 10, "completed"), entry("1", 19, "completed"), entry("1", 20)], mine[0]),
        dump(1, [entry("2", 10, "completed"), entry("1", 19, "completed"), entry("1", 20)], mine[1]),
        dump(2, [entry("1", 19, "completed"), entry("3", 10, "completed"), entry("3", 11)], mine[2]),
        dump(3, [entry("1", 19, "completed"), entry("3", 10, "completed")], mine[3]),
    ]


def never_came(records: list[Progress]) -> set[int]:
    """The reading that the records must allow: ranks that others wait for and that wait for nobody themselves."""
    posted: dict[tuple[str, int], int] = {}
    waiting: dict[tuple[str, int], set[int]] = {}
    members: dict[str, set[int]] = {}
    for record in records:
        if record.group.endswith(":p2p"):
            continue
        members.setdefault(record.group, set()).update(record.group_ranks)
        key = (record.group, record.rank)
        posted[key] = max(posted.get(key, -1), record.seq, record.last_enqueued)
        if record.state in ("entered", "started", "waiting"):
            waiting.setdefault((record.group, record.seq), set()).add(record.rank)
    waits: dict[int, set[int]] = {}
    for (group, seq), ranks in waiting.items():
        behind = {rank for rank in members[group] - ranks if posted.get((group, rank), seq) < seq}
        for rank in ranks:
            waits.setdefault(rank, set()).update(behind)
    return {rank for behind in waits.values() for rank in behind if not waits.get(rank)}


@pytest.mark.parametrize("shape", ["lines", "array", "by_rank"])
def test_the_rank_that_never_came_can_be_found(shape: str) -> None:
    dumps = stalled()
    raw = {
        "lines": json_lines(dumps),
        "array": json.dumps(dumps, indent=1).encode(),
        "by_rank": json.dumps({str(each.pop("rank")): each for each in stalled()}).encode(),
    }[shape]
    records, tally = read(raw)
    assert never_came(records) == {3}
    assert tally.unparsed == 0
    assert tally.records == len(records)


def test_pickles_and_json_tell_the_same() -> None:
    for each in stalled():
        as_json, _ = read(json.dumps(each).encode())
        for protocol in (2, 3, 4, 5):
            assert read(pickle.dumps(each, protocol))[0] == as_json


def test_pieces_do_not_matter() -> None:
    raw = json_lines(stalled())
    whole, _ = read(raw, size=len(raw))
    for size in (1, 7, 100, 4096):
        assert read(raw, size=size)[0] == whole


def test_the_file_name_tells_the_rank_where_the_content_does_not() -> None:
    each = stalled()[2]
    del each["rank"]
    for name in ("nccl_trace_rank_2", "/tmp/x/nccl_trace_rank_2", "dump_rank2.json"):
        records, _ = read(pickle.dumps(each, 2), name)
        assert {record.rank for record in records} == {2}
    assert {record.rank for record in read(pickle.dumps(each, 2), "dump")[0]} == {-1}


def test_rows_described_by_a_list_of_fields() -> None:
    each = stalled()[0]
    entries = each["entries"]
    assert isinstance(entries, list)
    fields = list(entries[0])
    rows = each | {"entry_fields": fields, "entries": [[row[field] for field in fields] for row in entries]}
    assert read(json.dumps(rows).encode())[0] == read(json.dumps(each).encode())[0]


def test_older_dumps_and_their_states() -> None:
    old = entry("1", 5, "started")
    old["seq_id"] = old.pop("collective_seq_id")
    del old["is_p2p"], old["p2p_seq_id"]
    timed_out = entry("1", 6, "started", retired=True)
    (started, waiting), _ = read(json.dumps({"version": "2.1", "entries": [old, timed_out]}).encode())
    assert [(record.seq, record.state) for record in (started, waiting)] == [(5, "started"), (6, "waiting")]
    assert (started.op, started.size, started.timeout_ms, started.at_ms) == (
        "all_reduce",
        "4x8",
        600_000,
        1_758_610_505_592,
    )


def test_status_numbers_as_text_and_no_entries() -> None:
    each = stalled()[0]
    each["pg_status"] = {"4": {f"last_{key}_collective": "20" for key in ("enqueued", "started", "completed")}}
    newest = [record for record in read(json.dumps(each).encode())[0] if record.group == "1"][-1]
    assert (newest.seq, newest.last_enqueued, newest.last_completed) == (20, 20, 20)
    del each["entries"]
    empty, _ = read(json.dumps(each).encode())
    assert {(record.group, record.seq, record.group_ranks) for record in empty} == {
        ("1", -1, (0, 1, 2, 3)),
        ("2", -1, (0, 1)),
    }


def test_sends_and_receives_are_apart() -> None:
    sends = [
        entry("1", 26, op="send 0->3", p2p_seq_id=11_981),
        entry("1", 26, op="recv 0<-3", p2p_seq_id=11_982, is_p2p=True),
    ]
    records, _ = read(json.dumps(dump(0, sends, {"1": [0, 3]})).encode())
    assert {record.group for record in records} == {"1:p2p", "1"}
    assert [(r.seq, r.last_enqueued) for r in records if r.group == "1:p2p"] == [(11_981, -1), (11_982, -1)]


def test_only_the_stall_is_told() -> None:
    long = [entry("1", seq, "completed") for seq in range(2000)] + [entry("1", seq) for seq in range(2000, 4000)]
    records, _ = read(json.dumps(dump(0, long, {"1": [0]})).encode())
    assert len(records) == flight_recorder.MAX_OPEN + 1
    assert (records[0].seq, records[-1].seq) == (2000, 3999)


def test_recognised_by_content() -> None:
    assert flight_recorder.confidence(json_lines(stalled()), "x") > 0.9
    assert flight_recorder.confidence(pickle.dumps(stalled()[0], 2), "x") > 0.9
    assert flight_recorder.confidence(pickle.dumps([1, 2], 2), "x") == 0.0
    assert flight_recorder.confidence(b'{"status": "success", "data": {}}', "nccl_trace_rank_3") == 0.0


# --- hostile input ---


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("never",))


@pytest.mark.slow
@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps({"entries": Evil()}, 2),
        pickle.dumps({"entries": {1, 2}}, 4),
        pickle.dumps({"entries": bytearray(b"x")}, 5),
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"(ios\nsystem\n.",
        b"\x80\x02\x82\x01.",  # extension code
        b"\x80\x02P1\n.",  # persistent id
        b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\xff" * 100,  # number of 2 GiB
        b"\x80\x02\x8d" + b"\xff" * 8,  # string of 2^64 bytes
        b"I" + b"9" * 5000 + b"\n.",
        b"\x80\x02)]}h\x00.",
        b"\x80\x02(((((.",
        b"\x80\x02",
        b"\x80\x02N" + b"2" * 3_000_000 + b".",
        b"\x80\x02" + b"(" * 3_000_000,
    ],
)
def test_anything_but_plain_values_is_refused(raw: bytes) -> None:
    with pytest.raises(restricted_pickle.Refused):
        restricted_pickle.loads(raw)
    records, tally = read(raw if raw.startswith(b"\x80") else b"\x80\x02" + raw)
    assert records == []
    assert tally.unparsed == 1


def laughs(levels: int) -> bytes:
    """A list of the same list twice, `levels` deep: 2^levels leaves, a few bytes each."""
    body = b"\x80\x02]q\x00"
    for level in range(levels):
        body += b"](h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1])
    return body


def test_shared_parts_are_not_walked() -> None:
    bomb = laughs(60) + b"q\xf0"
    head = b"}(X\x07\x00\x00\x00entries](}("
    key = b"X%c\x00\x00\x00%s"
    row = b"".join(
        key % (len(word), word) + value
        for word, value in {
            b"process_group": b"](X\x01\x00\x00\x001h\xf0e", b"collective_seq_id": b"K\x05",
            b"state": b"X\x09\x00\x00\x00scheduled",
            b"profiling_name": b"h\xf0", b"input_sizes": b"h\xf0", b"pg_id": b"h\xf0", b"time_created_ns": b"h\xf0",
        }.items()
    )  # fmt: skip
    began = time.monotonic()
    records, _ = read(bomb + head + row + b"ueu.")
    assert [record.seq for record in records] == [5]
    assert time.monotonic() - began < 5  # a walk over 2^60 leaves would not end


def test_a_value_that_holds_itself_is_read() -> None:
    rows: list[object] = []
    rows.append(rows)
    each = {"version": "2.9", "entries": [entry("1", 5, input_sizes=rows), rows]}
    assert len(read(pickle.dumps(each, 2))[0]) == 1


@pytest.mark.slow
def test_deep_nesting_is_read_or_refused() -> None:
    deep = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    assert read(deep)[0] == []
    assert read(b"[" * 200_000)[0] == []
    assert read(b'{"entries": ' + b'{"a":' * 200_000)[0] == []


def test_keys_that_would_be_hashed_for_ever_are_refused() -> None:
    body = b"\x80\x02)q\x00"
    for level in range(60):
        body += b"h" + bytes([level]) + b"h" + bytes([level]) + b"\x86q" + bytes([level + 1])
    with pytest.raises(restricted_pickle.Refused):
        restricted_pickle.loads(b"\x80\x02}" + body[2:] + b"Ns.")


def test_too_large_is_refused_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder, "MAX_DUMP_BYTES", 10_000)
    for raw in (pickle.dumps(["x" * 20_000], 2), b'{"entries": "' + b"x" * 20_000):
        records, tally = read(raw, size=1000)
        assert records == []
        assert "larger" in tally.notes[0]


@given(st.binary(max_size=300))
def test_any_bytes_behind_a_pickle_head(raw: bytes) -> None:
    read(b"\x80\x02" + raw)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each) | st.tuples(each, each),
)


@pytest.mark.slow
@given(plain, st.sampled_from([0, 1, 2, 3, 4, 5]))
def test_plain_values_survive(value: object, protocol: int) -> None:
    """Escaped text and long numbers may be refused; what is read is right."""
    try:
        found = restricted_pickle.loads(pickle.dumps(value, protocol))
    except restricted_pickle.Refused:
        return
    if protocol >= 3:
        assert found == pickle.Unpickler(io.BytesIO(pickle.dumps(value, protocol))).load()  # noqa: S301 our own value


@pytest.mark.slow
def test_mutated_dumps_give_valid_records_or_none() -> None:
    dice = random.Random(11)
    whole = [pickle.dumps(stalled()[2], 2), pickle.dumps(stalled()[2], 4), json_lines(stalled())]
    for number in range(5000):
        raw = bytearray(whole[number % 3])
        for _ in range(dice.randrange(1, 5)):
            at = dice.randrange(len(raw))
            raw[at : at + dice.randrange(3)] = bytes(dice.randrange(256) for _ in range(dice.randrange(3)))
        for record in read(bytes(raw[: dice.randrange(1, len(raw) + 1)] if number % 2 else raw))[0]:
            encode(record)
