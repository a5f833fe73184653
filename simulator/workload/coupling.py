"""How ranks that do not come stop all others: their own replica at once, other replicas at the end of their step."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from simulator.workload.groups import Groups

Floats = NDArray[np.float64]
SAME_HOST_S, SAME_REPLICA_S = 0.05, 0.4  # until tensor peers and stages wait: within hundreds of milliseconds


def waits_from(groups: Groups, absent: Collection[int], began_s: float, left_s: float) -> Floats:
    """When each rank enters the collective that does not end, seconds, [ranks]; absent ones never do (infinity).

    `left_s`: of the step that was under way when the first one did not come: by then every replica wants its gradients.
    """
    waits = np.full(groups.ranks, began_s + max(left_s, SAME_REPLICA_S))
    rows = np.array(sorted(absent), np.int64)
    if len(rows):
        replicas, tensors = groups.places["dp"], groups.numbers["tp"]
        waits[np.isin(replicas, replicas[rows])] = began_s + SAME_REPLICA_S
        for kind in ("ep", "cp"):
            number = groups.numbers[kind]
            if getattr(groups, kind) > 1:
                waits[np.isin(number, number[rows])] = began_s + SAME_REPLICA_S
        waits[np.isin(tensors, tensors[rows])] = began_s + SAME_HOST_S
        waits[rows] = np.inf
    return waits
