"""Which setting of each baseline did best on the tune split; the file is frozen with those."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from benchmarks.accuracy.answers import of_baseline
from benchmarks.accuracy.outcomes import Result
from benchmarks.accuracy.scores import f1
from benchmarks.accuracy.settings import freeze as write


def chosen(results: Sequence[Result], numbers: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """By baseline the number of the setting with the best F1 of machines, the first of equals."""
    whole = [one for one in results if not one.skipped]
    return {name: max(tried, key=lambda number: (_f1(whole, name, number), -number)) for name, tried in numbers.items()}


def _f1(results: Sequence[Result], name: str, number: int) -> float:
    return f1([of_baseline(one, one.alarms.get(name, {}).get(str(number), ())) for one in results]) or 0.0


def freeze(found: Mapping[str, int], results: Sequence[Result]) -> str:
    """Writes them down with the digest of the settings that they were found under."""
    day = datetime.now(UTC).date().isoformat()
    return write(found, f"chosen on {len(results)} windows of the tune split, {day}")
