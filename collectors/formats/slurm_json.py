"""`squeue --json`, `sacct --json`, `sinfo --json`, `scontrol show … --json`: one object with jobs or nodes in it.

The spelling of numbers and states changed between versions: a number may be `{"set", "infinite", "number"}`, a state
a string or a list, an exit code a number or an object.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from collectors.formats import hostlist, stamps
from collectors.formats.reading import Reading, Tally
from collectors.formats.slurm_records import Job, Node, is_job_id, job_readings, job_state, node_readings, node_states
from collectors.formats.text import clean_text
from sickbay.clock import NO_STAMP, Stamp

MAX_DOCUMENT = 128 << 20  # bytes: `squeue --json` of 20,000 jobs takes about 80 MB [estimate: 4 kB a job]
_LISTS = re.compile(r'"(?:jobs|nodes|sinfo)"\s{0,20}:\s{0,20}\[')
_OWN = re.compile(
    r'"(?:job_state|restart_cnt|failed_node|het|het_job_id|slurm|slurmctld_version|slurmd_start_time|slurmd_version)"'
)


def confidence(text: str) -> float:
    """High for an object with a list of jobs or nodes in Slurm's own words."""
    return 0.9 if _LISTS.search(text) and _OWN.search(text) else 0.0


def read(chunks: Iterable[bytes], tally: Tally) -> Iterator[Reading]:
    """The same readings as those of the tables."""
    loaded = _load(chunks, tally)
    if loaded is None:
        return
    for job in _rows(loaded.jobs, tally):
        yield from _job(job, tally)
    for node in _rows([*loaded.nodes, *loaded.sinfo], tally):
        yield from _node(node, tally)


class _Document(msgspec.Struct):
    """The lists in the object; rows stay bytes until their turn."""

    jobs: list[msgspec.Raw] = []
    nodes: list[msgspec.Raw] = []
    sinfo: list[msgspec.Raw] = []


def _load(chunks: Iterable[bytes], tally: Tally) -> _Document | None:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > MAX_DOCUMENT:
            tally.unparsed += 1
            tally.note(f"JSON of more than {MAX_DOCUMENT >> 20} MiB: refused")
            return None
    try:
        return msgspec.json.decode(held.removeprefix(b"\xef\xbb\xbf"), type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        tally.unparsed += 1
        tally.note(f"no list of jobs or nodes in JSON: {error}")
        return None


def _rows(rows: list[msgspec.Raw], tally: Tally) -> Iterator[dict[str, Any]]:
    for raw in rows:
        try:
            row = msgspec.json.decode(bytes(raw).decode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield row
        else:
            tally.unparsed += 1


def _job(row: dict[str, Any], tally: Tally) -> Iterator[Reading]:
    states = _words(row.get("job_state")) or _words(_inner(row.get("state"), "current")) or _words(row.get("state"))
    state = next((known for word in states if (known := job_state(word))), "")
    job_id = str(_number(row.get("job_id")) or "")
    if not is_job_id(job_id) or not state:
        tally.unparsed += 1
        return
    times = row.get("time")
    failed = _text(row.get("failed_node"))
    job = Job(
        id=job_id,
        state=state,
        attempt=min(_number(row.get("restart_cnt")) or 0, 999_999),
        exit=_exit(row.get("exit_code")),
        nodes=_text(row.get("nodes")),
        failed_node=failed,
        start=_stamp(row.get("start_time") or _inner(times, "start")),
        end=_stamp(row.get("end_time") or _inner(times, "end")),
        name=_text(row.get("name")),
        user=_text(row.get("user_name") or row.get("user")),
        text=f"job_id={job_id} state={'+'.join(states)} nodes={_text(row.get('nodes'))} failed_node={failed}",
    )
    yield from job_readings(job, tally)


def _node(row: dict[str, Any], tally: Tally) -> Iterator[Reading]:
    """A node of `scontrol`, or a row of `sinfo`, which speaks of several."""
    told = row.get("reason")
    states = _words(row.get("state")) or _words(_inner(row.get("node"), "state"))
    known = node_states("+".join(states))
    nodes = _inner(row.get("nodes"), "nodes")
    hosts = [_text(host) for host in nodes] if isinstance(nodes, list) else [_text(row.get("name"))]
    if not known or not any(hosts):
        tally.unparsed += 1
        return
    reason = _text(told if isinstance(told, str) else _inner(told, "description"))
    user = _text(row.get("reason_set_by_user") or _inner(told, "user"))
    at = _stamp(row.get("reason_changed_at") or _inner(told, "time"))
    for host in hostlist.names(",".join(filter(None, hosts)), tally):
        text = f"name={host} state={'+'.join(states)} reason={reason}"
        yield from node_readings(Node(host, known, reason, user, at, text))


def _inner(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _words(value: object) -> list[str]:
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [_text(word)[:40] for word in words[:16] if isinstance(word, str)]


def _text(value: object) -> str:
    return clean_text(value[: 1 << 20]).strip() if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    if isinstance(value, dict):
        return None if value.get("set") is False or value.get("infinite") is True else _number(value.get("number"))
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 13:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else None


def _exit(value: object) -> str:
    signal = _inner(value, "signal")
    code = _number(_inner(value, "return_code"))
    number = _number(_inner(signal, "id")) if isinstance(signal, dict) else None
    if number is None:
        number = _number(_inner(signal, "signal_id"))
    if code is None and number is None:
        return ""
    return f"{code or 0}:{number or 0}"


def _stamp(value: object) -> Stamp:
    number = _number(value)
    return stamps.epoch(number) if number else NO_STAMP
