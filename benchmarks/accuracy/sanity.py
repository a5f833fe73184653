"""Whether the generator is hard as the field is: four known figures, and a word where one is missed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.accuracy.answers import Answer, of_sickbay
from benchmarks.accuracy.outcomes import Result

IMBALANCE = frozenset({"stage_imbalance", "uneven_work", "sequence_length", "pipeline_imbalance", "expert_imbalance"})


class Check(NamedTuple):
    """One figure: what the field says, what came out, None where nothing tells it."""

    what: str
    wanted: str
    found: float | None
    holds: bool | None
    word: str


def checks(results: Sequence[Result], systems: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """All of them."""
    return [*_autoencoder(systems), _imbalance(results), _rules(systems)]


def as_dict(found: Sequence[Check]) -> list[dict[str, Any]]:
    """For JSON."""
    return [one._asdict() for one in found]


def text(found: Sequence[Check]) -> str:
    """For people."""
    words = {True: "holds", False: "MISSED", None: "not measured"}
    return "\n".join(
        f"{words[one.holds]:12}  {one.what}: wanted {one.wanted}, found "
        f"{'-' if one.found is None else f'{one.found:.3f}'}. {one.word}"
        for one in found
    )


def _value(systems: Mapping[str, Mapping[str, Any]], system: str, figure: str) -> float | None:
    told = systems.get(system, {}).get(figure)
    return None if told is None else float(told[0])


def _autoencoder(systems: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    ours, theirs = _value(systems, "autoencoder", "machine_f1"), _value(systems, "mahalanobis", "machine_f1")
    gain = None if ours is None or theirs is None else ours - theirs
    yield Check(
        "F1 of the autoencoder less that of Mahalanobis", "about 0.10", gain,
        None if gain is None else 0.02 <= gain <= 0.20,
        "" if gain is None or 0.02 <= gain <= 0.20 else "Effects are plain for both, or told by a log line only.",
    )  # fmt: skip
    alone = _value(systems, "autoencoder_without_continuity", "machine_precision")
    yield Check(
        "precision of the autoencoder without continuity", "about 0.75", alone,
        None if alone is None else 0.6 <= alone <= 0.88,
        "" if alone is None or 0.6 <= alone <= 0.88 else "Spikes of single machines are not as frequent as there.",
    )  # fmt: skip


def _imbalance(results: Sequence[Result]) -> Check:
    ours: list[Answer] = [of_sickbay(one) for one in results if not one.skipped and one.case.effect in IMBALANCE]
    held = sum(bool(one.holds or one.touched or one.exclusions) for one in ours)
    return Check(
        "windows with imbalance alone in which somebody is held", "0", float(held) if ours else None,
        held == 0 if ours else None, "" if ours else "The simulator has no such effect in this mix.",
    )  # fmt: skip


def _rules(systems: Mapping[str, Mapping[str, Any]]) -> Check:
    told = _value(systems, "rules", "machine_recall")
    holds = None if told is None else 0.23 <= told <= 0.43
    word = "" if holds is not False else "Lines that name the part are not as frequent as in the field."
    return Check("recall of rules alone", "about a third", told, holds, word)
