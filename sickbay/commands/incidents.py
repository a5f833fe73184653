"""`sickbay incidents`: what stands, what was or would be done, and a person's yes or no."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import complain, deliver, usage, write_json
from sickbay.commands.people import shared_log
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.asking.desk import Desk
    from sickbay.log import Log

REFUSED = 1  # exit status: there it is, but nothing waits for that answer


def incidents(
    do: Annotated[
        Literal["list", "show", "approve", "reject"],
        Parameter(help="list: what stands; show ID: one incident; approve or reject ID: answer what waits."),
    ],
    id: Annotated[
        str,
        Parameter(
            help="Of an incident, or of an action to answer (a release only by its own); its beginning is enough."
        ),
    ] = "",
    /,
    *,
    config: ConfigFile = None,
    by: Annotated[str, Parameter(help="Who answers (default: the user who runs this).")] = "",
    note: Annotated[str, Parameter(help="Why, for the ledger.")] = "",
    all: Annotated[bool, Parameter(help="Closed incidents too, for list.", negative="")] = False,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """List incidents with their actions, show one, or answer an action that waits for a person.

    Exit status: 0; 1 nothing waits for that answer, or its time is over; 2 no such id, or more than one.
    """
    from sickbay.app.asking.desk import NotAsked, NotFound, desk

    if not id and do != "list":
        return usage(f"incidents {do}", "which one? sickbay incidents list shows the ids")
    log = shared_log(settings_of(config).log)
    try:
        here = desk(log)
        if do == "list":
            return _list(here, all, json)
        return _show(here, id, json) if do == "show" else _answer(log, here, do, id, by, note, json)
    except NotFound as error:
        return usage(f"incidents {do}", str(error))
    except NotAsked as error:
        complain(f"sickbay incidents {do}: {error}")
        return REFUSED
    finally:
        log.close()


def _list(here: "Desk", closed: bool, json: bool) -> int:
    from sickbay.app.asking.desk import matters, rows, told

    if json:
        _json([told(here, one) for one in here.incidents.values() if closed or matters(here, one)])
    else:
        lines = rows(here, closed=closed) or ["no open incident"]
        deliver(lambda: print("\n".join(lines)))
    return 0


def _show(here: "Desk", key: str, json: bool) -> int:
    from sickbay.app.asking.desk import page, told

    one = here.incident(key)
    if json:
        _json(told(here, one))
    else:
        deliver(lambda: print("\n".join(page(here, one))))
    return 0


def _answer(log: "Log", here: "Desk", do: str, key: str, by: str, note: str, json: bool) -> int:
    from sickbay.app.asking.desk import answer
    from sickbay.commands.people import user
    from sickbay.log import wall_ms
    from sickbay.plain import plain

    waits = here.waiting(key)
    said = answer(log, waits, do, by or user(), wall_ms(), note[:1000])
    if json:
        _json(said)
    else:
        done = "approved" if do == "approve" else "rejected"
        deliver(lambda: print("\n".join(plain(f"{done} {one.do} {one.target} (action {one.id})") for one in waits)))
    return 0


def _json(value: object) -> None:
    import msgspec

    write_json(msgspec.json.encode(value))
