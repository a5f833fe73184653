"""Progress of long work: a bar on a terminal's standard error, nothing elsewhere."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Told = Callable[[str, int], None]


@contextlib.contextmanager
def reading_progress(paths: Sequence[Path]) -> Iterator[Told]:
    """Yields what to call with (path, size) for each chunk read. Sizes are after decompression, so no end is shown."""
    if not sys.stderr.isatty():
        yield lambda path, size: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"reading {len(paths)} paths", total=None)
        yield lambda path, size: bar.update(
            task, advance=size, description=path[-60:].encode(errors="replace").decode()
        )


@contextlib.contextmanager
def seconds_progress(total: int, doing: str = "replaying") -> Iterator[Callable[[int], None]]:
    """Yields what to call with the seconds of a range that are done, of `total`."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), TextColumn("{task.completed:.0f} of {task.total:.0f} s"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)
