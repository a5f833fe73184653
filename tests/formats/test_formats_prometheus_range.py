"""Saved answers of a Prometheus, whole, partial and damaged."""

import json
import math
import random
from typing import Any

import numpy as np
import pytest

from collectors.formats import prometheus_range
from collectors.formats.reading import Record, Tally
from collectors.formats.series_matrix import points, summed
from sickbay.messages import Event, Identity, Placement
from sickbay.schema import Samples

T = 1_790_000_000
CARD = {"gpu": "1", "UUID": "GPU-5be1", "pci_bus_id": "00000000:CB:00.0", "Hostname": "trn-07"}
SCRAPED = {"instance": "10.0.0.7:9400", "job": "dcgm"}
NAME = "accelerator:trn-07/0000:cb:00"


def series(name: str, labels: dict[str, str], *values: str, step: float = 15) -> dict[str, Any]:
    return {"metric": {"__name__": name, **labels}, "values": [[T + step * i, v] for i, v in enumerate(values)]}


def answer(*result: dict[str, Any], kind: str = "matrix") -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(result)}}


def read(told: Any, name: str = "") -> tuple[list[Record], Tally]:
    tally = Tally()
    data = told if isinstance(told, bytes) else json.dumps(told).encode()
    return [reading.record for reading in prometheus_range.read([data[:50], data[50:]], tally, name)], tally


def rows(records: list[Record], column: str) -> list[tuple[str, float, float]]:
    """(component, seconds after T, value), missing values left out."""
    return [
        (component, (int(at) - T * 1000) / 1000, float(value))
        for record in records
        if isinstance(record, Samples) and column in record.values
        for component, at, value in zip(record.component, record.at_ms, record.values[column], strict=True)
        if not math.isnan(value)
    ]


def test_a_matrix_becomes_dated_samples_in_our_units() -> None:
    records, tally = read(answer(series("DCGM_FI_DEV_GPU_UTIL", CARD | SCRAPED, "98", "NaN", "+Inf", "50")))
    assert rows(records, "utilisation_ratio") == [(NAME, 0, 0.98), (NAME, 45, 0.5)]
    assert Identity(host="trn-07", index="1", pci="0000:cb:00", uuid="GPU-5be1") in records
    assert Identity(host="trn-07", kind="host", name="10.0.0.7") in records
    assert tally.unparsed == 0


@pytest.mark.parametrize("shape", ["answer", "data", "list"])
def test_whole_answers_data_parts_and_lists(shape: str) -> None:
    whole = answer(series("node_load1", {"instance": "trn-07:9100"}, "1", "2"))
    told = {"answer": whole, "data": whole["data"], "list": whole["data"]["result"]}[shape]
    assert rows(read(told)[0], "load_1m") == [("host:trn-07", 0, 1), ("host:trn-07", 15, 2)]
    assert prometheus_range.confidence(json.dumps(told).encode(), "x") > 0.8


def test_an_instant_answer_is_a_point_each() -> None:
    one = {"metric": {"__name__": "node_load1", "instance": "trn-07:9100"}, "value": [T + 0.25, "3"]}
    assert rows(read(answer(one, kind="vector"))[0], "load_1m") == [("host:trn-07", 0.25, 3)]


@pytest.mark.parametrize(
    "path",
    [
        "out/DCGM_FI_DEV_POWER_USAGE.json",
        "DCGM_FI_DEV_POWER_USAGE.json.gz",
        "a.tar!b/night-3.DCGM_FI_DEV_POWER_USAGE.json",
    ],
)
def test_a_series_without_name_is_what_the_file_is_called(path: str) -> None:
    told = answer({"metric": CARD, "values": [[T, "650"]]})
    assert rows(read(told, path)[0], "power_watts") == [(NAME, 0, 650)]
    records, tally = read(told, "power.json")
    assert records == []
    assert any("(no name)" in note for note in tally.notes)


def test_an_error_answer_and_an_empty_one_are_told() -> None:
    records, tally = read({"status": "error", "errorType": "execution", "error": "query timed out"})
    assert (records, tally.unparsed) == ([], 1)
    assert any("query timed out" in note for note in tally.notes)
    records, tally = read(answer())
    assert (records, tally.unparsed) == ([], 0)
    assert any("no series" in note for note in tally.notes)


