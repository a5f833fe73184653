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
