"""The feed of the accuracy benchmark against what agents do, and a window through all of it."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.accuracy import settings
from benchmarks.accuracy.answers import of_sickbay
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.feed import FAST_S, FRAME_S, Senders, joined
from benchmarks.accuracy.pipeline import Delays, Pipeline
from benchmarks.accuracy.window import run
from collectors.identity import Names
from sickbay.frames import matrix_of
from sickbay.schema import TABLES, Samples
from simulator.noise.delivery import Delivery
from simulator.scenario import Scenario, scenario
from streams.feature_record import decode
from streams.windows import WIDTH_MS, features, join


def made(seed: int = 3) -> Scenario:
    return scenario(seed=seed, hosts=2, per_host=2, hosts_per_job=2)


def test_windows_are_those_that_the_samples_themselves_give() -> None:
    night = made()
    pipeline, senders = Pipeline(Names(()), Delays(), judged=False), Senders(night.cluster)
    told: list[Samples] = []
    for at_s, second in enumerate(night.seconds(40)):
        told += [one for samples in second.samples.values() for one in samples if one.table != "port"]
        for sent in senders.second(second, at_s):
            pipeline.rows(sent.matrices, sent.hosts, second.at_ms + 1000)
        assert list(pipeline.tick(second.at_ms + 1000)) == []
    blocks = {(one.table, one.end_ms): one for one in map(decode, pipeline.blocks)}
    for table, frame in join(told).items():
        for rows in features(frame, TABLES[table], WIDTH_MS).partition_by("end_ms"):
            end = int(rows["end_ms"][0])
            if end > night.start_ms + 30_000:  # not closed yet
                continue
            block = blocks[table, end]
            order = [block.names.index(name) for name in rows["component"].to_list()]
            for place, column in enumerate(block.columns):
                wanted = rows[column].cast(float).fill_null(np.nan).to_numpy()
                np.testing.assert_allclose(block.values[place, order], wanted, rtol=1e-5)


def test_each_host_sends_every_few_seconds_and_every_second_after_a_severe_event() -> None:
    night = made()
    senders, heard = Senders(night.cluster), dict[str, list[int]]()
    for at_s, second in enumerate(night.seconds(50)):
        if at_s == 20:
            senders.alarmed(night.cluster.hosts[1], at_s)
        for sent in senders.second(second, at_s):
            for host in sent.hosts:
                heard.setdefault(host, []).append(at_s)
    calm, alarmed = (heard[host] for host in night.cluster.hosts)
    assert {b - a for a, b in pairwise(calm)} == {FRAME_S}
    assert [one for one in alarmed if one >= 20] == list(range(20, min(50, 20 + FAST_S)))


def test_every_row_is_sent_once_on_whatever_road() -> None:
    night = made()
    plain, late = Senders(night.cluster), Senders(night.cluster, road=Delivery.of("harsh", 1))
    counted = []
    for senders in (plain, late):
        rows = 0
        for at_s, second in enumerate(night.seconds(25)):
            for sent in senders.second(second, at_s):
                rows += sum(len(one.at_ms) for one in sent.matrices if one.layout.table == "accelerator")
        counted.append(rows)
    assert counted[0] == counted[1]
    assert counted[0] >= 4 * 20


def test_slower_sampling_sends_fewer_rows() -> None:
    night = made()
    senders = Senders(night.cluster, interval_s=10)
    rows = [
        len(one.at_ms)
        for at_s, second in enumerate(night.seconds(30))
        for sent in senders.second(second, at_s)
        for one in sent.matrices
        if one.layout.table == "host"
    ]
    assert sum(rows) == 2 * 3


def test_matrices_of_one_layout_become_one() -> None:
    names = ("host:a",)
    parts = [
        matrix_of(Samples("host", ["host:a"], np.array([at]), {"load_1m": np.array([float(at)])})) for at in (1, 2)
    ]
    same = [type(one)(one.layout, names, one.device, one.at_ms, one.gauges, one.counters) for one in parts]
    (whole,) = joined(same)
    assert whole.at_ms.tolist() == [1, 2]
    assert whole.gauges[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.slow
def test_a_lost_card_is_named_in_its_window_and_an_effect_that_cannot_be_made_is_skipped() -> None:
    case = Case(seed=5, sort="fault", hosts=4, effect="accelerator_off_bus", at_s=60, until_s=120)
    found = run(case, settings.load(), {}, {})
    one = of_sickbay(found)
    assert found.skipped == ""
    assert one.part is True
    assert one.machine_s is not None
    assert one.machine_s - 60 < 10
    assert run(case, settings.load(), {}, {}).words == found.words
    assert run(Case(seed=5, sort="fault", hosts=4, effect="no_such_fault"), settings.load(), {}, {}).skipped
