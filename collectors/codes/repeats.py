"""The same application code from the same place of one device for different jobs: then it is the device.

Runs of one failing program are one program however many they are: process ids do not count, names and fault addresses
do. A program that fails on several devices carries its error along.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from collectors.codes.moments import moment, noted
from sickbay.components import UNKNOWN
from sickbay.messages import Event

REPEAT_S = 24 * 3600.0  # the vendor's own look-back for repeated application codes
LEAST_JOBS = 2
LEAST_PROGRAMS = 3  # where jobs are unknown, names of programs are weaker evidence: a user may run several
REPEATABLE = frozenset(
    {
        "accelerator.program_error", "accelerator.page_fault", "accelerator.engine_error",
        "accelerator.context_timeout",
    }
)  # fmt: skip

SOFTWARE_ONLY = frozenset({"Xid 43"})  # the driver itself ended the program: the device is well however often

Events = list[Event]


def repeats(events: Events) -> Events:
    """Marks an application code that one place of a device gives to different jobs: the device, not the programs."""
    groups: defaultdict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    devices: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for place, event in enumerate(events):
        if (
            event.kind in REPEATABLE
            and event.code not in SOFTWARE_ONLY
            and not event.component.endswith(f"/{UNKNOWN}")
            and (owner := _owner(event))
        ):
            devices[event.code, owner].add(event.component)
            if (unit := _unit(event)) is not None:
                groups[event.component, event.code, unit, moment(event).clock].append(place)
    told = list(events)
    for places in groups.values():
        for day in _days(events, places):
            # A program that fails on several devices carries its error along.
            alone = [place for place in day if len(devices[events[place].code, _owner(events[place])]) == 1]
            if (jobs := _different(events[place] for place in alone)) > 0:
                for place in alone:
                    told[place] = noted(told[place], repeats_across_jobs=str(jobs))
    return told


def _owner(event: Event) -> str:
    """The job, else the program's name: the process id alone tells runs of one program apart, not programs."""
    return f"job {event.job}" if event.job and event.job != UNKNOWN else event.process.partition("[")[0]


def _unit(event: Event) -> str | None:
    """The place within the device that must be the same; None where the line does not tell what it has to."""
    if event.code != "Xid 13":
        return ""
    place = (event.attributes.get("gpc"), event.attributes.get("tpc"))
    return f"{place[0]}/{place[1]}" if all(place) else None


def _days(events: Events, places: Sequence[int]) -> Iterable[list[int]]:
    """The places in runs that span at most the look-back."""
    day: list[int] = []
    for place in sorted(places, key=lambda place: moment(events[place]).s):
        if day and moment(events[place]).s - moment(events[day[0]]).s > REPEAT_S:
            yield day
            day = []
        day.append(place)
    yield day


def _different(events: Iterable[Event]) -> int:
    """How many different programs or jobs there are, 0 where too few. The same fault address is the same program."""
    owners: set[str] = set()
    addresses: set[str] = set()
    for event in events:
        owner, address = _owner(event), event.attributes.get("address_low20", "")
        if address and address in addresses:
            continue
        addresses.add(address)
        owners.add(owner)
    least = LEAST_JOBS if all(owner.startswith("job ") for owner in owners) else LEAST_PROGRAMS
    return len(owners) if len(owners) >= least else 0
