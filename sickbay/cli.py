"""The `sickbay` command. Commands are loaded when called; exit statuses are the same contract for all of them."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from sickbay import __version__
from sickbay.commands.output import UNDELIVERED, USAGE, Undelivered, complain, deliver, prepare
from sickbay.config import ConfigError
from sickbay.log import LogError

INTERNAL, INTERRUPTED = 4, 130

COMMANDS: dict[str, tuple[str, str]] = {  # name: (where, one line of help)
    "agent": ("sickbay.commands.agent:agent", "Watch one host: kernel log, exporters, training logs."),
    "change": ("sickbay.commands.change:change", "Tell of a change: driver, firmware, configuration, cabling."),
    "dashboards": ("sickbay.commands.dashboards:dashboards", "Build or check the Grafana boards."),
    "diagnose": (
        "sickbay.commands.diagnose:diagnose",
        "Read logs, metrics and dumps; say what is wrong and what to do.",
    ),
    "demo": ("sickbay.commands.demo:demo", "Watch a small simulated cluster break and be diagnosed."),
    "poll": ("sickbay.commands.poll:poll", "Poll schedulers: what runs where, and what they say of hosts."),
    "relay": ("sickbay.commands.relay:relay", "Take in frames of a rack or pod over HTTPS, and pack them."),
    "simulate": ("sickbay.commands.simulate:simulate", "Simulate a cluster of any size, and write what it tells."),
    "process": ("sickbay.commands.process:process", "Run stages on the log: ticker, windows, diagnosis, ..."),
    "up": ("sickbay.commands.up:up", "Run everything in one process, also on a made-up site (--simulate)."),
    "incidents": ("sickbay.commands.incidents:incidents", "List, show, approve or reject what is to be done."),
    "ledger": ("sickbay.commands.ledger:ledger", "What is held, and everything that was done."),
    "maintenance": ("sickbay.commands.maintenance:maintenance", "Declare planned work, list it, end it."),
    "remediate": ("sickbay.commands.remediate:remediate", "Hold, requeue, test, release: as far as the mode allows."),
    "deadletter": ("sickbay.commands.deadletter:deadletter", "List what could not be read, and put it back."),
    "doctor": ("sickbay.commands.doctor:doctor", "Check this installation and say what is missing."),
    "topology": ("sickbay.commands.topology:topology", "Tell the log what hangs on what, and show what it knows."),
    "replay": ("sickbay.commands.replay:replay", "Replay an archived range; say what would differ, and what if."),
    "report": ("sickbay.commands.report:report", "Tell the story of one incident: what, when, why, what was done."),
}


def build(asked: str = "") -> App:
    """The application with all commands, none of them imported yet. `asked`: the one that is to tell all of itself."""
    app = App(
        name="sickbay",
        help="Finds the failing part of a training cluster, and leaves the healthy ones alone.",
        version=__version__,
        result_action="return_value",
    )
    for name, (where, text) in COMMANDS.items():
        app.command(where, name=name, help=None if name == asked else text)  # None: its whole docstring
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 2 for bad usage, 4 for an error of our own."""
    prepare()
    arguments = sys.argv[1:] if arguments is None else arguments
    app = build(next(iter(arguments), ""))
    try:
        result = app(arguments, exit_on_error=False, print_error=False)
        deliver(lambda: None)
    except CycloptsError as error:
        complain(f"sickbay: {error}", "Try: sickbay --help")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigError as error:
        complain(f"sickbay: {error}")
        return USAGE
    except LogError as error:
        complain(f"sickbay: the log: {error}")
        return INTERNAL
    except Undelivered as error:
        complain(f"sickbay: {error}")
        return UNDELIVERED
    except BrokenPipeError:  # the reader of our output went away: not an error, and nobody to tell
        deliver(_gone)
        return 0
    except Exception as error:
        return _crashed(error)
    return result if isinstance(result, int) else 0


def _gone() -> None:
    raise BrokenPipeError


def _crashed(error: Exception) -> int:
    import traceback

    complain(*"".join(traceback.format_exception(error)).splitlines())
    complain("sickbay: this is an error of sickbay itself; please report it with the lines above")
    return INTERNAL


if __name__ == "__main__":
    sys.exit(main())
