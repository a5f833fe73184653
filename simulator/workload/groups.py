"""Which ranks form which parallel groups, in the order of the common training frameworks.

Neighbours first: tensor, then context, then data, then pipeline (Megatron-LM's default `tp-cp-ep-dp-pp`):

    rank = tensor + TP * (context + CP * (data + DP * stage))

Experts are spread over neighbours in the data dimension. A tensor group never leaves its host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["tp", "cp", "dp", "pp", "ep"]
KINDS: tuple[Kind, ...] = ("tp", "cp", "dp", "pp", "ep")
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the parallel groups; data parallel is what is left. `tp` 0: all cards of a host."""

    tp: int = 0
    pp: int = 1
    cp: int = 1
    ep: int = 1

    def over(self, ranks: int, per_host: int) -> "Groups":
        """The groups of a job. Raises ValueError where they do not come out even, or a tensor group leaves a host."""
        tp = self.tp or per_host
        replica = tp * self.cp * self.pp
        if min(tp, self.cp, self.pp, self.ep) < 1 or ranks % replica:
            raise ValueError(f"{ranks} ranks do not make replicas of {replica}")
        if per_host % tp:
            raise ValueError(f"tensor groups of {tp} do not stay in hosts of {per_host}")
        if (ranks // replica) % self.ep:
            raise ValueError(f"{ranks // replica} replicas do not make expert groups of {self.ep}")
        return Groups(tp, self.cp, ranks // replica, self.pp, self.ep)


@dataclass(frozen=True)
class Groups:
    """Ranks in groups: all arrays are [ranks]."""

    tp: int
    cp: int
    dp: int
    pp: int
    ep: int = 1

    @property
    def ranks(self) -> int:
        """How many."""
        return self.tp * self.cp * self.dp * self.pp

    @cached_property
    def places(self) -> Mapping[Kind, Ints]:
        """Each rank's place inside of its group of a kind; of `pp` this is its stage, of `dp` its replica."""
        rank = np.arange(self.ranks, dtype=np.int64)
        data = rank // (self.tp * self.cp) % self.dp
        return {
            "tp": rank % self.tp,
            "cp": rank // self.tp % self.cp,
            "dp": data,
            "pp": rank // (self.tp * self.cp * self.dp),
            "ep": data % self.ep,
        }

    @cached_property
    def numbers(self) -> Mapping[Kind, Ints]:
        """Which group of a kind each rank is in: ranks of one group have the lowest rank of it as their number."""
        rank, step = np.arange(self.ranks, dtype=np.int64), {
            "tp": 1, "cp": self.tp, "dp": self.tp * self.cp, "pp": self.tp * self.cp * self.dp, "ep": self.tp * self.cp,
        }  # fmt: skip
        return {kind: rank - self.places[kind] * step[kind] for kind in KINDS}

    @property
    def stage(self) -> Ints:
        """Pipeline stage of each rank."""
        return self.places["pp"]

    def group_of(self, rank: int, kind: Kind) -> tuple[int, ...]:
        """The ranks of its group, itself included, in order. Raises IndexError."""
        number = self.numbers[kind]
        return tuple(np.flatnonzero(number == number[rank]).tolist())

    def role(self, rank: int) -> str:
        """Peers with the same work share it: those of one stage; empty where there are no stages."""
        return f"pp{self.stage[rank]}" if self.pp > 1 else ""
