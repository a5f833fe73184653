"""Link voting: each flow that fails gives half a vote to either end, each lost carrier a whole one to its port; the
host with the most votes is named."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features
from sickbay.components import host_of
from sickbay.messages import Event

NAME = "link_voting"
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
SETTINGS = tuple({"votes": votes, "lead": lead} for votes in (0.5, 1.0, 1.5, 2.0) for lead in (1.0, 2.0))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The first host that has so many votes, and so many times as many as the next."""
    votes: dict[str, float] = {}
    for at_s, event in features.events:
        for host, share in _votes(event, features):
            votes[host] = votes.get(host, 0.0) + share
        ranked = sorted(votes.items(), key=lambda one: (-one[1], one[0]))
        if ranked and ranked[0][1] >= setting["votes"]:
            second = ranked[1][1] if len(ranked) > 1 else 0.0
            if ranked[0][1] >= setting["lead"] * second and ranked[0][1] > second:
                yield Alarm(at_s=at_s, host=ranked[0][0])
                return


def _votes(event: Event, features: Features) -> Iterator[tuple[str, float]]:
    if event.kind == "path.retry_exceeded":
        for end in dict.fromkeys(ADDRESS.findall(event.component)):
            if host := features.addresses.get(end):
                yield host, 0.5
    elif event.kind == "port.down":
        host = host_of(event.component)
        if host in features.hosts:
            yield str(host), 1.0
