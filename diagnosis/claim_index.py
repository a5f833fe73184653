"""Which claims a row could explain at all, by component, host and time: a storm must not cost the square of itself."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

from diagnosis.claims import Claim
from diagnosis.mechanisms import Mechanism
from sickbay.components import HOST_SCOPED, kind_of

MOST = 300  # claims of one fault that one cause is tried on, the nearest in time: a storm's others join by each other
WIDTH_MS = 120_000  # onsets are intervals of at most this, save those without a history


class ClaimIndex:
    """Places of claims by fault, by fault and host, by fault and component; claims come in the order of their onset."""

    def __init__(self, claims: tuple[Claim, ...]) -> None:
        self._onsets = [_utc(claim) for claim in claims]
        self._by: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, claim in enumerate(claims):
            for key in {"", claim.component, _host(claim)}:
                self._by[claim.fault, key].append(place)
        self.faults = sorted({claim.fault for claim in claims})

    def candidates(self, row: Mechanism, cause: Claim, fault: str, slack_ms: int) -> Iterable[int]:
        """Places of claims of that fault that the row might explain by this cause."""
        key = {"same": cause.component, "part_of_host": _host(cause)}.get(row.edge, "")
        pool = self._by.get((fault, key), [])
        if len(pool) <= MOST:
            return pool
        dated = [place for place in pool if self._onsets[place] is not None]
        undated = [place for place in pool if self._onsets[place] is None]
        at = _utc(cause)
        return [*(dated[:MOST] if at is None else self._near(dated, at, row, slack_ms)), *undated[:MOST]]

    def _near(self, dated: list[int], at: int, row: Mechanism, slack_ms: int) -> list[int]:
        onsets = [self._onsets[place] or 0 for place in dated]
        first = bisect_left(onsets, at + row.least_ms - slack_ms - WIDTH_MS)
        last = bisect_right(onsets, at + row.greatest_ms + slack_ms + WIDTH_MS)
        return sorted(dated[first:last], key=lambda place: (abs((self._onsets[place] or 0) - at), place))[:MOST]


def _utc(claim: Claim) -> int | None:
    return claim.onset.from_ms if claim.onset and claim.onset.clock == "utc" else None


def _host(claim: Claim) -> str:
    """The host as named, the unknown `?` too; kinds without a host have none."""
    kind, _, rest = claim.component.partition(":")
    return f"host {rest.split('/')[0]}" if kind_of(claim.component) in HOST_SCOPED else f"kind {kind}"
