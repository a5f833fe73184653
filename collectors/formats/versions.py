"""What a host runs: versions by name, what changed between two looks, and the packages that a system has installed.

What a file does not tell any more is not gone: a driver that is being loaded has no version for a while. A package that
the system's own list leaves out is gone. Source of the lists: dpkg-query(1), deb-control(5).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import msgspec

from sickbay.components import Kind, name
from sickbay.messages import Change

MOST_VERSIONS = 2000
MOST_TEXT = 200
PACKAGE = "package "
_FIELD = re.compile(r"(Package|Status|Version): (.{1,400})$")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9+._-]{0,100}$")


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where versions stand: the fields of versions.toml."""

    modules: tuple[str, ...]
    packages: tuple[str, ...]
    files: dict[str, str]
    devices: dict[str, str]


@cache
def where() -> Where:
    """Where versions stand."""
    text = resources.files("collectors.codes").joinpath("versions.toml").read_bytes()
    return msgspec.toml.decode(text, type=Where)


class Known(msgspec.Struct, frozen=True):
    """What is remembered from look to look and from run to run."""

    boot: str = ""
    versions: dict[str, str] = {}


def remembered(place: bytes | None) -> Known:
    """What an earlier run left, nothing where it left none."""
    try:
        return msgspec.json.decode(place or b"", type=Known)
    except msgspec.MsgspecError:
        return Known()


def version(text: str) -> str:
    """A version as its file's first line tells it: a `NAME=` or quotes around it left out."""
    line = text.split("\n", 1)[0].strip()[:MOST_TEXT]
    return "".join(mark for mark in line if mark.isprintable()).removeprefix("PRETTY_NAME=").strip('"')


def merged(before: Mapping[str, str], told: Mapping[str, str], packages: Mapping[str, str] | None) -> dict[str, str]:
    """What is known after a look; `packages` None: the list was not read."""
    kept = {what: text for what, text in before.items() if packages is None or not what.startswith(PACKAGE)}
    after = kept | {what: text for what, text in told.items() if text} | dict(packages or {})
    return dict(sorted(after.items())[:MOST_VERSIONS])


def changes(before: Known, after: Known, host: str, at_ms: int, boot_ms: int | None) -> Iterator[Change]:
    """What changed: nothing where nothing was known. What came with a boot is dated by it."""
    booted = bool(before.boot and after.boot and before.boot != after.boot)
    when = boot_ms if booted and boot_ms is not None else at_ms
    target = name(Kind.HOST, host)
    if booted:
        yield Change(target=target, what="boot", at_ms=when, old=before.boot, new=after.boot)
    if not before.versions:
        return
    for what in sorted(before.versions.keys() | after.versions.keys()):
        old, new = before.versions.get(what, ""), after.versions.get(what, "")
        if old != new and (old or what.startswith(PACKAGE)):  # what is told for the first time was there before
            yield Change(target=target, what=what, at_ms=when, old=old, new=new)


def installed(rows: Iterable[str], wanted: tuple[str, ...]) -> dict[str, str]:
    """Packages of the status file of dpkg that are installed and wanted."""
    found: dict[str, str] = {}
    entry: dict[str, str] = {}
    for row in (*rows, ""):
        if match := _FIELD.match(row):
            entry[match[1]] = match[2].strip()
        elif not row.strip():
            package, status = entry.get("Package", ""), entry.get("Status", "")
            if package.startswith(wanted) and _NAME.match(package) and status.endswith(" installed"):
                found[PACKAGE + package] = entry.get("Version", "")[:MOST_TEXT]
            entry = {}
    return found


def listed(rows: Iterable[str], wanted: tuple[str, ...]) -> dict[str, str]:
    """Packages of a list with a name and a version a line that are wanted; of two versions of one, both."""
    found: dict[str, list[str]] = {}
    for row in rows:
        package, _, version = row.strip().partition(" ")
        if version and package.startswith(wanted) and _NAME.match(package):
            found.setdefault(PACKAGE + package, []).append(version[:80])
    return {package: ", ".join(sorted(some))[:MOST_TEXT] for package, some in found.items()}
