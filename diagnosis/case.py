"""What detectors see: everything known about one stretch of time, already named, dated and joined.

Live, a case is the sliding horizon behind the stream's clock; offline it is all that the inputs hold. Detectors are
pure functions of it, so that both give the same evidence.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from sickbay.actions import Control
from sickbay.components import Name
from sickbay.messages import Change, Event, Evidence, Identity, Progress, Step
from sickbay.placement import Placements
from sickbay.topology import Topology

if TYPE_CHECKING:  # it reads cases itself
    from diagnosis.wide import Wide


@dataclass(frozen=True, slots=True)
class Case:
    """One stretch of time.

    `events` are sorted by (at_ms, path, line), the undated last. `features` maps a telemetry table to one row per
    (component, end_ms): `n` samples, and for each told column `<column>` (mean), `<column>__max`, `<column>__spread`;
    counters come as `<column>__increase`. Missing is null or NaN: no row at all means that nothing was received.
    """

    now_ms: int | None = None
    events: tuple[Event, ...] = ()
    progress: tuple[Progress, ...] = ()
    steps: tuple[Step, ...] = ()  # live only the newest of each job; `step_series` tells of all
    changes: tuple[Change, ...] = ()
    identities: tuple[Identity, ...] = ()
    features: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    window_ms: int = 10_000
    sampling_ms: int = 1_000
    topology: Topology = field(default_factory=Topology)
    placements: Placements = field(default_factory=Placements)
    maintenance: tuple[Control, ...] = ()  # what people declared, the newest last
    named: Callable[[Name], Name] = str  # what parts are called by now, which open incidents may call otherwise
    step_series: pl.DataFrame | None = None  # see `job_steps`; None: it follows from the steps, which are all there
    wide: "Wide | None" = None  # where `features` hold rows of some components only: what all of them tell
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # what several
    # detectors ask of the same rows, told once; no copy of the case has it
    whole_jobs: frozenset[str] | None = None  # jobs of which all rows are there (None: all); others have no peers here


Detector: TypeAlias = Callable[[Case], Iterable[Evidence]]
