"""`sickbay dashboards`: the Grafana boards, built and checked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import UNDELIVERED, complain, deliver, usage, write_json

if TYPE_CHECKING:
    from dashboards.grafana.ask import Checked

NEEDS = "needs grafana_foundation_sdk: pip install 'sickbay[board]'"
FOLDER = Path("deploy/grafana")


def dashboards(
    do: Annotated[Literal["build", "check"], Parameter(help="build: write JSON for Grafana; check: look for faults.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The folder to write to, for build.")] = FOLDER,
    prometheus: Annotated[str | None, Parameter(help="Ask every query of this Prometheus, for check.")] = None,
    json: Annotated[bool, Parameter(help="JSON on standard output, for check.", negative="")] = False,
) -> int:
    """Build the Grafana boards, or check them.

    Exit status: 0 all is well (queries without data are listed), 1 a board or a query is wrong or nothing has data,
    2 bad usage or no answer.
    """
    from importlib.util import find_spec

    if find_spec("grafana_foundation_sdk") is None:
        return usage("dashboards", NEEDS)
    return _build(out) if do == "build" else _check(prometheus, json)


def _build(out: Path) -> int:
    from sickbay.app.asking.boards import write

    try:
        paths = write(out)
    except OSError as error:
        complain(f"sickbay dashboards: --out {out}: {error.strerror or error}")
        return UNDELIVERED
    deliver(lambda: print(*paths, sep="\n"))
    return 0


def _check(prometheus: str | None, json: bool) -> int:
    from sickbay.app.asking.boards import asked, linted

    faults = linted()
    try:
        answers = asked(prometheus) if prometheus else {}
    except (OSError, ValueError) as error:
        return usage("dashboards", f"--prometheus: {error}")
    if json:
        import msgspec

        write_json(msgspec.json.encode({"schema": "sickbay.dashboards/1", "faults": faults, "queries": answers}))
    else:
        deliver(lambda: print("\n".join(_lines(faults, answers))))
    queries = [query for board in answers.values() for query in board]
    wrong = any(faults.values()) or any(query.error for query in queries)
    return int(wrong or bool(queries and not any(query.series for query in queries)))


def _lines(faults: dict[str, list[str]], answers: "dict[str, list[Checked]]") -> list[str]:
    from sickbay.plain import plain

    lines = [f"{name}: {line}" for name, board in faults.items() for line in board]
    for name, board in answers.items():
        wrong = [query for query in board if query.error]
        empty = [query for query in board if not query.error and not query.series]
        lines += [f"{name}: {plain(query.panel)}: {plain(query.error)}: {plain(query.expr)}" for query in wrong]
        lines += [f"{name}: {plain(query.panel)}: no data: {plain(query.expr)}" for query in empty]
        lines.append(f"{name}: {len(board)} queries, {len(wrong)} wrong, {len(empty)} without data")
    return lines or [f"{name}: nothing wrong" for name in faults]
