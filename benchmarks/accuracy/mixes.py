"""Which fault classes happen how often: published tables by category, mapped to the classes that the simulator has."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sickbay.vocabulary import faults


class Mix(NamedTuple):
    """Shares of classes, summing to one. `without`: the share of the published table that no class stands for."""

    name: str
    source: str
    shares: Mapping[str, float]
    without: float


def mix(name: str, table: Mapping[str, Any], available: Collection[str]) -> Mix:
    """A mix of the settings over the classes that there are. Raises ValueError where none is left."""
    if table.get("equal"):
        weights, without = dict.fromkeys(sorted(available), 1.0), 0.0
    elif table.get("priors"):
        known = faults()
        weights = {one: float(known[one].prior) for one in sorted(available) if one in known and known[one].prior}
        without = 0.0
    else:
        weights, without = _mapped(table["shares"], table["classes"], available)
    total = sum(weights.values())
    if not total:
        raise ValueError(f"mix {name}: the simulator has none of its classes")
    return Mix(name, str(table["source"]), {one: weight / total for one, weight in weights.items()}, without)


def _mapped(
    shares: Mapping[str, float], classes: Mapping[str, Collection[str]], available: Collection[str]
) -> tuple[dict[str, float], float]:
    weights: dict[str, float] = {}
    lost = 0.0
    for category, share in shares.items():
        there = [one for one in classes.get(category, ()) if one in available]
        lost += 0.0 if there else share
        for one in there:
            weights[one] = weights.get(one, 0.0) + share / len(there)
    return weights, lost / sum(shares.values())
