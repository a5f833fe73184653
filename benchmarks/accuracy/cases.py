"""The plan of windows: which seed, cluster, job, effect and noise. The same for the same settings, mix, split and size.

A case has no state of a run: its key names it in the results' file, so that a run can be resumed, and the fault-free
windows of one mix are those of every other.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import msgspec
import numpy as np

from benchmarks.accuracy.mixes import Mix, mix
from benchmarks.accuracy.settings import Settings
from simulator.decoys import DECOYS
from simulator.faults import FAULTS

Split = Literal["tune", "test"]
Sort = Literal["fault", "decoy", "calm"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One window of one cluster with one job, and one effect or none."""

    seed: int
    sort: Sort
    hosts: int
    layout: str = "leaf"
    effect: str = ""
    at_s: int = 0
    severity: float = 1.0
    ramp_s: int = 0
    step_s: float = 5.0
    timeout_s: int = 600
    noise: str = "none"
    until_s: int = 480
    interval_s: int = 1  # between two samples

    @property
    def key(self) -> str:
        """The case by its contents."""
        return f"{self.sort}-{self.seed}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]}"


def available(settings: Settings, split: Split) -> list[str]:
    """The fault classes of a split: those held out are only in the test split."""
    out = set(settings["splits"]["held_out_faults"]) if split == "tune" else set()
    return sorted(set(FAULTS) - out)


def mix_of(settings: Settings, name: str, split: Split) -> Mix:
    """A mix of the settings for a split."""
    return mix(name, settings["mixes"][name], available(settings, split))


def plan(
    settings: Settings, name: str, split: Split, faults: int, *, quick: bool = False, hosts: int | None = None
) -> list[Case]:
    """The cases: `faults` with a fault, and as many others as the settings ask for, in an order that mixes them.

    `hosts`: of every job, for a point of scale; else they are drawn.
    """
    jobs = settings["jobs"]
    size = jobs["quick_hosts" if quick else "test_hosts" if split == "test" else "hosts"]
    size = size if hosts is None else {str(hosts): 1.0}
    shares = mix_of(settings, name, split).shares
    others = round(faults * (1 / settings["plan"]["faulty"] - 1))
    cases = [_case(settings, split, "fault", place, size, shares) for place in range(faults)]
    decoys = dict.fromkeys(sorted(DECOYS), 1.0 / len(DECOYS))
    cases += [_case(settings, split, "decoy", place, size, decoys) for place in range(others // 2)]
    cases += [_case(settings, split, "calm", place, size, {}) for place in range(others - others // 2)]
    return [cases[place] for place in np.random.default_rng(0xAC).permutation(len(cases))]


_SALT: Mapping[Sort, int] = {"fault": 0, "decoy": 1, "calm": 2}


def _case(
    settings: Settings, split: Split, sort: Sort, place: int, size: Mapping[str, float], shares: Mapping[str, float]
) -> Case:  # fmt: skip
    first, last = settings["splits"][f"{split}_seeds"]
    seed = first + (place * len(_SALT) + _SALT[sort]) % (last - first + 1)
    rng = np.random.default_rng([seed, 0xCA5E])
    jobs, window = settings["jobs"], settings["windows"]
    first_s, last_s = window["onset_s"]
    # Every draw is made whatever comes of it: a class more changes the effects and nothing else.
    hosts, layout = int(_one(rng, size)), _one(rng, jobs["layouts"])
    step_s, timeout_s = float(rng.choice(jobs["step_s"])), int(rng.choice(jobs["timeout_s"]))
    noise, at_s = _one(rng, settings["plan"]["noise"]), int(rng.integers(first_s, last_s + 1))
    severity, ramp = float(_one(rng, settings["plan"]["severity"])), int(_one(rng, settings["plan"]["ramp_s"]))
    effect = _one(rng, shares) if shares else ""
    takes = parameters(effect) if effect else frozenset()
    return Case(
        seed=seed, sort=sort, effect=effect, at_s=at_s, until_s=window["seconds"], hosts=hosts, layout=layout,
        severity=severity if "severity" in takes else 1.0, ramp_s=ramp if "ramp_s" in takes else 0,
        step_s=step_s, timeout_s=timeout_s, noise=noise,
    )  # fmt: skip


def parameters(effect: str) -> frozenset[str]:
    """The settings that an effect has."""
    made: Any = {**FAULTS, **DECOYS}[effect]
    return frozenset(signature(made).parameters)


def _one(rng: np.random.Generator, shares: Mapping[str, float]) -> str:
    names, weights = list(shares), np.array(list(shares.values()), float)
    return names[int(rng.choice(len(names), p=weights / weights.sum()))]


def by_sort(cases: Sequence[Case]) -> Iterator[tuple[Sort, int]]:
    """How many of each sort."""
    for sort in _SALT:
        yield sort, sum(case.sort == sort for case in cases)
