"""Scenario files: a night as TOML, with what is right about it. How the files are written is told in docs/nights.md.

    made = load(Path("night.toml"), seed=3)          # a `Scenario`: `made.seconds(...)`, `made.expectations()`
    told = read(path); truth = truth_of(told, made)   # and what is right of the whole night

A problem names the file, the key and what is allowed there.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from sickbay.schema import TABLES
from simulator.by_hand import Line, Reading, Restart, Word
from simulator.decoys import DECOYS
from simulator.faults import FAULTS
from simulator.noise import noise
from simulator.parts.cluster import build
from simulator.places import Places, hosts_in
from simulator.scenario import Scenario, wanted
from simulator.scenario_keys import At, Cluster, Job, Night, check, convert
from simulator.truth.plan import Ban, Duty, Right, Truth, Wanted
from simulator.workload import run as workload

_OF_JOB = frozenset(one.name for one in fields(workload.Job)) - {"hosts"}
_OF_CLUSTER = frozenset(signature(build).parameters) - {"seed", "hosts", "names"}
_TABLES = ("accelerator", "port", "host")
_HAPPENS = ("fault", "decoy", "line", "reading", "maintenance", "restart", "act")


def read(path: Path) -> Night:
    """The file as it is written. Raises ValueError that names it, OSError."""
    try:
        return convert(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def load(path: Path, *, seed: int = 0) -> Scenario:
    """The scenario of a file. Raises ValueError that names it, OSError."""
    told = read(path)
    try:
        return made_of(told, seed)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path.name}: {error.args[0] if error.args else error}") from None


def made_of(told: Night, seed: int) -> Scenario:
    """The scenario. Raises ValueError or KeyError that says what is wrong."""
    hosts = hosts_in(told.cluster.hosts)
    if len(set(hosts)) != len(hosts):
        raise ValueError("[cluster] hosts: a name is there twice")
    check("[cluster]", told.cluster.build, _OF_CLUSTER)
    cluster = build(seed=seed, hosts=len(hosts), **told.cluster.build)
    bare = Places(hosts, cluster)
    jobs = tuple(_job(place, one, bare, seed) for place, one in enumerate(told.job))
    made = Scenario(cluster, jobs, seed, feeds=told.cluster.feeds)
    made.noise = noise(told.noise or "none", seed)
    places = Places(hosts, cluster, jobs, told.cluster.feeds)
    for place, one in enumerate(told.job):
        made.recipes += _wishes(one, jobs[place].id)
    for place, entry in enumerate(told.at):
        try:
            _add(made, entry, places)
        except (ValueError, KeyError) as error:
            raise ValueError(f"[[at]] {place + 1} (s = {entry.s}): {error.args[0]}") from None
    return made


def places_of(told: Night, made: Scenario) -> Places:
    """The file's names in the scenario."""
    return Places(hosts_in(told.cluster.hosts), made.cluster, made.jobs, made.feeds)


def _job(place: int, told: Job, places: Places, seed: int) -> workload.Job:
    check(f"[[job]] {place + 1}: with", told.more, _OF_JOB)
    first = 4_400 + int(np.random.default_rng([seed, 0x10]).integers(500))
    hosts = tuple(map(places.host, hosts_in(told.hosts)))
    return workload.Job(**{"id": str(first + place), "hosts": hosts} | told.more)


def _wishes(told: Job, job: str) -> Iterator[tuple[str, dict[str, object]]]:
    """What the owner of a job says of it when it begins."""
    if told.restart_owner:
        yield "word", {"at": 0, "kind": "restart_owner", "target": f"job:{job}", "note": told.restart_owner}
    if told.no_stop_until_s is not None:
        yield "word", {"at": 0, "kind": "no_stop", "target": f"job:{job}", "lasts_s": told.no_stop_until_s}


def _add(made: Scenario, told: At, places: Places) -> None:
    """One entry of the time line."""
    what = [key for key in _HAPPENS if getattr(told, key)]
    if len(what) != 1:
        raise ValueError(f"one of {', '.join(_HAPPENS)}; not {' and '.join(what) or 'none'}")
    if what[0] in ("fault", "decoy"):
        _effect(made, told, places)
    elif what[0] == "act":
        made.acts.append((told.s, told.act, places.text(told.on) if "{" in told.on else told.on))
    else:
        by_hand = {"line": _line, "reading": _reading, "maintenance": _word, "restart": _restart}
        key, settings = by_hand[what[0]](told, places)
        made.recipes.append((key, {"at": told.s, **settings}))


