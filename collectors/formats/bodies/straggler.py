"""Straggler reports of a job's own detector (nvidia-resiliency-ext in NeMo, Megatron Bridge and Lightning).

A score is a rank's speed over the fastest, 1 is best. A slow rank of one report is told, and judged by nobody: that a
rank is slow does not tell whether its card, its host or its share of the work makes it so.
"""

import re
from collections.abc import Iterable

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record

SLOW = 0.75  # the detector's own default threshold of its relative and individual scores
_MAX_RANKS = 64
_SCORE = re.compile(r"^\s{0,8}Rank=(?P<rank>\d{1,7}) Node=(?P<node>\S{1,253}) Score=(?P<score>[01]\.\d{1,6})$")
_WARNING = re.compile(
    r"STRAGGLER DETECTION WARNING: Some GPUs (?P<what>have worse relative performance|performance dropped)\. "
    r"Affected ranks: (?P<ranks>[\[{].{1,4000})"
)
_RANK = re.compile(r"(?:rank=|[\[{(,]\s?|^)(\d{1,7})(?=[\],})])")

LITERALS = ("STRAGGLER DETECTION WARNING", "Score=0.")


class Straggler:
    """Body grammar of straggler reports. Keeps nothing between lines."""

    def read(self, line: Line) -> Iterable[Record]:
        """`rank.slow` for each rank that the warning names, or whose score is below the detector's threshold."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        if match := _WARNING.search(body):
            ranks = [int(rank) for rank in _RANK.findall(match["ranks"])[:_MAX_RANKS]]
            return [event("rank.slow", rank_name(rank), code=match["what"]) for rank in ranks or [-1]]
        match = _SCORE.match(origin(body).rest)
        if not match or float(match["score"]) >= SLOW:
            return ()
        facts = {"score": match["score"], "node": match["node"]}
        told = {"code": f"score {match['score']}", "host": match["node"]}
        return [event("rank.slow", rank_name(int(match["rank"])), facts, **told)]

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


GRAMMAR = Straggler

SAMPLES = (
    Sample(
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [45, 13]",
        (
            {"type": "event", "component": "rank:?/45", "kind": "rank.slow", "severity": "warning"},
            {"type": "event", "component": "rank:?/13", "kind": "rank.slow"},
        ),
    ),
    Sample(
        "STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: {StragglerId(rank=45)}",
        ({"type": "event", "component": "rank:?/45", "kind": "rank.slow", "code": "performance dropped"},),
    ),
    Sample(
        " Worst performing 2/64 ranks:\n  Rank=45 Node=gx-r05-n07 Score=0.61\n  Rank=3 Node=gx-r01-n01 Score=0.97",
        ({"type": "event", "component": "rank:?/45", "kind": "rank.slow", "host": "gx-r05-n07"},),
    ),
)
