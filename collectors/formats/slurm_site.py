"""What Slurm's administrators decided: `scontrol show reservation -o` and the timers in `scontrol show config`.

Checked against 22.05.8. Only administrators name reservations: these texts are no users' own.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collectors.formats import hostlist, stamps
from collectors.formats.reading import Tally
from collectors.formats.text import lines
from sickbay.actions import Control
from sickbay.clock import resolve
from sickbay.components import Kind, name

_RESERVATION = re.compile(
    r"^ReservationName=(?P<name>.{1,400}?) StartTime=(?P<start>\S{1,40}) EndTime=(?P<end>\S{1,40}) Duration=\S{1,40} "
    r"Nodes=(?P<nodes>\S{1,200000}) "
)
_FLAGS = re.compile(r" Flags=(\S{0,400})(?= |$)")
_USERS = re.compile(r" Users=(\S{0,400})(?= |$)")
_SETTING = re.compile(r"^(?P<key>[A-Za-z_]{2,60})\s{0,60}= ?(?P<value>.{0,400})$")
# What decides how long a lost node or a job that hangs is waited for, and what comes back without a test.
TIMERS = (
    "ClusterName", "SlurmdTimeout", "SlurmctldTimeout", "ReturnToService", "KillWait", "KillOnBadExit",
    "UnkillableStepTimeout", "HealthCheckInterval", "HealthCheckProgram", "CompleteWait", "InactiveLimit",
    "ResumeTimeout", "SuspendTimeout", "JobRequeue", "MinJobAge",
)  # fmt: skip


BY = "slurm reservation"
MAINTENANCE = "maintenance"  # as `sickbay maintenance add` writes it
MOST_TARGETS = 10_000  # hosts of one reservation


class Reservation(NamedTuple):
    """A reservation for planned work: flag MAINT."""

    name: str
    hosts: tuple[str, ...]
    from_ms: int
    until_ms: int
    users: str


def reservations(text: str, tally: Tally) -> Iterator[Reservation]:
    """The planned work in an answer of `scontrol show reservation -o`, asked with TZ=UTC."""
    for _, row in lines([text.encode()], tally):
        if not row.strip() or row.startswith("No reservations"):
            continue
        match, flags, users = _RESERVATION.match(row), _FLAGS.search(row), _USERS.search(row)
        times = [resolve(stamps.iso(match[key])) for key in ("start", "end")] if match else []
        if match is None or flags is None or None in times:
            tally.unparsed += 1
            continue
        if "MAINT" not in flags[1].split(",") or match["nodes"] == "(null)":
            continue
        begin, end = (at or 0 for at in times)
        hosts = hostlist.names(match["nodes"], tally)
        who = users[1] if users and users[1] != "(null)" else ""
        yield Reservation(match["name"].strip(), hosts, begin, end, who)


def declared(fields: Mapping[str, str], tally: Tally) -> Iterator[Control]:
    """The planned work that the fields of a reservation declare, a host each; when, the reader dates."""
    if "MAINT" not in fields.get("Flags", "").split(",") or fields.get("Nodes", "(null)") == "(null)":
        return
    called = " ".join(fields["ReservationName"].split())
    who = fields.get("Users", "(null)")
    note = f"Slurm reservation {called}" + (f" of {who}" if who != "(null)" else "")
    for host in hostlist.names(fields["Nodes"], tally)[:MOST_TARGETS]:
        target = name(Kind.HOST, host)
        yield Control(kind=MAINTENANCE, target=target, by=f"{BY} {called}"[:240], at_ms=0, note=note[:500])


def timers(text: str) -> dict[str, str]:
    """The settings of TIMERS in an answer of `scontrol show config`, in its words; "" for those that are not set."""
    found: dict[str, str] = {}
    for _, row in lines([text.encode()], Tally()):
        if (match := _SETTING.match(row)) and match["key"] in TIMERS:
            value = " ".join(match["value"].split())
            found.setdefault(match["key"], "" if value == "(null)" else value)
    return found
