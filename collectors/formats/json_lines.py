"""Log records written as one JSON object a line: journal export, container engines, log shippers."""

from typing import Any

import msgspec

from collectors.formats import stamps
from collectors.formats.reading import Line
from collectors.formats.text import MAX_LINE, clean_text
from sickbay.clock import NO_STAMP, Stamp

CONTROLLERS = frozenset({"slurmctld.service"})  # units that start no process of a person
LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_MESSAGES = ("MESSAGE", "log", "message", "msg")
_TIMES = ("time", "@timestamp", "timestamp", "ts", "eventTime")
_HOSTS = ("_HOSTNAME", "hostname", "host", "nodename", "node")
_PROGRAMS = ("SYSLOG_IDENTIFIER", "_COMM", "program", "programname", "appname", "app-name", "syslog-tag", "ident")
_LEVELS = ("PRIORITY", "level", "severity", "priority")


def json_record(text: str) -> Line | None:
    """The log line in a JSON object, None where it is not one that carries a message."""
    if not text.startswith("{"):
        return None
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = next((told for key in _MESSAGES if (told := _message(record.get(key))) is not None), None)
    if message is None:
        return None
    line = _line(record, message)
    is_log = line.stamp != NO_STAMP or line.boot_s is not None or "MESSAGE" in record or "stream" in record
    return line if is_log else None  # a message alone makes no log: errors and status documents have one too


def of_person(uid: int, unit: str = "") -> bool:
    """Whether a person's process wrote an entry of the journal: it can name itself as any daemon does.

    `unit`: the system's unit that it ran in, by the journal's own word. Persons have numbers from 1000 on; 60000 to
    65533 are those of packages and of systemd's own users. Sites give a scheduler's controller a person's number.
    """
    return uid >= 1000 and not 60_000 <= uid < 65_534 and unit not in CONTROLLERS


def _line(record: dict[str, Any], message: str) -> Line:
    boot_s = _number(record.get("_SOURCE_MONOTONIC_TIMESTAMP"))
    pod = record.get("kubernetes")
    pod = pod if isinstance(pod, dict) else {}
    owner = _first(pod, ("pod_name", "pod")) or _first(record, ("container_name", "CONTAINER_NAME"))
    return Line(
        body=message,
        stamp=_stamp(record),
        boot_s=None if boot_s is None else boot_s / 1e6,
        host=_first(pod, ("host",)) or _host(record),
        origin=_origin(record),
        pid=_first(record, ("_PID", "SYSLOG_PID", "pid")),
        level=_level(_first(record, _LEVELS)),
        stream="/".join(filter(None, (owner, _first(pod, ("container_name",)), _first(record, ("stream",))))),
        boot_id=_first(record, ("_BOOT_ID",)),
    )


def _message(value: object) -> str | None:
    if isinstance(value, str):
        return clean_text(value[:MAX_LINE])
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, int) and 0 <= item < 256 for item in value[:MAX_LINE]):  # not UTF-8, or colours in it
        return clean_text(bytes(value[:MAX_LINE]).decode("utf-8", "replace"))
    if all(isinstance(item, str) for item in value[:64]):  # the field was given more than once
        return clean_text("\n".join(value[:64])[:MAX_LINE])
    return None


def _origin(record: dict[str, Any]) -> str:
    program = _first(record, _PROGRAMS).rstrip(":").partition("[")[0]
    transport = _first(record, ("_TRANSPORT",))
    if transport == "kernel":  # set by the journal itself; a record without a name is the kernel's own
        return program or "kernel"
    if transport and program == "kernel":  # the name alone can be claimed by anyone
        return _first(record, ("_COMM",)) or "program"
    return program


def _stamp(record: dict[str, Any]) -> Stamp:
    for key in ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"):
        number = _number(record.get(key))
        if number is not None:
            return stamps.absolute(number / 1000)
    for key in _TIMES:
        value = record.get(key)
        if isinstance(value, str) and (told := stamps.iso(value)) != NO_STAMP:
            return told
        number = _number(value)
        if number is not None and (told := stamps.epoch(number)) != NO_STAMP:
            return told
    return NO_STAMP


def _host(record: dict[str, Any]) -> str:
    for key in _HOSTS:
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("name") or value.get("hostname")
        if isinstance(value, str) and value:
            return clean_text(value[:253])
    return ""


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return clean_text(str(value)[:253])
    return ""


def _level(text: str) -> str:
    return LEVELS[int(text)] if text in tuple("01234567") else text.lower()


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e20 else None
    if isinstance(value, str) and 0 < len(value) <= 20 and value.replace(".", "", 1).isdecimal():
        return float(value)
    return None
