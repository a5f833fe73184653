"""Noise of the field, put behind a world: seconds in, seconds out. The truth of a scenario does not change by it.

    night = scenario(seed=3)
    for second in noise("field", seed=3)(night.seconds(600)): ...

Each source of noise is switched by its name and its strength (1 = as in the field, 0 = off), and draws from a source
of randomness of its own: to switch one off changes nothing of the others. What happens to a batch on its way to the
log (late, twice, out of order) is in `delivery`. Numbers are [house] where no source is told.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from simulator.noise import counters, gauges, sampling, sources, work
from simulator.noise.kit import Source
from simulator.world import Second

SOURCES: dict[str, Source] = {  # in the order in which they act: first what the sensors read, last who is heard
    "offsets": gauges.offsets,
    "diurnal": gauges.diurnal,
    "spikes": gauges.spikes,
    "stuck": gauges.stuck,
    "counter_resets": counters.resets,
    "counter_wraps": counters.wraps,
    **work.WORK,
    "partial_sweeps": sampling.partial_sweeps,
    "exporter_restarts": sources.exporter_restarts,
    "missing": sampling.missing,
    "jitter": sampling.jitter,
    "clock_skew": sampling.clock_skew,
    "agent_deaths": sources.agent_deaths,
}

PRESETS: dict[str, dict[str, float]] = {
    "none": {},
    "field": dict.fromkeys(SOURCES, 1.0),
    "harsh": dict.fromkeys(SOURCES, 5.0) | {"offsets": 2.0, "diurnal": 2.0, "jitter": 3.0},
}


@dataclass(slots=True)
class Noise:
    """Chosen sources of noise; called once, on the seconds of one night. `rngs`: each source's own."""

    strengths: Mapping[str, float]
    seed: int = 0
    rngs: dict[str, np.random.Generator] = field(default_factory=dict)

    def __call__(self, seconds: Iterator[Second]) -> Iterator[Second]:
        """The night with noise."""
        for name, make in SOURCES.items():
            if strength := self.strengths.get(name, 0.0):
                self.rngs[name] = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
                seconds = make(seconds, strength, self.rngs[name])
        return seconds


def noise(what: str | Mapping[str, float] | Iterable[str], seed: int = 0) -> Noise:
    """Noise by a preset (none, field, harsh), by strengths, or by names at strength 1. Raises KeyError."""
    if isinstance(what, str):
        if what not in PRESETS:
            raise KeyError(f"no such preset: {what}; one of {', '.join(PRESETS)}")
        strengths = PRESETS[what]
    else:
        strengths = dict(what) if isinstance(what, Mapping) else dict.fromkeys(what, 1.0)
    if unknown := set(strengths) - set(SOURCES):
        raise KeyError(f"no such noise: {', '.join(sorted(unknown))}; one of {', '.join(SOURCES)}")
    return Noise(strengths, seed)
