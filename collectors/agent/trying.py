"""Every source of a host tried once, side by side and within a time: what `doctor` shows. Nothing is sent or kept."""

import queue
import time
from collections.abc import Callable, Sequence

from collectors.agent.source import Collector
from collectors.agent.states import State
from collectors.agent.watching import Queue, Watch

STEP_S = 0.02
LISTENS = frozenset({"job_steps"})  # to try them would take a socket from an agent that is at work


def tried(collectors: Sequence[Collector], clock: Callable[[], int], limit_s: float) -> list[State]:
    """The state of each after one collection, or at the end of the time; one that hangs is left behind."""
    out: Queue = queue.Queue(0)
    watches = [Watch(one, out, clock, limit_s) for one in collectors if one.name not in LISTENS]
    left = [State(one.name, "waits", "listens only, and was not tried") for one in collectors if one.name in LISTENS]
    for watch in watches:
        watch.start()
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(watch.state.word == "waits" for watch in watches):
        time.sleep(STEP_S)
    states = [_state(watch, limit_s) for watch in watches]
    for watch in watches:
        watch.stop.set()
    ends = time.monotonic() + 1.0
    for watch in watches:
        watch.join(max(0.0, ends - time.monotonic()))
    return sorted([*states, *left])


def _state(watch: Watch, limit_s: float) -> State:
    state = watch.state
    return State(state.source, "hangs", f"a collection takes over {limit_s:g} s") if state.word == "waits" else state
