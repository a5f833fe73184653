"""Which end of a link is at fault, by light and by errors: the field's table of two ends, row by row."""

from collections.abc import Callable

import polars as pl
import pytest

from diagnosis.case import Case
from diagnosis.detectors import link_errors, optic_power
from diagnosis.engine import diagnose
from sickbay.messages import Edge, Evidence, Incident, Relation
from tests.diagnosis.kit import T0, case, event, leaf, placement

HOST, LEAF = "optic:h1/eth3", "optic:leaf-07/Ethernet0"
CABLE = "link:h1/eth3~leaf-07/Ethernet0"
MINUTES = range(-10, 6)

Level = Callable[[int], float | None]


def steady(level: float) -> Level:
    return lambda minute: level


def falls(before: float, after: float) -> Level:
    return lambda minute: before if minute <= 0 else after


USUAL = {"rx_host": steady(-1.9), "tx_host": steady(0.8), "rx_leaf": steady(-1.2), "tx_leaf": steady(1.0)}


def light(**levels: Level) -> pl.DataFrame:
    rx_host, tx_host, rx_leaf, tx_leaf = (USUAL | levels).values()
    rows = [
        {"component": optic, "end_ms": T0 + 60_000 * minute, "rx_power_dbm": rx(minute), "tx_power_dbm": tx(minute)}
        for optic, rx, tx in ((HOST, rx_host, tx_host), (LEAF, rx_leaf, tx_leaf))
        for minute in MINUTES
    ]
    told = [row for row in rows if row["rx_power_dbm"] is not None or row["tx_power_dbm"] is not None]
    return pl.DataFrame(told, infer_schema_length=None).with_columns(pl.lit(-8.9).alias("rx_power_alarm_dbm"))


def seen(frame: pl.DataFrame, *events: object) -> Case:
    return case(events, [placement("4471", ["h1"])], leaf("leaf-07", ["h1", "h2"]), {"optic": frame})  # type: ignore[arg-type]


def claims(frame: pl.DataFrame, *events: object) -> list[tuple[str, str]]:
    return [(one.component, one.says) for one in optic_power.claims(seen(frame, *events))]


@pytest.mark.parametrize(
    ("frame", "component", "says"),
    [
        (light(rx_host=falls(-1.9, -4.1)), CABLE, "light_lost_between"),  # 1
        (light(rx_leaf=falls(-1.2, -4.1)), CABLE, "light_lost_between"),
        (light(rx_host=falls(-1.9, -4.1), rx_leaf=falls(-1.2, -3.4)), CABLE, "light_lost_between_both_ways"),  # 2
        (light(tx_leaf=falls(1.0, -2.0), rx_host=falls(-1.9, -4.9)), LEAF, "laser_fades"),  # 3
        (light(tx_host=falls(0.8, -2.0), rx_leaf=falls(-1.2, -4.0)), HOST, "laser_fades"),
        (light(tx_host=falls(0.8, -40.0), rx_leaf=falls(-1.2, -40.0)), HOST, "laser_out"),  # 6, 10
        (light(rx_host=falls(-1.9, -40.0)), CABLE, "light_cut_between"),  # 7
        (light(rx_host=falls(-1.9, -40.0), rx_leaf=falls(-1.2, -40.0)), CABLE, "light_cut_between_both_ways"),  # 8
    ],
)
def test_the_table_of_two_ends(frame: pl.DataFrame, component: str, says: str) -> None:
    assert claims(frame) == [(component, says)]


@pytest.mark.parametrize("gone_after", [-20, 0])
def test_an_end_that_nobody_read_is_unknown_and_never_well(gone_after: int) -> None:
    def unread(level: float) -> Level:
        return lambda minute: level if minute <= gone_after else None

    frame = light(rx_host=falls(-1.9, -4.1), rx_leaf=unread(-1.2), tx_leaf=unread(1.0))
    assert claims(frame) == [(HOST, "light_fell")]
    (incident,) = diagnose(seen(frame))
    assert {one.component for one in incident.suspects} == {HOST, "port:leaf-07/Ethernet0"}


@pytest.mark.parametrize("end", ["port:leaf-07/Ethernet0", "port:h1/eth3"])
def test_a_laser_that_a_person_put_out_is_no_fault(end: str) -> None:
    frame = light(tx_leaf=falls(1.0, -40.0), rx_host=falls(-1.9, -40.0))
    assert claims(frame, event("port.admin_down", end, 40.0)) == []
    assert claims(frame, event("port.admin_down", end, -4_000.0)) == [(LEAF, "laser_out")]


