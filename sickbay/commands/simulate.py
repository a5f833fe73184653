"""`sickbay simulate`: a cluster of any size, faults by the seed, and what its agents tell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from sickbay.commands.output import complain, deliver, usage, write_json
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.demonstrating.simulate import Produced
    from simulator.scenario import Scenario

Format: TypeAlias = Literal["wire", "raw", "none", "log"]
MAX_SECONDS = 31 * 86_400


def simulate(
    *,
    accelerators: Annotated[int, Parameter(help="So many, eight a host.")] = 64,
    seconds: Annotated[int, Parameter(help="Length of the simulated night.")] = 600,
    seed: Annotated[int, Parameter(help="Draws names, noise, faults, places and times.")] = 0,
    scenario: Annotated[Path | None, Parameter(help="A scenario file: cluster, jobs and time line.")] = None,
    fault: Annotated[
        tuple[str, ...], Parameter(help="A fault of this class happens; may be repeated.", negative="")
    ] = (),
    faults: Annotated[
        int | None, Parameter(help="So many drawn faults besides (default: 3 where none is named).", show_default=False)
    ] = None,
    out: Annotated[Path | None, Parameter(help="The folder to write to; made if missing, else empty.")] = None,
    format_: Annotated[
        Format, Parameter(name="--format", help="wire: records; raw: an operator's files; log: appended; none.")
    ] = "wire",
    workers: Annotated[int, Parameter(help="Processes for wire and none (default: as many as pay, 2 at most).")] = 0,
    start: Annotated[str | None, Parameter(help="When the night begins, RFC 3339 (default: a fixed one).")] = None,
    config: ConfigFile = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Simulate a training cluster, second by second, faster than real time, and write what would be told of it.

    wire: frames and records as agents put them into the log, a file a topic and 512 hosts; raw: the folder that
    `sickbay diagnose` reads; log: appended to the log of the settings; none: all of the work, and nothing written.
    truth.json tells what happened. The same seed gives the same bytes. Exit status: 0 done; 2 bad usage; 130 stopped.
    """
    from sickbay.log import LogError

    if problem := _problem(seconds, seed, workers, out, format_, fault, faults, scenario):
        return usage("simulate", problem)
    try:
        made = _made(accelerators, seconds, seed, scenario, fault, faults, start)
        if out:
            out.mkdir(parents=True, exist_ok=True)
        produced = _produce(made, seconds, out, format_, workers, config)
    except (ValueError, KeyError, OSError) as error:
        if isinstance(error, LogError):
            raise
        return usage("simulate", str(error.args[0]) if isinstance(error, KeyError) else str(error))
    _say(made, produced, format_, json)
    return 0


def _problem(
    seconds: int, seed: int, workers: int, out: Path | None, format_: Format, fault: tuple[str, ...],
    faults: int | None, scenario: Path | None,
) -> str:  # fmt: skip
    """What is wrong with the arguments: known before the work, not after it."""
    if not 0 < seconds <= MAX_SECONDS:
        return f"--seconds must be 1 to {MAX_SECONDS}"
    if seed < 0 or not 0 <= workers <= 64 or (faults or 0) < 0:
        return "--seed, --workers and --faults must not be negative, and --workers at most 64"
    if scenario and (fault or faults):
        return "--scenario tells its own faults: leave --fault and --faults out"
    if format_ in ("wire", "raw") and out is None:
        return f"--format {format_} needs --out FOLDER"
    if out and out.exists() and (not out.is_dir() or any(out.iterdir())):
        return f"--out {out}: is not an empty folder"
    return ""


def _made(
    accelerators: int, seconds: int, seed: int, file: Path | None, fault: tuple[str, ...], faults: int | None,
    start: str | None,
) -> "Scenario":  # fmt: skip
    from sickbay.app.asking.declaring import moment
    from sickbay.app.demonstrating.simulated_night import drawn, from_file
    from sickbay.log import wall_ms
    from simulator.moments import START_MS

    start_ms = START_MS if start is None else moment(start, wall_ms())
    start_ms -= start_ms % 1000
    if file is not None:
        return from_file(file, seed, start_ms)
    return drawn(accelerators, seconds, seed, fault, faults, start_ms)


def _produce(
    made: "Scenario", seconds: int, out: Path | None, format_: Format, workers: int, config: Path | None
) -> "Produced":
    from sickbay.app.answering.progress import seconds_progress
    from sickbay.app.demonstrating import simulate as whole
    from sickbay.app.demonstrating.simulated_night import write_truth

    with seconds_progress(seconds, "simulating") as told:
        if format_ == "raw" and out:
            produced = whole.into_files(made, seconds, out, told)
        elif format_ == "log":
            from sickbay.log.opened import open_log

            log = open_log(settings_of(config).log)
            try:
                produced = whole.into_log(made, seconds, log, told)
            finally:
                log.close()
        else:
            wire = out if format_ == "wire" else None
            workers = workers or whole.paying(made)
            produced = whole.produce(made, seconds, wire, workers=workers, progress=told)
    if out:
        write_truth(made, out)
    return produced


def _say(made: "Scenario", produced: "Produced", format_: Format, json: bool) -> None:
    if json:
        import msgspec

        write_json(msgspec.json.encode(_summary(made, produced, format_)))
        return
    cards, counts = len(made.cluster.cards), produced.counts
    for what, settings in made.recipes:
        deliver(lambda what=what, settings=settings: print(f"{settings['at']:>6} s  {what}"))  # type: ignore[misc]
    size = f"{cards:,} accelerators, {produced.seconds:,} s: {counts['values']:,} values in {counts['bytes']:,} bytes"
    speed = f"{produced.realtime:.1f} times real time, {produced.cpu_s:.1f} s of processor, {produced.peak_mb:.0f} MB"
    deliver(lambda: print(f"{size}. {speed}."))
    complain(f"digest: {produced.digest}")


def _summary(made: "Scenario", produced: "Produced", format_: Format) -> dict[str, Any]:
    from sickbay.app.demonstrating.simulated_night import truth

    return {
        "format": format_,
        "seed": made.seed,
        "accelerators": len(made.cluster.cards),
        "hosts": len(made.cluster.hosts),
        "jobs": len(made.jobs),
        "seconds": produced.seconds,
        "counts": dict(sorted(produced.counts.items())),
        "realtime": round(produced.realtime, 3),
        "wall_s": round(produced.wall_s, 3),
        "setup_s": round(produced.setup_s, 3),
        "processor_s": round(produced.cpu_s, 3),
        "peak_mb": round(produced.peak_mb, 1),
        "workers": produced.workers,
        "digest": produced.digest,
        "effects": truth(made),
    }
