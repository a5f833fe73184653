"""Command lines of deploy files, checked against the commands, options, stages and sources that there are."""

from collections.abc import Sequence

from cyclopts import CycloptsError

from collectors.cluster.poll import CATALOGUE
from sickbay.app.running.stages import STAGES
from sickbay.cli import COMMANDS, build

NAMED = {"process": set(STAGES), "poll": set(CATALOGUE)}


def faults(words: Sequence[str]) -> list[str]:
    """What is wrong with `sickbay WORDS…`; nothing of it is run."""
    if not words or words[0] not in COMMANDS:
        return [f"no command {words[:1]}"]
    try:
        _, bound, _ = build().parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return [str(error)]
    known = NAMED.get(words[0])
    return [] if known is None else [f"no {words[0]} {name!r}" for name in bound.args if name not in known]