def test_unknown_series_are_told_and_left_out() -> None:
    _, tally = read(answer(series("my_metric", {}, "1")))
    assert any("my_metric" in note for note in tally.notes)


def test_up_is_told_by_its_job_or_by_what_its_target_exports() -> None:
    told = answer(
        series("up", {"job": "pods", "instance": "10.0.0.7:9777"}, "0"),
        series("up", {"job": "node-exporter", "instance": "trn-08:9100"}, "1"),
        series("up", {"job": "blackbox", "instance": "trn-08:9115"}, "0"),
        series("DCGM_FI_DEV_GPU_TEMP", CARD | {"job": "pods", "instance": "10.0.0.7:9777"}, "50"),
    )
    records, _ = read(told)
    assert rows(records, "accelerator_source_up") == [("host:trn-07", 0, 0)]
    assert rows(records, "up") == [("host:trn-08", 0, 1)]


def test_one_proxy_for_many_hosts_names_none_of_them() -> None:
    told = answer(
        series("DCGM_FI_DEV_GPU_TEMP", {"gpu": "0", "Hostname": "a", "job": "x", "instance": "gw:80"}, "50"),
        series("DCGM_FI_DEV_GPU_TEMP", {"gpu": "0", "Hostname": "b", "job": "x", "instance": "gw:80"}, "60"),
        series("up", {"job": "x", "instance": "gw:80"}, "0"),
    )
    records, _ = read(told)
    assert rows(records, "temperature_celsius") == [("accelerator:a/0", 0, 50), ("accelerator:b/0", 0, 60)]
    assert rows(records, "accelerator_source_up") == []


def test_a_local_scrape_names_no_host() -> None:
    records, _ = read(answer(series("node_load1", {"instance": "localhost:9100"}, "1")))
    assert rows(records, "load_1m") == [("host:?", 0, 1)]


