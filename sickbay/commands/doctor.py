"""`sickbay doctor`: what works here, what is missing, what to do."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.output import deliver, write_json

if TYPE_CHECKING:
    from sickbay.doctor import Check


def doctor(*, json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False) -> int:
    """Check this installation and say what is missing. Exit status 0 if all that is needed is there, else 1."""
    from sickbay.doctor import examine

    checks = examine()
    if json:
        import msgspec

        write_json(msgspec.json.encode([check._asdict() for check in checks]))
    else:
        deliver(lambda: _print(checks))
    return 0 if all(check.ok is not False for check in checks) else 1


def _print(checks: "list[Check]") -> None:
    from rich.console import Console
    from rich.text import Text

    out = Console(highlight=False, soft_wrap=True)
    words = {True: ("ok", "green"), None: ("absent", "yellow"), False: ("FAIL", "bold red")}
    for check in checks:
        word, colour = words[check.ok]
        advice = f"  -> {check.do}" if check.ok is not True and check.do else ""
        out.print(Text(f"{word:<7}{check.name:<14}{check.says}{advice}", style=colour))
