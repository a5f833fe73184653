"""OTLP log records: their text through the grammars of logs, their time and host from the record and its resource.

Who writes a line decides what it may tell. What the system's own log said (the journal's fields, or a file of
/var/log) may speak of hardware; anything else, such as what a container prints, may speak of jobs and processes only:
whoever runs a job writes those lines.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from collectors.cluster.poll import Outgoing
from collectors.formats.json_lines import of_person
from collectors.formats.log import Following
from collectors.formats.reading import Reading, Tally
from collectors.host.job_log import OF_JOB
from collectors.identity import told_host
from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.memory import SeriesMemory
from collectors.listen.otlp import MAX_TEXT, answered, attributes, host_of, parsed, text_of, within
from sickbay.components import UNKNOWN, Kind
from sickbay.components import host_of as host_of_part
from sickbay.messages import Event, Progress, Step, replace
from sickbay.topics import EVENTS, STEPS

MAX_RECORDS = 20_000  # of one request
MAX_EVENTS = 2_000  # that one request may become: a storm tells no more in more
AHEAD_MS = 2_000
_SYSTEM_FILE = re.compile(r"/var/log/(?:kern\.log|syslog|messages|dmesg)(?:\.\d{1,3})?$")
_FILE_KEYS = ("log.file.path", "log.file.name")
_JOB_KEYS = ("slurm.job_id", "k8s.job.name", "job")


class _Line(NamedTuple):
    text: str
    at_ms: int


class _Stream(NamedTuple):
    """What speaks: a host, a file of it, and whether it is the system's own log."""

    host: str
    path: str
    system: bool
    job: str


def read(request: Request, memory: SeriesMemory, allowed: Allowed) -> Told:
    """What the records tell."""
    message, told = parsed(request, ExportLogsServiceRequest), Told()
    for stream, lines in _streams(message, request, told).items():
        if not stream.host:
            told.refuse("no_host", len(lines), "no host.name in the resource")
        elif not allowed(f"{Kind.HOST}:{stream.host}"):
            told.refuse("host", len(lines), f"{stream.host} is not a host that this token may tell of")
        else:
            _take(stream, lines, request, memory, allowed, told)
    answered(request, told, ExportLogsServiceResponse(), "rejected_log_records")
    return told


def _streams(message: Any, request: Request, told: Told) -> dict[_Stream, list[_Line]]:
    found: dict[_Stream, list[_Line]] = {}
    left = MAX_RECORDS
    for resource_logs in within(message.resource_logs, "scope_logs"):
        resource = attributes(resource_logs.resource.attributes)
        for scope in resource_logs.scope_logs:
            left -= len(scope.log_records)
            if left < 0:
                raise Unfit(f"more than {MAX_RECORDS} records: send less at once", 413, "too_large")
            for record in scope.log_records:
                stream, line = _line(record, resource, request.now_ms)
                if line.text:
                    found.setdefault(stream, []).append(line)
    return found


def _line(record: Any, resource: dict[str, str], now_ms: int) -> tuple[_Stream, _Line]:
    told = resource | attributes(record.attributes)
    journal = _journal(record.body)
    path = next((told[key] for key in _FILE_KEYS if told.get(key)), "journal" if journal else "")
    host = told_host(host_of(told) or journal.get("_HOSTNAME", ""))
    contained = any(key.startswith(("k8s.pod", "k8s.container", "container.")) for key in told)
    system = not contained and (_of_system(journal) if journal else bool(_SYSTEM_FILE.search(path)))
    job = next((told[key] for key in _JOB_KEYS if told.get(key)), UNKNOWN)
    at_ms = (record.time_unix_nano or record.observed_time_unix_nano) // 1_000_000 or now_ms
    return _Stream(host, path, system, job), _Line(_text(record.body, journal, host), min(at_ms, now_ms + AHEAD_MS))


def _journal(body: Any) -> dict[str, str]:
    """The fields of a journal entry, as the collector's journald receiver sends it; empty for another body."""
    if body.WhichOneof("value") != "kvlist_value":
        return {}
    told = attributes(body.kvlist_value.values)
    return told if "MESSAGE" in told and ("_TRANSPORT" in told or "SYSLOG_IDENTIFIER" in told) else {}


def _of_system(journal: dict[str, str]) -> bool:
    """Whether the kernel or a daemon wrote the entry: a person's process can name itself as it likes."""
    if journal.get("_TRANSPORT") == "kernel":
        return True
    uid, unit = journal.get("_UID", ""), journal.get("_SYSTEMD_UNIT", "")
    return "CONTAINER_ID" not in journal and uid.isdecimal() and len(uid) < 11 and not of_person(int(uid), unit)


def _text(body: Any, journal: dict[str, str], host: str) -> str:
    """One line: a journal entry in the envelope that its own short form has, so that its speaker is known."""
    if not journal:
        return " ".join(text_of(body).split("\n"))[:MAX_TEXT]
    speaker = re.sub(r"[^\w.@-]", "_", journal.get("SYSLOG_IDENTIFIER", "unknown"))[:60]
    if (journal.get("_TRANSPORT") == "kernel") != (speaker == "kernel"):  # the name alone can be claimed by anyone
        speaker = "program" if speaker == "kernel" else "kernel"
    return f"Jan  1 00:00:00 {host or 'host'} {speaker}: {' '.join(journal['MESSAGE'].split(chr(10)))}"[:MAX_TEXT]


def _may(event: Event, allowed: Allowed) -> bool:
    """A log of one host may name others: a scheduler's does."""
    return host_of_part(event.component) is None or allowed(event.component)


def _take(
    stream: _Stream, lines: list[_Line], request: Request, memory: SeriesMemory, allowed: Allowed, told: Told
) -> None:
    tally = Tally()
    for reading in _readings(lines, tally):
        at_ms = lines[min(max(reading.line, 1), len(lines)) - 1].at_ms
        record = reading.record
        if isinstance(record, Event):
            if not stream.system and record.component.partition(":")[0] not in OF_JOB:
                told.refuse("not_its_word")
            elif len(told.records) >= MAX_EVENTS:
                told.refuse("storm")
            elif not _may(made := _event(record, stream, at_ms, request, memory), allowed):
                told.refuse("host", 1, f"{made.component[:120]} is not a part that this token may tell of")
            else:
                told.records.append(Outgoing(EVENTS, stream.host, made))
        elif isinstance(record, Progress | Step) and len(told.records) < MAX_EVENTS:
            job = stream.job if record.job == UNKNOWN else record.job
            message = replace(record, job=job, at_ms=at_ms, path=_path(stream, request))
            told.records.append(Outgoing(STEPS, stream.host, message))
    told.written += len(lines)
    if tally.unparsed:
        told.refuse("unparsed", tally.unparsed)


def _readings(lines: list[_Line], tally: Tally) -> Iterator[Reading]:
    following = Following(tally)
    yield from following.take("".join(f"{line.text}\n" for line in lines).encode("utf-8", "replace"), 1)
    yield from following.end()


def _event(event: Event, stream: _Stream, at_ms: int, request: Request, memory: SeriesMemory) -> Event:
    return replace(  # type: ignore[no-any-return]
        event,
        component=memory.canonical(event.component, stream.host) if stream.system else event.component,
        peer=memory.canonical(event.peer, stream.host) if event.peer and stream.system else event.peer,
        host=stream.host,
        at_ms=at_ms,
        seen_ms=request.now_ms,
        path=_path(stream, request),
        job=event.job or ("" if stream.job == UNKNOWN else stream.job),
    )


def _path(stream: _Stream, request: Request) -> str:
    return f"{request.sender} {stream.path}".strip()[:240]
