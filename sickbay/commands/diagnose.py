"""`sickbay diagnose`: real files in, incidents out."""

import sys
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cyclopts import Parameter

USAGE = 2


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
    if not paths and not prometheus:
        return _usage("nothing to read: name files or folders, or --prometheus URL --from T")
    if missing := [path for path in [*paths, *([topology] if topology else [])] if not path.exists()]:
        return _usage(f"no such file or folder: {', '.join(map(str, missing[:5]))}")
    try:
        zone = _zone(timezone)
        window = _window(from_, to) if prometheus else (0, 0)
    except ValueError as error:
        return _usage(str(error))
    return _run(paths, prometheus, window, topology, host, zone, lang, json, html)


def _usage(text: str) -> int:
    print(f"sickbay diagnose: {text}", file=sys.stderr)
    return USAGE


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
    from sickbay.app.offline import Options, run
    from sickbay.app.progress import reading_progress
    from sickbay.app.terminal import print_answer

    options = Options(host=host, zone=zone, lang=lang, topology=topology)
    live = []
    if prometheus:
        from sickbay.app.live_metrics import ask

        live.append(ask(prometheus, *window))
    with reading_progress(paths) as told:
        result = run(paths, options, more=live, progress=told)
    if html:
        from sickbay.app.html import write_report

        write_report(html, result, lang)
        print(f"report: {html}", file=sys.stderr)
    if json:
        sys.stdout.buffer.write(result.answer.json() + b"\n")
        sys.stdout.buffer.flush()
    else:
        print_answer(result.answer, lang)
    return result.status
