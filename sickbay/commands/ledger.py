"""`sickbay ledger`: what is held, and everything that was done, refused or shown."""

from typing import Annotated

from cyclopts import Parameter

from sickbay.commands.output import deliver, write_json
from sickbay.commands.people import shared_log
from sickbay.commands.settings import ConfigFile, settings_of


def ledger(
    *,
    config: ConfigFile = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Print what is held now and the history of all actions, oldest first."""
    import msgspec

    from sickbay.app.asking.desk import desk, held
    from sickbay.app.asking.ledger_lines import line_of

    log = shared_log(settings_of(config).log)
    try:
        here = desk(log)
    finally:
        log.close()
    holds = held(here)
    lines = sorted(here.ledger.values(), key=lambda line: (line.at_ms or 0, line.id))
    if json:
        write_json(msgspec.json.encode({"schema": "sickbay.ledger/1", "held": holds, "actions": lines}))
        return 0
    text = [f"held now: {len(holds)}", *(f"  {line_of(line)}" for line in holds), f"actions: {len(lines)}"]
    text += [f"  {line_of(line)}" for line in lines]
    deliver(lambda: print("\n".join(text)))
    return 0
