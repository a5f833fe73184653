"""`sickbay topology`: tells the log what hangs on what, and shows what it knows of that."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.output import complain, deliver, usage, write_json
from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.asking.topology_import import Known, Plan
    from sickbay.settings import Config

SHOWN = 20  # changes of each kind that people read


def topology(
    do: Annotated[
        Literal["import", "show"],
        Parameter(help="import FILE…: tell the log what files say; show [COMPONENT]: what the log knows."),
    ],
    told: Annotated[
        list[str] | None, Parameter(help="Files or folders; for show one part, such as host:n1 or switch:leaf-2.")
    ] = None,
    /,
    *,
    config: ConfigFile = None,
    dry_run: Annotated[bool, Parameter(help="Only say what would change.", negative="")] = False,
    replace: Annotated[
        list[str] | None,
        Parameter(
            help="For import: end what this source told and the files do not; without a file all that it told.",
            negative="",
        ),
    ] = None,
    at: Annotated[str, Parameter(help="For show: as it was then: RFC 3339, now, or so long from now.")] = "",
    conflicts: Annotated[bool, Parameter(help="For show: what sources contradict each other in.", negative="")] = False,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Import an inventory, topology.conf, ibnetdiscover output or JSON of edges; show parents, children and versions.

    Exit status: 0; 2 no such file, part or time, or files that tell no topology.
    """
    parts = told or []
    if do == "import" and not parts and not replace:
        return usage("topology import", "which files? such as hosts.csv, topology.conf or the output of ibnetdiscover")
    if do == "import" and (at or conflicts):
        return usage("topology import", "--at and --conflicts are for show")
    if do == "show" and (len(parts) > 1 or dry_run or replace):
        return usage("topology show", "one part at most, and neither --dry-run nor --replace")
    settings = settings_of(config)
    if do == "import":
        return _import(settings, [Path(part) for part in parts], tuple(replace or ()), dry_run, json)
    return _show(settings, parts[0] if parts else "", at, conflicts, json)


def _import(settings: "Config", paths: list[Path], replaced: tuple[str, ...], dry_run: bool, json: bool) -> int:
    from sickbay.admission import secret
    from sickbay.app.asking.topology_import import of_files, of_log, plan, sources_of, tell
    from sickbay.commands.people import shared_log
    from sickbay.log import wall_ms

    files = of_files(paths)
    complain(*(f"sickbay topology import: {text}" for text in (*files.problems, *files.notes)[:SHOWN]))
    if paths and not files.known.edges:
        return usage("topology import", "nothing in these files tells what hangs on what")
    if replaced and (files.unparsed or files.problems):
        return usage(
            "topology import", "--replace: not all of the files was understood; nothing is ended on half a word"
        )
    now_ms, log = wall_ms(), shared_log(settings.log)
    try:
        known = of_log(log)
        if unknown := [
            one for one in replaced if not any(one in (own, own.partition(":")[0]) for own in sources_of(known))
        ]:
            have = ", ".join(sources_of(known)) or "none"
            return usage("topology import", f"--replace: no source {unknown[0][:80]!r}; there are {have[:500]}")
        changes = plan(known, files.known, now_ms, replaced)
        if not dry_run:
            tell(log, changes, now_ms, secret(settings.security.key_file) if settings.security.key_file else None)
    finally:
        log.close()
    _told(changes, files.unparsed, dry_run, json)
    return 0


def _told(changes: "Plan", unparsed: int, dry_run: bool, json: bool) -> None:
    import msgspec

    from collectors.cluster.disagreements import said
    from sickbay.plain import plain

    if json:
        found = {
            "schema": "sickbay.topology-import/1", "dry_run": dry_run, "new": changes.new, "ended": changes.ended,
            "same": changes.same, "refused": changes.refused, "unparsed": unparsed,
            "conflicts": [said(one) for one in changes.conflicts],
        }  # fmt: skip
        write_json(msgspec.json.encode(found))
        return
    verb = "would tell" if dry_run else "told"
    lines = [f"{verb}: {len(changes.new)} new, {len(changes.ended)} ended, {changes.same} as before"]
    for mark, edges in (("+", changes.new), ("-", changes.ended), ("refused", changes.refused)):
        lines += [f"  {mark} {one.child} {one.relation} {one.parent} ({one.source})" for one in edges[:SHOWN]]
        lines += [f"  {mark} and {len(edges) - SHOWN} more"] if len(edges) > SHOWN else []
    lines += [f"  contradiction: {said(one)}" for one in changes.conflicts[:SHOWN]]
    lines += [f"  {unparsed} rows were not understood"] if unparsed else []
    text = "\n".join(map(plain, lines))
    deliver(lambda: print(text))


def _show(settings: "Config", part: str, at: str, conflicts: bool, json: bool) -> int:
    from sickbay.app.asking.declaring import Unfit, moment, parts
    from sickbay.app.asking.topology_import import of_log
    from sickbay.commands.people import shared_log, zone_of
    from sickbay.log import wall_ms

    try:
        at_ms = moment(at, wall_ms(), zone_of(settings.cluster)) if at else None
        components = parts([part]) if part else []
    except Unfit as error:
        return usage("topology show", str(error))
    if len(components) > 1:
        return usage("topology show", "one part at a time")
    log = shared_log(settings.log)
    try:
        known = of_log(log)
    finally:
        log.close()
    if components:
        return _part(known, components[0], at_ms, json)
    return _whole(known, at_ms, conflicts, json)


def _part(known: "Known", component: str, at_ms: int | None, json: bool) -> int:
    import msgspec

    from sickbay.app.asking.topology_shown import lines_of, shown
    from sickbay.topology import Topology

    told = known.named
    found = shown(Topology(told), told, known.names.canonical(component), at_ms)
    if found is None:
        return usage("topology show", f"nothing names {component[:80]}: sickbay topology show counts what there is")
    if json:
        write_json(msgspec.json.encode({"schema": "sickbay.topology/1", "shown": found}))
    else:
        text = "\n".join(lines_of(found))
        deliver(lambda: print(text))
    return 0


def _whole(known: "Known", at_ms: int | None, conflicts: bool, json: bool) -> int:
    import msgspec

    from sickbay.app.asking.topology_shown import summary, summary_lines
    from sickbay.plain import plain
    from sickbay.topology import Topology

    told = known.named
    found = summary(Topology(told), told, at_ms)
    if json:
        write_json(msgspec.json.encode({"schema": "sickbay.topology/1", "summary": found}))
    else:
        lines = [plain(one) for one in found.conflicts] or ["no conflicts"]
        text = "\n".join(lines if conflicts else summary_lines(found))
        deliver(lambda: print(text))
    return 0
