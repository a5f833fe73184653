"""`sickbay change post`: tells that somebody changed something, so that a fault after it can be seen beside it."""

from typing import Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import complain, deliver, usage, write_json
from sickbay.commands.settings import ConfigFile, settings_of

MAX_WORDS = 1_000


def change(
    do: Annotated[Literal["post"], Parameter(help="post TARGET WHAT: tell of one change.")],
    target: Annotated[str, Parameter(help="What was changed: a host (n1) or a part (switch:leaf-2).")],
    what: Annotated[str, Parameter(help="What of it: driver, firmware, config, image, code, cabling ...")],
    /,
    *,
    config: ConfigFile = None,
    old: Annotated[str, Parameter(help="What it was before.")] = "",
    new: Annotated[str, Parameter(help="What it is now.")] = "",
    at: Annotated[str, Parameter(help="When: RFC 3339, or now.")] = "now",
    who: Annotated[str, Parameter(help="Who did it (default: the user who runs this).")] = "",
    note: Annotated[str, Parameter(help="Why, or a ticket.")] = "",
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Post a change: of a driver, firmware, a configuration, an image, a cable.

    Exit status: 0; 2 no such part or time.
    """
    from collectors.formats.masking import struck
    from sickbay.app.asking.declaring import Unfit, moment, parts, tell_change
    from sickbay.app.asking.strangers import warnings
    from sickbay.clock import rfc3339
    from sickbay.commands.people import shared_log, user, zone_of
    from sickbay.log import wall_ms
    from sickbay.messages import Change, encode
    from sickbay.plain import plain

    settings, now_ms = settings_of(config), wall_ms()
    try:
        found = parts([target])
        at_ms = moment(at, now_ms, zone_of(settings.cluster))
    except Unfit as error:
        return usage(f"change {do}", str(error))
    if len(found) != 1 or not what.strip():
        return usage(f"change {do}", "one part and one word for what was changed: sickbay change post n1 driver")
    said = Change(
        target=found[0], what=what.strip()[:MAX_WORDS], at_ms=at_ms, who=(who or user())[:MAX_WORDS],
        old=struck(old)[:MAX_WORDS], new=struck(new)[:MAX_WORDS], message=struck(note)[:MAX_WORDS],
    )  # fmt: skip
    log = shared_log(settings.log)
    try:
        tell_change(log, said)
        complain(*(f"sickbay change post: {text}" for text in warnings(log, [said.target])))
    finally:
        log.close()
    if json:
        write_json(encode(said))
    else:
        words = f" {said.old or '?'} to {said.new or '?'}" if said.old or said.new else ""
        line = plain(f"told: {said.what} of {said.target}{words} at {rfc3339(said.at_ms)} by {said.who}")
        deliver(lambda: print(line))
    return 0
