"""`sickbay deadletter`: what could not be read or was not let in, and putting it back once that is mended."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.people import shared_log
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.asking.letters import Letter

NEWEST = 100


def deadletter(
    do: Annotated[Literal["list", "replay"], Parameter(help="list: show; replay: append again where it came from.")],
    /,
    *numbers: Annotated[int, Parameter(help="Numbers of letters, as listed; replay needs them.")],
    topic: Annotated[str, Parameter(help="Only letters of this source topic.")] = "",
    limit: Annotated[int, Parameter(help="The newest so many, for list.")] = NEWEST,
    json: Annotated[bool, Parameter(help="JSON on standard output, for list.", negative="")] = False,
    config: ConfigFile = None,
) -> int:
    """List dead letters, or append some again after the cause was mended.

    Exit status: 0, also where there are none; 1 a letter could not be replayed; 2 bad usage.
    """
    from sickbay.app.asking.letters import letters, replay
    from sickbay.commands.output import usage

    if do == "replay" and not numbers:
        return usage("deadletter", "replay needs the numbers of letters: sickbay deadletter list shows them")
    if limit < 1:
        return usage("deadletter", f"--limit {limit}: at least 1")
    log = shared_log(settings_of(config).log)
    try:
        if do == "list":
            return _list(letters(log.reader(), topic, numbers, limit), json)
        return _replayed(replay(log, numbers))
    finally:
        log.close()


def _list(found: "list[Letter]", json: bool) -> int:
    from sickbay.commands.output import deliver, write_json

    if json:
        import msgspec

        write_json(msgspec.json.encode({"schema": "sickbay.deadletters/1", "letters": found}))
    else:
        deliver(lambda: print("\n".join(map(_line, found)) if found else "no dead letters"))
    return 0


def _line(one: "Letter") -> str:
    from sickbay.clock import rfc3339
    from sickbay.plain import plain

    letter = one.letter
    at = rfc3339(letter.append_ms // 1000 * 1000)
    at = at.replace(".000Z", "Z") if at else f"at {letter.append_ms} ms"
    key = letter.key.decode("utf-8", "replace")
    where = f"{letter.topic}[{letter.partition}] {letter.offset}"
    return plain(f"{one.number}  {at}  {where}  {key}  {letter.size} bytes: {letter.reason}")


def _replayed(problems: dict[int, str]) -> int:
    from sickbay.commands.output import complain, deliver

    for number, problem in problems.items():
        if problem:
            complain(f"sickbay deadletter: {number}: {problem}")
    again = sum(not problem for problem in problems.values())
    deliver(lambda: print(f"{again} of {len(problems)} appended again; what still cannot be read becomes a new letter"))
    return int(any(problems.values()))
