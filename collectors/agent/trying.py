"""Every source of a host tried once, side by side and within a time: what `doctor` shows. Nothing is sent or kept."""

import queue
import time
from collections.abc import Callable, Sequence

from collectors.agent.source import Collector
from collectors.agent.states import State
from collectors.agent.watching import Crew, Queue, Watch

STEP_S = 0.02
LISTENS = frozenset({"job_steps"})  # to try them would take a socket from an agent that is at work


def tried(collectors: Sequence[Collector], clock: Callable[[], int], limit_s: float) -> list[State]:
    """The state of each after one collection, or at the end of the time; one that hangs is left behind."""
    out: Queue = queue.Queue(0)
    crew = Crew([one for one in collectors if one.name not in LISTENS], out, clock, limit_s, shared=False)
    left = [State(one.name, "waits", "listens only, and was not tried") for one in collectors if one.name in LISTENS]
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(state.word == "waits" for state in crew.states):
        time.sleep(STEP_S)
    states = [_state(watch, limit_s) for watch in crew.watches]
    crew.end(1.0)
    return sorted([*states, *left])


def _state(watch: Watch, limit_s: float) -> State:
    state = watch.state
    return State(state.source, "hangs", f"a collection takes over {limit_s:g} s") if state.word == "waits" else state
