"""Light that is lost on its way, and lasers that fade or go out: which end of a link is at fault.

Errors and low light are seen by the receiver, and its own laser has no part in them. A receiver that gets less while
the far laser sends as before accuses what lies between (row 1, 2, 7 and 8 of the field's table); a laser that sends
less is itself the cause (3, 6, 10). An end that nobody read is unknown, never well. A laser that went out because a
person closed its port, or its host started anew, is no fault.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import polars as pl

from diagnosis.by_order import Orders, orders
from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from diagnosis.known_hosts import Hosts, is_switch, known_hosts
from sickbay.components import Kind, Name, host_of, link
from sickbay.messages import Evidence, Severity
from sickbay.topology import View

NAME, VERSION = "optic_power", "2"

FALL_DB = 1.5  # [house] loss that no temperature explains; half a dB is what a re-seat may change
STEADY_DB = 1.0  # a transmitter within this of its past is steady
DARK_DBM = -30.0  # modules report -40 for no light at all
LEAST_WINDOWS = 3  # low ones in a row; of no light at all one is enough
LEAST_BEFORE = 3  # windows that make a past
READ_MS = 90_000  # readings are a minute apart: the dark began at most so long before it was seen
COLUMNS = ("rx_power_dbm", "tx_power_dbm", "rx_power_alarm_dbm")


class Fall(NamedTuple):
    """A level that fell: between which times, from what to what (dBm), and the module's own alarm where it has one."""

    from_ms: int
    to_ms: int
    before: float
    now: float
    last_ms: int
    alarm: float | None = None

    @property
    def dark(self) -> bool:
        """No light at all."""
        return self.now <= DARK_DBM


