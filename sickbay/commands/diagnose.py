"""`sickbay diagnose`: real files in, incidents out."""

import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cyclopts import Parameter

from sickbay.commands.output import UNDELIVERED, complain, deliver, unwritable, usage, write_json

if TYPE_CHECKING:
    from sickbay.app.answering.offline import Result

REPORT_NEEDS = ("jinja2", "altair", "vl_convert")
MAX_DAYS = 31  # asked of a live Prometheus: a month in its own steps is millions of points
_HOST = re.compile(r"[^\W_][\w.:-]{0,252}")


def diagnose(
    paths: Annotated[list[Path] | None, Parameter(help="Files, folders and archives, in any mixture.")] = None,
    /,
    *,
    topology: Annotated[Path | None, Parameter(help="A topology file, beside those among the paths.")] = None,
    host: Annotated[str | None, Parameter(help="The host of lines that do not name one.")] = None,
    timezone: Annotated[str, Parameter(help="The zone of stamps without one, e.g. Asia/Shanghai.")] = "UTC",
    lang: Annotated[Literal["en", "zh"], Parameter(help="Language of the sentences.")] = "en",
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
    html: Annotated[Path | None, Parameter(help="Write an HTML report to this file.")] = None,
    prometheus: Annotated[str | None, Parameter(help="Ask this live Prometheus too.")] = None,
    from_: Annotated[str | None, Parameter(name="--from", help="Start, RFC 3339, for --prometheus.")] = None,
    to: Annotated[str | None, Parameter(help="End, RFC 3339, for --prometheus; default: now.")] = None,
) -> int:
    """Read logs, metrics and dumps; say what is wrong, how sure, why, and what to do.

    Exit status: 0 nothing wrong, 1 incidents, 2 bad usage or no readable input, 3 some input was not understood,
    4 an error of sickbay itself.
    """
    paths = paths or []
    if problem := _problem(paths, topology, prometheus, host, html):
        return usage("diagnose", problem)
    if (from_ or to) and not prometheus:
        return usage("diagnose", "--from and --to are for --prometheus")
    try:
        zone = _zone(timezone)
        window = _window(from_, to) if prometheus else (0, 0)
    except ValueError as error:
        return usage("diagnose", str(error))
    return _run(paths, prometheus, window, topology, host, zone, lang, json, html)


def _problem(
    paths: list[Path], topology: Path | None, prometheus: str | None, host: str | None, html: Path | None
) -> str:
    """What is wrong with the arguments, known before anything is read."""
    if not paths and not topology and not prometheus:
        return "nothing to read: name files or folders, or --prometheus URL --from T"
    if missing := [path for path in [*paths, *([topology] if topology else [])] if _missing(path)]:
        return f"no such file or folder: {', '.join(str(path)[-300:] for path in missing[:5])}"
    if host is not None and not _HOST.fullmatch(host):
        return f"--host {host[:80]!r} is no name of a host"
    return unwritable("--html", html, REPORT_NEEDS) if html else ""


def _missing(path: Path) -> bool:
    """Whether nothing is there. What is there and cannot be read is an input with a reason."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"--timezone {name!r} is not known; use a name such as Asia/Shanghai or UTC") from None


def _window(start: str | None, end: str | None) -> tuple[int, int]:
    if not start:
        raise ValueError("--prometheus needs --from, e.g. --from 2026-11-30T08:00:00Z")
    first = _moment("--from", start)
    last = _moment("--to", end) if end else int(datetime.now(UTC).timestamp() * 1000)
    if last <= first:
        raise ValueError("--to must be after --from")
    if last - first > MAX_DAYS * 86_400_000:
        raise ValueError(f"--from and --to are more than {MAX_DAYS} days apart: ask for less")
    return first, last


def _moment(option: str, text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{option} {text!r} is not RFC 3339, e.g. 2026-11-30T08:00:00Z") from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _run(
    paths: list[Path],
    prometheus: str | None,
    window: tuple[int, int],
    topology: Path | None,
    host: str | None,
    zone: tzinfo,
    lang: str,
    json: bool,
    html: Path | None,
) -> int:
    from sickbay.app.answering.offline import Options, run
    from sickbay.app.answering.progress import reading_progress
    from sickbay.app.answering.terminal import print_answer

    options = Options(host=host, zone=zone, lang=lang, topology=topology)
    live = []
    if prometheus:
        from sickbay.app.answering.live_metrics import ask

        live.append(ask(prometheus, *window))
    with reading_progress(paths) as told:
        result = run(paths, options, more=live, progress=told)
    if json:
        write_json(result.answer.json())
    else:
        deliver(lambda: print_answer(result.answer, lang))
    return _reported(html, result, lang) if html else result.status


def _reported(html: Path, result: "Result", lang: str) -> int:
    """Writes the report after the answer: a disk that is full by now must not cost the answer too."""
    from sickbay.app.answering.html import write_report

    try:
        write_report(html, result, lang)
    except OSError as error:
        complain(f"sickbay diagnose: --html {html}: {error.strerror or error}")
        return UNDELIVERED
    complain(f"report: {html}")
    return result.status