def test_a_laser_goes_out_with_its_host() -> None:
    frame = light(tx_host=falls(0.8, -40.0), rx_leaf=falls(-1.2, -40.0))
    assert claims(frame, event("host.boot", "host:h1", 200.0)) == []


def test_light_that_holds_comes_back_or_was_never_there_says_nothing() -> None:
    assert claims(light()) == []
    assert claims(light(rx_host=lambda minute: -4.1 if minute == 2 else -1.9)) == []
    assert claims(light(rx_host=steady(-40.0))) == []
    assert claims(light(rx_host=falls(-1.9, -2.6))) == [], "what a re-seat may change"


def test_light_beyond_the_modules_own_alarm_since_ever_is_told() -> None:
    assert claims(light(rx_host=steady(-9.6))) == [(CABLE, "light_lost_between")]


def test_the_receivers_own_alarm_joins_what_dims_its_light() -> None:
    frame = light(rx_host=falls(-1.9, -9.5))
    (incident,) = diagnose(seen(frame, event("optic.error", HOST, 90.0, code="received light low")))
    assert (incident.component, incident.fault) == (CABLE, "link_attenuated")


def test_one_module_under_two_ports_is_one_incident() -> None:
    module = "optic:leaf-07/SN4711"
    shared = [
        Edge(child=f"port:leaf-07/Ethernet{port}", parent=module, relation=Relation.ATTACHED_TO) for port in (0, 1)
    ]
    downs = [event("port.down", f"port:{host}/eth3", 5.0 + place / 10) for place, host in enumerate(("h1", "h2"))]
    dark = light(tx_leaf=falls(1.0, -40.0), rx_host=falls(-1.9, -40.0))
    twin = dark.with_columns(pl.col("component").replace({HOST: "optic:h2/eth3", LEAF: "optic:leaf-07/Ethernet1"}))
    at = case(
        downs, [placement("A", ["h1"]), placement("B", ["h2"])],
        leaf("leaf-07", [f"h{number}" for number in range(1, 9)]) + shared, {"optic": pl.concat([dark, twin])},
    )  # fmt: skip
    (incident,) = diagnose(at)
    assert (incident.verdict, incident.component) == ("shared", module)
    assert {"host:h1", "host:h2"} <= set(incident.dependants)


# --- what receivers correct


def corrected(after: float, before: float = 3e-6, bits: float = 4e12) -> list[Evidence]:
    rows = [
        {
            "component": "port:h1/eth3", "end_ms": T0 + 10_000 * window, "received_bits_total__increase": bits,
            "corrected_bits_total__increase": bits * (before if window <= 0 else after),
        }
        for window in range(-20, 10)
    ]  # fmt: skip
    return list(link_errors.claims(case(features={"port": pl.DataFrame(rows)})))


def test_correction_that_grows_tenfold_is_watched_and_normal_correction_is_not() -> None:
    (claim,) = corrected(8e-5)
    assert (claim.component, claim.says, claim.advice) == ("port:h1/eth3", "corrects_more", "watch")
    assert corrected(6e-6) == []
    assert corrected(9e-8, before=1e-9) == [], "far below what matters"
    assert corrected(5e-5, before=4e-5) == [], "as ever"


def headline(found: tuple[Incident, ...]) -> list[tuple[str, str]]:
    return [(one.component, one.action) for one in found]


def test_corrected_bits_alone_advise_a_look_at_most() -> None:
    rows = [
        {"component": "optic:h1/eth3", "end_ms": T0 + 60_000 * minute, "rx_power_dbm": -1.9, "tx_power_dbm": 0.5,
         "errors_before_correction_ratio": 3e-6 if minute <= 0 else 9e-5}
        for minute in MINUTES
    ]  # fmt: skip
    at = case([], [], leaf("leaf-07", ["h1"]), {"optic": pl.DataFrame(rows)})
    assert headline(diagnose(at)) == [("port:h1/eth3", "watch")]


def test_both_ends_that_correct_more_are_one_question_about_the_cable() -> None:
    ends = ("optic:h1/eth3", "optic:leaf-07/Ethernet0")
    rows = [
        {
            "component": end, "end_ms": T0 + 60_000 * minute,
            "errors_before_correction_ratio": 3e-6 if minute <= 0 else 9e-5,
        }
        for end in ends
        for minute in MINUTES
    ]  # fmt: skip
    at = case([], [], leaf("leaf-07", ["h1"]), {"optic": pl.DataFrame(rows)})
    assert headline(diagnose(at)) == [(CABLE, "watch")]
