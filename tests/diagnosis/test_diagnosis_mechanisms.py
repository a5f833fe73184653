"""The mechanism table as data: whole, lawful, and admitting exactly the delays and edges that it names."""

import pytest

from diagnosis.claims import Claim, claims_of, weight
from diagnosis.evidence import CERTAIN, identity
from diagnosis.localise import in_time, localise
from diagnosis.mechanisms import SETS, mechanisms, rows_between
from sickbay.messages import Evidence
from sickbay.vocabulary import faults
from tests.diagnosis.kit import HOSTS, T0, card, case, placement


def claim(fault: str, component: str, at_ms: int | None = 0, llr: float = CERTAIN, **fields: object) -> Evidence:
    at = None if at_ms is None else T0 + at_ms
    one = Evidence(
        id=identity("test", "1", component, fault, str(at_ms)), detector="test", version="1", component=component,
        fault=fault, llr=llr, onset_from_ms=at, onset_to_ms=at, says="explicit",
    )  # fmt: skip
    from sickbay.messages import replace

    told: Evidence = replace(one, **fields)
    return told


def test_the_first_25_rows_are_there() -> None:
    assert [row.row for row in mechanisms()][:25] == list(range(1, 26))
    assert len({row.name for row in mechanisms()}) == len(mechanisms())


@pytest.mark.parametrize("row", mechanisms(), ids=lambda row: row.name)
def test_each_row_is_lawful(row: object) -> None:
    from diagnosis.mechanisms import Mechanism

    assert isinstance(row, Mechanism)
    assert row.cause
    assert row.symptom
    assert row.cause | row.symptom <= set(faults())
    assert row.least_ms <= row.greatest_ms
    assert 0 < row.probability < 1
    assert row.note


def test_the_sets_name_fault_classes() -> None:
    assert all(members <= set(faults()) for members in SETS.values())


@pytest.mark.parametrize(
    ("cause", "symptom"),
    [
        ("accelerator_off_bus", "optic_fault"),  # loss of light is never caused by somebody else's card
        ("accelerator_off_bus", "link_down"),
        ("accelerator_off_bus", "pcie_degraded"),
        ("link_down", "accelerator_memory_uncorrectable"),
        ("peers_idle", "accelerator_off_bus"),
        ("collective_stall", "accelerator_thermal"),
    ],
)
def test_what_no_row_admits_is_never_a_symptom(cause: str, symptom: str) -> None:
    assert rows_between(cause, symptom) == ()


@pytest.mark.parametrize("delay_ms", [-500_000, -70_000, 0, 60_000, 600_000, 10_000_000])
def test_a_delay_outside_the_row_is_refused(delay_ms: int) -> None:
    (row,) = (row for row in rows_between("switch_down", "link_down") if row.edge == "shared_part")
    first, second = claims_of([claim("switch_down", "switch:a"), claim("link_down", "port:b/c", delay_ms)])
    cause, symptom = (first, second) if first.fault == "switch_down" else (second, first)
    assert in_time(row, cause, symptom, 2_000) is (-4_000 <= delay_ms <= 362_000)


def test_undated_or_wrongly_dated_claims_have_no_order() -> None:
    (row,) = (row for row in rows_between("switch_down", "link_down") if row.edge == "shared_part")
    dated = Claim("switch:a", "switch_down", (claim("switch_down", "switch:a"),))
    undated = Claim("port:b/c", "link_down", (claim("link_down", "port:b/c", None),))
    assert in_time(row, dated, undated, 0) is None
    wrong = Claim("port:b/c", "link_down", (claim("link_down", "port:b/c"),), ordered=False)
    assert in_time(row, dated, wrong, 0) is None


def test_one_physical_fact_counts_once() -> None:
    one = claim("host_blind", "host:h17", source_group="a")
    twice = claim("host_blind", "host:h17", 1, source_group="a")
    other = claim("host_blind", "host:h17", 2, source_group="b")
    assert weight([one]) == weight([one, twice])
    assert weight([one, other]) == pytest.approx(2 * weight([one]))


def test_no_group_counts_for_more_than_ln_20() -> None:
    assert weight([claim("host_blind", "host:h17", llr=50.0)]) == pytest.approx(CERTAIN)


def test_a_bus_error_before_the_loss_leaves_both_suspects_and_names_the_card() -> None:
    evidence = [claim("pcie_errors", "pcie:h17/0000:00:01.1", -40_000), claim("accelerator_off_bus", card("h17", 3))]
    (finding,) = localise(evidence, case([], [placement("4471", HOSTS)]))
    assert finding.headline.component == card("h17", 3)
    assert {suspect.component for suspect in finding.suspects} == {card("h17", 3), "pcie:h17/0000:00:01.1"}
    assert finding.suspects[0].probability >= finding.suspects[1].probability


def test_symptoms_of_another_job_stay_apart() -> None:
    evidence = [claim("accelerator_off_bus", card("h17", 3)), claim("peers_idle", "job:other", 500, job="other")]
    jobs = [placement("4471", HOSTS), placement("other", ["h99"])]
    found = localise(evidence, case([], jobs))
    assert [finding.headline.fault for finding in found] == ["accelerator_off_bus", "peers_idle"]


def test_the_same_fault_days_later_is_another_finding() -> None:
    evidence = [claim("link_down", "port:h1/e0"), claim("link_down", "port:h1/e0", 3 * 86_400_000)]
    assert len(localise(evidence, case())) == 2
