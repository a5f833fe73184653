"""Checks of this installation: what works, what is missing, and what to do about it. The command runs them."""

import importlib.util
import sqlite3
import sys
from collections.abc import Callable
from typing import NamedTuple

from sickbay import __version__


class Check(NamedTuple):
    """One finding: `ok` None: no fault, but worth knowing, such as what is optional and absent."""

    name: str
    ok: bool | None
    says: str
    do: str = ""


def version() -> Check:
    """The interpreter is one that Sickbay runs on."""
    found = ".".join(map(str, sys.version_info[:3]))
    return Check(
        "python", sys.version_info >= (3, 11), f"Python {found}, sickbay {__version__}", "use Python 3.11 or newer"
    )


def needed() -> Check:
    """Every package that the commands need can be found."""
    names = ("crc32c", "cyclopts", "msgspec", "numpy", "polars", "prometheus_client", "rich", "yaml", "zstandard")
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    says = f"missing: {', '.join(absent)}" if absent else f"{len(names)} packages found"
    return Check("packages", not absent, says, "run: make setup, or: pip install sickbay")


def reports() -> Check:
    """The packages of HTML reports are there."""
    absent = [name for name in ("altair", "jinja2", "vl_convert") if importlib.util.find_spec(name) is None]
    says = f"missing: {', '.join(absent)}" if absent else "HTML reports with pictures"
    return Check("reports", None if absent else True, says, "run: pip install 'sickbay[report]'")


def vocabulary() -> Check:
    """The data of this installation loads and agrees with itself."""
    from sickbay.vocabulary import event_kinds, faults

    strays = sorted({kind.fault for kind in event_kinds().values() if kind.fault} - set(faults()))
    says = f"{len(faults())} fault classes, {len(event_kinds())} event kinds"
    return Check("vocabulary", not strays, f"{says}, unknown: {strays}" if strays else says, "reinstall sickbay")


def formats() -> Check:
    """Every input format of the catalogue loads."""
    from importlib import import_module

    from collectors.formats.bodies import CATALOGUE
    from collectors.inputs.sniff import formats as documents

    broken = []
    for name, where in {**documents(), **CATALOGUE}.items():
        try:
            import_module(where)
        except Exception as error:  # whatever an import can raise is what this check is for
            broken.append(f"{name} ({type(error).__name__})")
    says = f"{len(documents())} document formats, {len(CATALOGUE)} line grammars"
    return Check("formats", not broken, f"{says}; broken: {', '.join(broken)}" if broken else says, "reinstall sickbay")


def embedded_log() -> Check:
    """The SQLite library can carry the embedded log."""
    with_wal = sqlite3.sqlite_version_info >= (3, 35)
    return Check("embedded log", with_wal, f"SQLite {sqlite3.sqlite_version}", "SQLite 3.35 or newer is needed")


CHECKS: tuple[Callable[[], Check], ...] = (version, needed, reports, vocabulary, formats, embedded_log)


def examine() -> list[Check]:
    """All checks; one that fails in an unexpected way is a finding too."""
    found = []
    for check in CHECKS:
        try:
            found.append(check())
        except Exception as error:  # the doctor must not die of the patient's illness
            found.append(Check(check.__name__, False, f"{type(error).__name__}: {error}", "reinstall sickbay"))
    return found
