"""The `sickbay` command. Commands are loaded when called; exit statuses are the same contract for all of them."""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from sickbay import __version__

USAGE, INTERNAL, INTERRUPTED = 2, 4, 130

COMMANDS: dict[str, tuple[str, str]] = {  # name: (where, one line of help)
    "diagnose": (
        "sickbay.commands.diagnose:diagnose",
        "Read logs, metrics and dumps; say what is wrong and what to do.",
    ),
    "demo": ("sickbay.commands.demo:demo", "Watch a small simulated cluster break and be diagnosed."),
    "doctor": ("sickbay.commands.doctor:doctor", "Check this installation and say what is missing."),
}


def build() -> App:
    """The application with all commands, none of them imported yet."""
    app = App(
        name="sickbay",
        help="Finds the failing part of a training cluster, and leaves the healthy ones alone.",
        version=__version__,
        result_action="return_value",
    )
    for name, (where, text) in COMMANDS.items():
        app.command(where, name=name, help=text)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 2 for bad usage, 4 for an error of our own."""
    app = build()
    try:
        result = app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"sickbay: {error}\nTry: sickbay --help", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away: not an error, and nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _crashed(error)
    return result if isinstance(result, int) else 0


def _crashed(error: Exception) -> int:
    import traceback

    traceback.print_exception(error, file=sys.stderr)
    print("sickbay: this is an error of sickbay itself; please report it with the lines above", file=sys.stderr)
    return INTERNAL


if __name__ == "__main__":
    sys.exit(main())
