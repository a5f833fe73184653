"""The law of the screen: what it holds back, no detector would have claimed on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.case import Case
from diagnosis.engine import advanced, evidence_of
from diagnosis.lasting import parts_of
from sickbay.messages import Edge, Identity, Incident, Placement, Relation
from tests.diagnosis.kit import T0, Row, accelerators, card, case, event, hosts_up, placement
from tests.diagnosis.screen_kit import about, blocks_of, rows, screened, unscreened, windows_of

HOSTS = [f"h{number}" for number in range(8)]
CARDS = 4
FROM_S, TO_S = -300, 60
Fault = tuple[str, int, int, int, int]  # what, host, part, since (s), for so many windows


def until(fault: Fault) -> int:
    return fault[3] + 10 * fault[4]


def hit(faults: list[Fault], what: str, host: int, part: int, end_s: int) -> bool:
    return any(
        one[0] == what and one[1] == host and one[2] in (part, -1) and one[3] < end_s <= until(one) for one in faults
    )


def cards_of(faults: list[Fault], stalls: list[tuple[int, int, int]]) -> pl.DataFrame:
    def change(component: str, end_s: int, row: Row) -> Row | None:
        host, part = int(component.partition(":h")[2].partition("/")[0]), int(component.split(":")[2], 16)
        if hit(faults, "blind", host, part, end_s):
            return None
        if any(first <= host < first + 4 and since < end_s <= since + 120 for first, _, since in stalls):
            row |= {"matrix_active_ratio": 0.01, "power_watts": 230.0 + end_s % 3}
        if hit(faults, "slow", host, part, end_s):
            row |= {"clock_megahertz": 1300.0, "temperature_celsius": 85.0}
        if hit(faults, "rest", host, part, end_s):
            row |= {"utilisation_ratio": 0.0, "matrix_active_ratio": 0.0, "power_watts": 90.0}
        if hit(faults, "narrow", host, part, end_s):
            row |= {"bus_width_lanes": 8.0}
        if hit(faults, "unlabelled", host, part, end_s):
            row |= {"bus_width_lanes": 4.0, "bus_width_max_lanes": None}
        row |= {
            "memory_repair_pending": float(hit(faults, "repair", host, part, end_s)),
            "memory_uncorrected_total__increase": float(hit(faults, "memory", host, part, end_s)),
        }
        return row

    return accelerators(HOSTS, change, CARDS, FROM_S, TO_S)


def links_of(faults: list[Fault]) -> tuple[pl.DataFrame, pl.DataFrame]:
    ports, optics = [], []
    for place, host in enumerate(HOSTS):
        for part in range(2):
            for end_s in range(FROM_S, TO_S + 1, 10):

                def has(what: str, place: int = place, part: int = part, end_s: int = end_s) -> bool:
                    return hit(faults, what, place, part, end_s)

                key: Row = {"component": f"port:{host}/eth{part}", "end_ms": T0 + end_s * 1000}
                ports.append(
                    key
                    | {
                        "n": 10, "covered_ms": 10_000, "up": float(not has("dark")),
                        "symbol_errors_total__increase": 90.0 * has("symbols"), "rx_errors_total__increase": 0.0,
                        "link_downed_total__increase": float(has("downed")),
                        "tx_pause_total__increase": 2e5 * has("pauses") + 50.0,
                        "rx_pause_total__increase": 3e4 * (has("held") or any(one[0] == "pauses" for one in faults)),
                        "corrected_bits_total__increase": 5e5 if has("corrects") else 10.0 + place,
                        "received_bits_total__increase": 1e9,
                    }
                )  # fmt: skip
                if not end_s % 30:
                    optics.append(
                        key
                        | {
                            "component": f"optic:{host}/eth{part}", "rx_power_dbm": -1.0 - 9.0 * has("dim"),
                            "tx_power_dbm": 1.0 - 4.0 * has("fades"), "rx_power_alarm_dbm": -12.0,
                            "errors_before_correction_ratio": 4e-5 if has("module") else 1e-8,
                        }
                    )  # fmt: skip
    return pl.DataFrame(ports, infer_schema_length=None), pl.DataFrame(optics, infer_schema_length=None)


def links() -> list[Edge]:
    pairs = [(HOSTS[place], HOSTS[place + 1], part) for place in range(0, 8, 2) for part in range(2)]
    return [
        Edge(child=f"port:{a}/eth{part}", parent=f"port:{b}/eth{part}", relation=Relation.LINK_END)
        for a, b, part in pairs
    ]


def told(faults: list[Fault], stalls: list[tuple[int, int, int]], jobs: list[Placement], models: bool) -> Case:
    ports, optics = links_of(faults)
    hosts = hosts_up(HOSTS, FROM_S, TO_S).with_columns(
        clock_offset_seconds=pl.col("component").replace_strict(
            {f"host:{HOSTS[one[1]]}": 3.0 for one in faults if one[0] == "clock"}, default=0.0
        )
    )
    spoken = [
        event("accelerator.off_bus", card(HOSTS[one[1]], max(one[2], 0)), one[3], code="XID 79")
        for one in faults
        if one[0] == "code"
    ]
    features = {"accelerator": cards_of(faults, stalls), "port": ports, "optic": optics, "host": hosts}
    at = case(spoken, jobs, links(), features)
    names = [(host, f"0000:{part:02x}:00") for host in HOSTS for part in range(CARDS)]
    known = tuple(Identity(host=host, pci=pci, model=f"M{int(host[1:]) % 4 == 3}") for host, pci in names)
    return replace(at, identities=known if models else (), now_ms=T0 + TO_S * 1000)


OF_CARDS = ("blind", "slow", "rest", "narrow", "unlabelled", "repair", "memory", "code")
OF_LINKS = ("dark", "symbols", "downed", "pauses", "held", "corrects", "dim", "fades", "module", "clock")
faults = st.lists(
    st.tuples(
        st.sampled_from(OF_CARDS + OF_LINKS),
        st.integers(0, 7),
        st.sampled_from([-1, 0, 1, 2, 3]),
        st.sampled_from([-250, -100, -40, 0, 30]),
        st.sampled_from([1, 2, 3, 9, 40]),
    ),
    max_size=4,
)
stalls = st.lists(st.tuples(st.sampled_from([0, 2, 4]), st.just(4), st.sampled_from([-200, -60, -30])), max_size=2)
moments = st.sampled_from([None, -290, -120, -45, 5])
jobs = st.lists(
    st.builds(
        lambda number, first, count, begin, end: placement(
            f"{number}", HOSTS[first : first + count], CARDS,
            from_ms=None if begin is None else T0 + begin * 1000,
            to_ms=None if end is None or (begin or -999) >= end else T0 + end * 1000,
        ),
        st.integers(1, 4), st.sampled_from([0, 2, 4]), st.sampled_from([2, 4]), moments, moments,
    ),
    max_size=4, unique_by=lambda one: one.job,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(faults, stalls, jobs, st.booleans(), st.sampled_from([0, 1, 5]), st.sampled_from([0, 70_000]))
def test_the_screen_changes_no_claim(
    faults: list[Fault], stalls: list[tuple[int, int, int]], jobs: list[Placement], models: bool, every: int, late: int
) -> None:
    at = told(faults, stalls, jobs, models)
    assert evidence_of(screened(at, every=every, late_ms=late)) == evidence_of(unscreened(at))


@pytest.mark.parametrize("what", [(one,) for one in OF_CARDS + OF_LINKS])
def test_each_fault_alone_is_seen_by_both(what: tuple[str]) -> None:
    at = told([(what[0], 2, 1, -100, 9)], [(0, 4, -60)], [placement("1", HOSTS[:4], CARDS)], models=True)
    few = screened(at)
    assert evidence_of(few) == evidence_of(unscreened(at))
    assert rows(few) < rows(at)


def test_where_all_is_well_no_rows_are_looked_at() -> None:
    at = told([], [], [placement("1", HOSTS[:4], CARDS), placement("2", HOSTS[4:], CARDS)], models=True)
    assert rows(screened(at)) == 0


def looks(at: Case, given_out: Callable[[Case, list[Any], int, tuple[Incident, ...]], Case]) -> list[list[Any]]:
    """What each of several looks makes of it, one window after the other."""
    found, incidents = [], tuple[Incident, ...]()
    blocks = blocks_of(at)
    ends = sorted({one.end_ms for one in blocks})
    for end in ends[8::4]:
        seen = [one for one in blocks if one.end_ms <= end]
        now = replace(given_out(at, seen, end, incidents), now_ms=end)
        incidents, claims = advanced(incidents, now)
        found.append([*incidents, *claims])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("what", ["dark", "dim", "fades", "downed", "slow", "blind", "pauses", "corrects"])
def test_incidents_are_the_same_look_by_look(what: str) -> None:
    jobs = [placement("1", HOSTS[:4], CARDS, from_ms=T0 - 200_000), placement("2", HOSTS[4:], CARDS)]
    at = told([(what, 1, -1, -150, 40), ("slow", 6, 2, -20, 9)], [(0, 4, -140)], jobs, models=True)
    windows, count, horizon_ms = windows_of(at), [0], 120_000

    def few(at: Case, seen: list[Any], end_ms: int, incidents: tuple[Incident, ...]) -> Case:
        for one in seen[count[0] :]:
            windows.add(one)
        count[0] = len(seen)
        windows.forget(end_ms - horizon_ms)
        found = windows.look(end_ms, about(at)._replace(parts=parts_of(incidents)))
        return replace(at, features=found.features, wide=found.wide, whole_jobs=found.whole_jobs)

    def all_rows(at: Case, seen: list[Any], end_ms: int, incidents: tuple[Incident, ...]) -> Case:
        inside = pl.col("end_ms").is_between(end_ms - horizon_ms, end_ms)
        whole = unscreened(at)
        return replace(whole, features={name: frame.filter(inside) for name, frame in whole.features.items()})

    assert looks(at, few) == looks(at, all_rows)