def test_last_codes_are_events_at_their_changes() -> None:
    records, _ = read(answer(series("DCGM_FI_DEV_XID_ERRORS", CARD, "0", "0", "79", "79", "0", "79")))
    events = [record for record in records if isinstance(record, Event)]
    assert [(event.code, (event.at_ms or 0) // 1000 - T) for event in events] == [("XID 79", 30), ("XID 79", 75)]
    assert all("onset" not in event.attributes for event in events)
    assert rows(records, "last_error_code")[2] == (NAME, 30, 79)


def test_a_code_that_stood_there_before_has_no_onset() -> None:
    records, _ = read(answer(series("DCGM_FI_DEV_XID_ERRORS", CARD, "79", "79")))
    assert [event.attributes["onset"] for event in records if isinstance(event, Event)] == ["unknown"]


def test_window_counts_are_events_when_they_rise() -> None:
    labels = CARD | {"xid": "94", "window_size_in_ms": "300000"}
    records, _ = read(answer(series("DCGM_EXP_XID_ERRORS_COUNT", labels, "0", "1", "1", "0", "2")))
    events = [record for record in records if isinstance(record, Event)]
    assert [(event.code, event.count) for event in events] == [("XID 94", 1), ("XID 94", 2)]


def test_partitions_are_left_out() -> None:
    records, tally = read(answer(series("DCGM_FI_PROF_SM_ACTIVE", CARD | {"GPU_I_ID": "3"}, "0.1")))
    assert rows(records, "compute_active_ratio") == []
    assert any("partitions" in note for note in tally.notes)


def test_parts_are_summed_where_all_are_told() -> None:
    name, host = "node_edac_correctable_errors_total", {"instance": "a:9100"}
    told = answer(
        series(name, host | {"controller": "0"}, "1", "1", "2"), series(name, host | {"controller": "1"}, "10", "11")
    )
    records, _ = read(told)
    assert rows(records, "corrected_memory_errors_total") == [("host:a", 0, 11), ("host:a", 15, 12)]


def test_sums_need_no_order() -> None:
    a = (np.array([3, 1, 2]), np.array([30.0, 10.0, 20.0]))
    b = (np.array([2, 3]), np.array([2.0, 3.0]))
    at_ms, values = summed([a, b])
    assert (at_ms.tolist(), values.tolist()) == ([2, 3], [22.0, 33.0])


def test_a_cut_answer_gives_its_whole_points() -> None:
    whole = json.dumps(
        answer(
            series("node_load1", {"instance": "a:9100"}, "1", "2"),
            series("node_load1", {"instance": "b:9100"}, "3", "4"),
        )
    ).encode()
    for length in range(120, len(whole)):
        records, tally = read(whole[:length])
        told = rows(records, "load_1m")
        assert set(told) <= {("host:a", 0, 1), ("host:a", 15, 2), ("host:b", 0, 3), ("host:b", 15, 4)}
        assert tally.unparsed or len(told) == 4
    assert len(rows(read(whole[:-20])[0], "load_1m")) >= 3


def test_answers_after_each_other_are_all_read() -> None:
    first, second = (json.dumps(answer(series("node_load1", {"instance": f"{h}:9100"}, "1"))) for h in "ab")
    records, tally = read(f"{first}\n{second}\n".encode())
    assert rows(records, "load_1m") == [("host:a", 0, 1), ("host:b", 0, 1)]
    assert tally.unparsed == 0


def test_points_that_are_none_are_counted() -> None:
    tally = Tally()
    at_ms, values = points(b'[[1790000000,"1"],[17,"2"],["x","3"],[1790000030,null],[1790000045,"4_0"]]', tally)
    assert at_ms.tolist() == [1790000000000, 1790000045000]
    assert values[0] == 1
    assert math.isnan(values[1])
    assert tally.unparsed == 3


def test_other_json_is_not_taken_for_an_answer() -> None:
    for text in ("{}", "[]", '{"metric": 1}', '[{"name":"x"}]', '{"status":"success","data":["a"]}', "resultType"):
        assert prometheus_range.confidence(text.encode(), "x.json") < 0.3


@pytest.mark.slow
def test_mutations_never_crash() -> None:
    chance = random.Random(11)
    source = json.dumps(
        answer(series("DCGM_FI_DEV_XID_ERRORS", CARD, "0", "31"), series("node_load1", {}, "1"))
    ).encode()
    deep = b'{"metric":' + b"[" * 5_000
    for turn in range(5_000):
        data = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randrange(30)]
                case 2:
                    data[place:place] = data[: chance.randrange(200)]
                case _:
                    data[place:place] = chance.choice([b"null", b"1e999", b"[[", b'"', b"{}", b"-0"])
        read(bytes(data) + (deep if turn % 500 == 0 else b""))


def test_an_export_with_times_of_its_own_and_what_curl_says_before_an_answer() -> None:
    name = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
    export = {"metric": {"__name__": name, **CARD}, "values": [0, 1], "timestamps": [T * 1000, T * 1000 + 15_000]}
    pasted = "$ curl -sG localhost:9090/api/v1/query_range\n" + json.dumps(answer(series(name, CARD, "0", "1")))
    for text in (json.dumps(export) + "\n", pasted):
        assert prometheus_range.confidence(text.encode(), "input.txt") > 0.8
        found = [one.record for one in prometheus_range.read([text.encode()], Tally())]
        [samples] = [record for record in found if isinstance(record, Samples)]
        assert samples.at_ms.tolist() == [T * 1000, T * 1000 + 15_000]
        [event] = [record for record in found if isinstance(record, Event)]
        assert event.code == "row remap failed"
        assert 'UUID="GPU-5be1"' in event.message


def test_the_job_label_of_cards_is_placement_where_a_stretch_of_time_is_told() -> None:
    def told(host: str, job: str, points: int) -> dict[str, Any]:
        labels = {"Hostname": host, "gpu": "0", "hpc_job": job}
        return series("DCGM_FI_DEV_POWER_USAGE", labels, *["300"] * points)

    records, _ = read(
        answer(told("h1", "4471", 40), told("h2", "4471", 40), told("h3", "4502", 10), told("h4", "0", 40))
    )
    found = {one.job: one for one in records if isinstance(one, Placement)}
    assert {job: one.hosts for job, one in found.items()} == {"4471": ("h1", "h2"), "4502": ("h3",)}
    assert found["4471"].to_ms is None
    begun, ended = found["4502"].from_ms, found["4502"].to_ms
    assert begun is not None
    assert ended == begun + 9 * 15_000 + 1
    few, _ = read(answer(told("h1", "4471", 2)))
    assert not [one for one in few if isinstance(one, Placement)]
