"""Rules only: a line that names a part of a host and says that it failed. No telemetry, no peers, no topology."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features
from sickbay.components import Kind, host_of, kind_of
from sickbay.messages import Blame, Event, Severity

NAME = "rules"
WORDS = {"fatal": frozenset({Severity.FATAL}), "error": frozenset({Severity.FATAL, Severity.ERROR})}
BOARDS = frozenset({Kind.ACCELERATOR, Kind.PCIE, Kind.FABRIC, Kind.CPU, Kind.DIMM})
PARTS = BOARDS | {Kind.HOST, Kind.NIC, Kind.PORT, Kind.OPTIC, Kind.DISK, Kind.FILESYSTEM}
SETTINGS = tuple(
    {"severity": severity, "of": of, "times": times}
    for severity in ("fatal", "error")
    for of in ("boards", "parts")
    for times in (1, 2)
)


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The host of the first such line, or of the second."""
    count: dict[str, int] = {}
    for at_s, event in features.events:
        host = _host(event, setting)
        if host in features.hosts:
            count[host] = count.get(host, 0) + 1
            if count[host] == setting["times"]:
                yield Alarm(at_s=at_s, host=host)


def _host(event: Event, setting: Mapping[str, Any]) -> str:
    kinds = BOARDS if setting["of"] == "boards" else PARTS
    named = event.severity in WORDS[setting["severity"]] and event.blame is not Blame.APPLICATION
    return (host_of(event.component) or "") if named and kind_of(event.component) in kinds else ""
