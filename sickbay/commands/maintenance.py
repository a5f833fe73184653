"""`sickbay maintenance`: planned work on hosts and on what they hang on, declared, listed, ended."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import complain, deliver, usage, write_json
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.asking.declaring import Declared
    from sickbay.settings import Config


def maintenance(
    do: Annotated[
        Literal["add", "list", "end"],
        Parameter(help="add PART…: declare work; list: what holds or is to come; end PART… or ID…: it is over."),
    ],
    parts: Annotated[
        list[str] | None, Parameter(help="Hosts (n1, n[2-9]) or parts that they hang on (rack:r7, switch:leaf-2).")
    ] = None,
    /,
    *,
    config: ConfigFile = None,
    from_: Annotated[str, Parameter(name="--from", help="When it begins: RFC 3339, now, or so long from now.")] = "now",
    until: Annotated[str, Parameter(help="When it ends, for add: RFC 3339, or so long from now, as 2h.")] = "",
    by: Annotated[str, Parameter(help="Who works there (default: the user who runs this).")] = "",
    note: Annotated[str, Parameter(help="What is done there.")] = "",
    all: Annotated[bool, Parameter(help="What is over too, for list.", negative="")] = False,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Declare planned work: until its end nothing is done there, and faults inside it are nobody's incident.

    Exit status: 0; 2 no such part, time or declaration.
    """
    from sickbay.app.asking.declaring import Unfit
    from sickbay.commands.people import user

    told = parts or []
    if do == "list" and told:
        return usage("maintenance list", "it takes no parts")
    if do != "list" and not told:
        return usage(f"maintenance {do}", "which parts? such as n1, n[2-9], rack:r7")
    if do == "add" and not until:
        return usage("maintenance add", "until when? such as --until 2h")
    settings = settings_of(config)
    try:
        if do == "add":
            return _shown(_added(settings, told, (from_, until), by or user(), note), json)
        return _shown(_ended(settings, told, by or user()) if do == "end" else _listed(settings, all), json)
    except Unfit as error:
        return usage(f"maintenance {do}", str(error))


def _added(settings: "Config", told: list[str], times: tuple[str, str], by: str, note: str) -> "list[Declared]":
    from sickbay.app.asking.declaring import moment, parts, tell_work, work
    from sickbay.app.asking.strangers import warnings
    from sickbay.commands.people import shared_log, zone_of
    from sickbay.log import wall_ms

    now_ms, zone = wall_ms(), zone_of(settings.cluster)
    from_ms, until_ms = (moment(text, now_ms, zone) for text in times)
    found = work(parts(told), from_ms, until_ms, by, note, now_ms)
    log = shared_log(settings.log)
    try:
        tell_work(log, found)
        complain(*(f"sickbay maintenance add: {text}" for text in warnings(log, [one.control.target for one in found])))
    finally:
        log.close()
    return found


def _ended(settings: "Config", told: list[str], by: str) -> "list[Declared]":
    from sickbay.app.asking.declaring import declared_work, ended, tell_work
    from sickbay.commands.people import shared_log
    from sickbay.log import wall_ms

    log = shared_log(settings.log)
    try:
        found = ended(declared_work(log), told, by, wall_ms())
        tell_work(log, found)
    finally:
        log.close()
    return found


def _listed(settings: "Config", over: bool) -> "list[Declared]":
    from sickbay.app.asking.declaring import declared_work
    from sickbay.commands.people import shared_log
    from sickbay.log import wall_ms

    log = shared_log(settings.log)
    try:
        found = declared_work(log)
    finally:
        log.close()
    now_ms = wall_ms()
    return [one for one in found if over or one.control.until_ms is None or one.control.until_ms > now_ms]


def _shown(found: "list[Declared]", json: bool) -> int:
    import msgspec

    from sickbay.app.asking.declaring import line_of
    from sickbay.log import wall_ms

    if json:
        rows = [{"id": one.id, "control": one.control} for one in found]
        write_json(msgspec.json.encode({"schema": "sickbay.maintenance/1", "maintenance": rows}))
    else:
        now_ms = wall_ms()
        lines = [line_of(one, now_ms) for one in found] or ["no declared work"]
        deliver(lambda: print("\n".join(lines)))
    return 0