def _effect(made: Scenario, told: At, places: Places) -> None:
    known, what = (FAULTS, told.fault) if told.fault else (DECOYS, told.decoy)
    if what not in known:
        raise ValueError(f"{'fault' if told.fault else 'decoy'}: no such thing as {what}; one of {', '.join(known)}")
    allowed = frozenset(signature(known[what]).parameters) - {"at", wanted(known[what])}
    check(f"{what}: with", told.more, {one for one in allowed if not one.startswith("_")})
    made.add(what, told.s, _target(wanted(known[what]), told.on, places) if told.on else None, told.more)


def _target(wants: str, on: str, places: Places) -> Any:
    """What the effect is given: a card, host, leaf or job."""
    if wants == "card":
        return places.card(on)
    if wants == "host":
        return places.card(on).host if "/" in on else places.host(on)
    return places.leaf(on) if wants in ("leaf", "switch") else places.component(on).partition(":")[2]


def _line(told: At, places: Places) -> tuple[str, dict[str, object]]:
    settings = told.more
    check("line: with", settings, _own(Line) - {"text", "source"})
    host, job = "", ""
    if told.printed_by == "job":
        job = places.job(told.on).id
    elif told.on:
        host = places.leaf(told.on) if told.printed_by == "switch" else places.host(told.on.partition("/")[0])
    return "line", {"source": told.printed_by, "text": places.text(told.line), "host": host, "job": job, **settings}


def _reading(told: At, places: Places) -> tuple[str, dict[str, object]]:
    check("reading: with", told.more, _own(Reading) - {"table", "column", "rows"})
    table, _, column = told.reading.partition(".")
    if table not in _TABLES:
        raise ValueError(f"reading: TABLE.COLUMN, with TABLE one of {', '.join(_TABLES)}, not {told.reading}")
    check(f"reading: of {table}", [column], [one.name for one in TABLES[table].columns])
    rows: list[int] = []
    for word in told.on.split(","):
        if "/" in word:
            rows.append(places.cluster.row(places.card(word.strip()).component))
        else:
            for host in map(places.host, hosts_in(word.strip())):
                cards = places.cluster.rows(host)
                rows += [places.cluster.host_index[host]] if table == "host" else range(cards.start, cards.stop)
    return "reading", {"table": table, "column": column, "rows": rows, **told.more}


def _word(told: At, places: Places) -> tuple[str, dict[str, object]]:
    check("maintenance: with", told.more, _own(Word) - {"kind", "target", "note"})
    return "word", {"kind": "maintenance", "target": places.component(told.on), "note": told.maintenance, **told.more}


def _restart(told: At, places: Places) -> tuple[str, dict[str, object]]:
    check("restart: with", told.more, {"back_steps"})
    hosts = tuple(map(places.host, hosts_in(told.on))) if told.on else ()
    return "restart", {"job": places.job(told.restart).id, "hosts": hosts, **told.more}


def _own(made: type[Line] | type[Reading] | type[Word] | type[Restart]) -> frozenset[str]:
    return frozenset(one.name for one in fields(made)) - {"at", "host", "job"}


def truth_of(told: Night, made: Scenario) -> Truth:
    """What is right of the night. Raises ValueError."""
    places = places_of(told, made)
    return Truth(
        rights=tuple(
            Right(
                frozenset(one.verdicts), places.group(one.components), frozenset(one.faults),
                tuple(_step(step, places) for step in one.plan), one.by_s,
            )
            for one in told.right
        ),
        bans=tuple(_ban(one, places) for one in told.forbidden.acts),
        exonerated=places.group(told.exonerate), hosts=frozenset(made.cluster.hosts),
        duties=tuple(Duty(one.stage, one.says) for one in told.duty), page=told.page,
        most=told.incidents_at_most, spare_all=told.forbidden.spare_all,
    )  # fmt: skip


def _step(text: str, places: Places) -> Wanted:
    do, _, target = text.partition(" ")
    return Wanted(do, target if target.startswith("owner:") else places.component(target) if target else "")


def _ban(text: str, places: Places) -> Ban:
    """`verb`, `verb@when`, `verb TARGET, TARGET`."""
    verb, _, targets = text.partition(" ")
    do, _, when = verb.partition("@")
    return Ban(do, places.group(word.strip() for word in targets.split(",")) if targets else frozenset(), when)


def settings_of(told: Cluster) -> Mapping[str, Any]:
    """What the builder is given."""
    return told.build