@dataclass(frozen=True, slots=True)
class _Levels:
    """Levels of all modules, and who is at the other end."""

    by_optic: Mapping[Name, pl.DataFrame]
    case: Case
    hosts: Hosts

    def fall(self, optic: Name, column: str, by_db: float = FALL_DB) -> Fall | None:
        rows = self.by_optic.get(optic)
        return None if rows is None else fallen(rows, column, by_db, self.case.window_ms)

    def far(self, optic: Name, at_ms: int) -> Name | None:
        return far_optic(self.case.topology.at(at_ms), optic)


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per direction of a link that lost its light, or per laser that sends less."""
    frame = table(case, "optic", COLUMNS)
    if frame.height == 0:
        return
    low = _low(frame)
    view = case.topology.at(None)
    wanted = {*low, *(far for optic in low if (far := far_optic(view, optic)))}
    parts = frame.filter(pl.col("component").is_in(sorted(wanted))).partition_by("component", maintain_order=True)
    levels = _Levels({rows["component"][0]: rows for rows in parts}, case, known_hosts(case))
    known = orders(case)
    for optic in sorted(levels.by_optic):
        if (fall := levels.fall(optic, "tx_power_dbm")) and not _excused(optic, fall, known):
            yield _of_laser(optic, fall, levels)
    yield from _received(levels, known)


def _low(frame: pl.DataFrame) -> list[Name]:
    """Modules that may have lost light: all others need no second look, and a cluster has tens of thousands."""
    rx, tx, alarm = (pl.col(column) for column in COLUMNS)
    lost = [level.max() - level.drop_nulls().last() >= FALL_DB for level in (rx, tx)]
    beyond = rx.drop_nulls().last() <= alarm.drop_nulls().last()
    told = frame.group_by("component").agg(pl.any_horizontal(*lost, beyond).first().alias("low"))
    return told.filter(pl.col("low"))["component"].sort().to_list()


def _received(levels: _Levels, known: Orders) -> Iterator[Evidence]:
    told: set[Name] = set()  # links that were told already, both of whose directions fell
    for optic in sorted(levels.by_optic):
        if (fall := levels.fall(optic, "rx_power_dbm")) is None:
            continue
        far = levels.far(optic, fall.from_ms)
        if far is None or far not in levels.by_optic or not _is_read(levels.by_optic[far], fall):
            if far is None or not _excused(far, fall, known):
                yield _of_receiver(optic, fall, levels.case)
        elif levels.fall(far, "tx_power_dbm", STEADY_DB) is None:
            claim = _between(optic, far, fall, levels)
            yield from [claim] if claim.component not in told else []
            told.add(claim.component)


def fallen(rows: pl.DataFrame, column: str, by_db: float = FALL_DB, window_ms: int = 0) -> Fall | None:
    """The fall, where the last windows lie below the first ones; None where the level held or is unknown."""
    known = rows.filter(pl.col(column).is_not_null())
    values, ends = known[column].to_list(), known["end_ms"].to_list()
    if len(values) <= LEAST_BEFORE:
        return None
    # The best that it held: most of what is remembered may lie after the fall.
    before = max(median(values[i : i + LEAST_BEFORE]) for i in range(len(values) - LEAST_BEFORE + 1))
    low = [value <= before - by_db for value in values]
    first = len(low) - next((place for place, is_low in enumerate(reversed(low)) if not is_low), len(low))
    count = len(low) - first
    alarm = known["rx_power_alarm_dbm"].drop_nulls().to_list() if column == "rx_power_dbm" else []
    if first < LEAST_BEFORE or count < (1 if count and values[-1] <= DARK_DBM else LEAST_WINDOWS):
        return _below_alarm(values, ends, alarm[-1], window_ms) if alarm else None
    began = int(ends[first - 1]) - window_ms
    return Fall(began, int(ends[first]), before, min(values[first:]), int(ends[-1]), alarm[-1] if alarm else None)


def _below_alarm(values: list[float], ends: list[int], alarm: float, window_ms: int) -> Fall | None:
    """Light beyond the module's own alarm all the time; none at all since ever is a port in nobody's use."""
    if not all(DARK_DBM < value <= alarm for value in values):
        return None
    return Fall(int(ends[0]) - window_ms, int(ends[0]), alarm, values[-1], int(ends[-1]), alarm)


def far_optic(view: View, optic: Name) -> Name | None:
    """The module at the other end of the link."""
    other = view.other_end(Kind.PORT + ":" + optic.partition(":")[2])
    return Kind.OPTIC + ":" + other.partition(":")[2] if other else None


def _is_read(rows: pl.DataFrame, fall: Fall) -> bool:
    """Whether the far laser was read since: what it did before says nothing of now."""
    known = rows.filter(pl.col("tx_power_dbm").is_not_null())
    return known.height > LEAST_BEFORE and int(known["end_ms"].max() or 0) >= fall.to_ms  # type: ignore[arg-type]


def _excused(optic: Name, fall: Fall, known: Orders) -> bool:
    """The laser went out for a reason: its port was closed, or its host went down or starts."""
    from_ms, to_ms = fall.from_ms - READ_MS, fall.to_ms
    return fall.dark and (known.closed(optic, from_ms, to_ms) or known.starting(optic, from_ms, to_ms))


def _of_laser(optic: Name, fall: Fall, levels: _Levels) -> Evidence:
    says = "laser_out" if fall.dark else "laser_fades"
    far = levels.far(optic, fall.from_ms)
    facts = {"lights": far or "", "hosts": ", ".join(_hosts(levels, [optic, far] if far else [optic], fall))}
    return _claim(optic, "optic_fault", fall, CERTAIN, says, facts)


def _of_receiver(optic: Name, fall: Fall, case: Case) -> Evidence:
    """The far laser was not read: it may be that, the way, or the receiver."""
    far = far_optic(case.topology.at(fall.from_ms), optic)
    return _claim(optic, "optic_fault", fall, GOOD, "light_lost" if fall.dark else "light_fell", {"far": far or "?"})


def _between(optic: Name, far: Name, fall: Fall, levels: _Levels) -> Evidence:
    ends = [one.partition(":")[2] for one in (optic, far)]
    back = levels.fall(far, "rx_power_dbm")
    both = back is not None and levels.fall(optic, "tx_power_dbm", STEADY_DB) is None
    says = ("light_cut_between" if fall.dark else "light_lost_between") + ("_both_ways" if both else "")
    hosts = ", ".join(_hosts(levels, [optic, far], fall))
    facts = {"towards": optic, "from": far, "hosts": hosts, "lights": f"{optic}, {far}" if both else optic}
    return _claim(link(*ends), "link_attenuated", fall, CERTAIN, says, facts)


def _hosts(levels: _Levels, optics: list[Name], fall: Fall) -> list[str]:
    """Known hosts that these modules are in; others may be in switches."""
    hosts, case = levels.hosts, levels.case
    told = dict.fromkeys(host for one in optics if (host := host_of(one)))
    return [host for host in told if host in hosts and not is_switch(case, host, hosts, fall.from_ms)]


def _claim(component: Name, fault: str, fall: Fall, llr: float, says: str, facts: dict[str, str]) -> Evidence:
    beyond = fall.alarm is not None and fall.now <= fall.alarm
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(fall.to_ms)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=fall.from_ms,
        onset_to_ms=fall.to_ms,
        end_ms=fall.last_ms,
        window_end_ms=fall.last_ms,
        source_group=f"{component}|light",
        severity=Severity.ERROR if fall.dark or beyond else Severity.WARNING,
        says=says,
        facts={"before": f"{fall.before:.1f}", "now": f"{fall.now:.1f}"} | {k: v for k, v in facts.items() if v},
    )
