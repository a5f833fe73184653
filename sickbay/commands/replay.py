"""`sickbay replay ARCHIVE`: what the same cores say of an archived range, as they are now or with other settings."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.output import deliver, usage, write_json
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.replaying.replay import Run
    from sickbay.app.replaying.replay_report import Told
    from sickbay.app.replaying.replay_span import Span
    from sickbay.history import History
    from sickbay.settings import Config

DIFFERS, INTERRUPTED = 1, 130
NEEDS = ("polars", "deltalake")


def replay(
    archive: Annotated[str, Parameter(help="The archive: a folder, or s3://bucket/prefix as in [archive] path.")],
    /,
    *,
    from_: Annotated[str, Parameter(name="--from", help="Where the range begins: RFC 3339.")],
    to: Annotated[str, Parameter(help="Where it ends: RFC 3339.")],
    speed: Annotated[float, Parameter(help="So many seconds of the range in one (default: as fast as it goes).")] = 0.0,
    settings: Annotated[
        Path | None, Parameter(help="What if: settings to replay with as well, and to compare with the others.")
    ] = None,
    config: ConfigFile = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Replay an archived range through windows, diagnosis and policy; say which incidents and holds differ.

    Compared is with what the archive holds, with --settings also with a replay under those. It never acts, and writes
    nothing. Exit status: 0 the same; 1 it differs (with --settings: from these settings); 2 bad usage, no such archive
    or no data in the range; 130 stopped by hand, with what was compared until then.
    """
    from importlib.util import find_spec

    if missing := [one for one in NEEDS if find_spec(one) is None]:
        return usage("replay", f"needs {' and '.join(missing)}: pip install 'sickbay[archive]'")
    if not 0 <= speed < float("inf"):
        return usage("replay", "--speed must be a number above 0, such as 60")
    configs = [settings_of(config)]
    if settings is not None:
        from sickbay.config import load

        configs.append(load(settings))
    from sickbay.app.replaying.replay_report import as_json, lines
    from sickbay.history import NoArchive

    try:
        begin_ms, end_ms = _range(from_, to, configs[0])
        told, status = _told(archive, begin_ms, end_ms, speed, configs)
    except (ValueError, NoArchive) as error:
        return usage("replay", str(error))
    if json:
        import msgspec

        write_json(msgspec.json.encode(as_json(told)))
    else:
        from sickbay.plain import plain

        deliver(lambda: print("\n".join(map(plain, lines(told)))))
    return status


def _range(begin: str, end: str, config: "Config") -> tuple[int, int]:
    """The range in milliseconds. Raises ValueError."""
    from sickbay.app.asking.declaring import moment
    from sickbay.commands.people import zone_of
    from sickbay.log import wall_ms

    now_ms, zone = wall_ms(), zone_of(config.cluster)
    begin_ms, end_ms = moment(begin, now_ms, zone), moment(end, now_ms, zone)
    if begin_ms >= end_ms:
        raise ValueError("--to must be after --from")
    return begin_ms, end_ms


def _told(archive: str, begin_ms: int, end_ms: int, speed: float, configs: "list[Config]") -> "tuple[Told, int]":
    """What came out, and the exit status. Raises NoArchive, and ValueError for an archive that cannot be replayed."""
    import msgspec
    from deltalake.exceptions import DeltaError
    from polars.exceptions import ColumnNotFoundError, PanicException, PolarsError

    from sickbay.app.replaying.replay import Run
    from sickbay.app.replaying.replay_archive import memory
    from sickbay.app.replaying.replay_span import span, window_notes
    from sickbay.archive_place import place
    from sickbay.history import History

    keys = configs[0].archive
    try:
        history = History(place(archive, keys.endpoint, keys.region))
        found = span(history, begin_ms, end_ms)
        found = _noted(found, *window_notes(history, found, configs[0].windows))
        before = memory(history, found.cut_ms)
        runs = [Run(one, found.cut_ms, before) for one in configs]
        reached_ms = _run(history, found, runs, speed)
        stopped = reached_ms < found.until_ms
        if stopped:
            found = _noted(found, "stopped by hand: compared is what was replayed until then", until_ms=reached_ms)
        told = _compared(history, _noted(found, *dict.fromkeys(text for run in runs for text in run.said)), runs)
    except ColumnNotFoundError as error:
        raise ValueError(
            f"{archive}: another version of Sickbay wrote it: no column {str(error).splitlines()[0]}"
        ) from None
    except (PolarsError, PanicException, DeltaError, OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{archive}: cannot be read: {str(error).splitlines()[0]}") from None
    return told, INTERRUPTED if stopped else 0 if told.equal else DIFFERS


def _noted(found: "Span", *notes: str, until_ms: int = 0) -> "Span":
    from dataclasses import replace

    until_ms = max(found.since_ms, until_ms) if until_ms else found.until_ms
    return replace(found, until_ms=until_ms, notes=(*found.notes, *notes))


def _run(history: "History", found: "Span", runs: "list[Run]", speed: float) -> int:
    """Replays; the moment that was reached."""
    from sickbay.app.answering.progress import seconds_progress
    from sickbay.app.replaying.replay_archive import feed

    began, reached_ms = time.monotonic(), found.begin_ms
    try:
        with seconds_progress((found.until_ms - found.begin_ms) // 1000) as told:
            for at_ms in feed(history, found, runs):
                reached_ms = at_ms - 2_000  # of the second before, and the looks at it
                told((at_ms - found.begin_ms) // 1000)
                if speed:
                    time.sleep(max(0.0, (at_ms - found.begin_ms) / 1000 / speed - (time.monotonic() - began)))
        return found.until_ms
    except KeyboardInterrupt:
        return min(reached_ms, found.until_ms - 1)


def _compared(history: "History", found: "Span", runs: "list[Run]") -> "Told":
    from sickbay.app.replaying.replay_archive import archived
    from sickbay.app.replaying.replay_compare import against_archive, against_run
    from sickbay.app.replaying.replay_report import Told

    first, last = runs[0], runs[-1]
    outcome = against_archive(archived(history, found), first, found.since_ms, found.until_ms)
    changed = against_run(first, last, found.since_ms, found.until_ms) if len(runs) > 1 else None
    holds = sorted(last.holds.found.values(), key=lambda one: (one.at_ms, one.target))
    return Told(
        found, outcome, changed, tuple(holds), first.fold.damaged + first.unreadable, first.counts.get("late", 0)
    )  # fmt: skip
