"""Who speaks behind a line's date: host, program, process id, and the words that stand where a host would."""

import re

from collectors.formats.reading import Line

HOST = r"(?P<host>[A-Za-z0-9](?:[\w.:-]{0,252}\w)?)"
_TAG = r"(?P<tag>[^\s:\[\]{}\"'=,]{1,64})(?:\[(?P<pid>\d{1,10})\])?:"
_LEVEL = r"(?:(?P<level>EMERG|ALERT|CRIT|ERR|ERROR|WARNING|NOTICE|INFO|DEBUG) )?"
FACILITY = r"(?P<facility>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
GRADE = r"(?P<level>emerg|alert|crit|err|warn|warning|notice|info|debug)"
_GRADED = re.compile(rf"^{FACILITY}\.{GRADE} (?=\S+: )")  # busybox: kern.err kernel: ...
_UNNAMED = re.compile(r"^(?: |[^\s:]{1,80} )(?=kernel: )")  # the host was blotted out
SPEAKER = re.compile(rf"^{HOST} {_LEVEL}{_TAG} ?")
# A switch: what follows is its message, no program.
_MNEMONIC = re.compile(rf"^{HOST} (?:: )?(?=%[A-Z][A-Z0-9_]{{1,40}}-)")
# Words that stand where a host would in lines of programs.
NOT_HOSTS = frozenset(
    (
        "trace", "debug", "info", "notice", "warn", "warning", "error", "err", "crit", "critical", "fatal", "alert",
        "emerg", "panic", "stdout", "stderr", "the",
    )
)  # fmt: skip
# What rsyslog writes without a process id; any other program must show one before its neighbour is taken for a host.
SPEAKERS = frozenset(
    (
        "kernel", "systemd", "rsyslogd", "syslogd", "slurmd", "slurmctld", "slurmstepd", "dockerd", "containerd",
        "kubelet", "nhc",
    )
)  # fmt: skip


def spoken(layer: Line, *, strict: bool) -> Line:
    """The layer with host and program taken off as well, where they stand behind its stamp."""
    if match := _GRADED.match(layer.body):
        return layer._replace(body=layer.body[match.end() :], level=match["level"])
    if match := _MNEMONIC.match(layer.body):
        return layer._replace(body=layer.body[match.end() :], host=match["host"])
    if (match := _UNNAMED.match(layer.body)) and not SPEAKER.match(layer.body):
        return layer._replace(body=layer.body[match.end() :])
    match = SPEAKER.match(layer.body)
    if match is None or match["host"].lower() in NOT_HOSTS or match["tag"].lower() in NOT_HOSTS:
        return layer
    if strict and not match["pid"] and match["tag"] not in SPEAKERS:
        return layer
    told = speaker(match, layer.body[match.end() :])
    return told._replace(stamp=layer.stamp)


def speaker(match: re.Match[str], rest: str) -> Line:
    """The line of a match of SPEAKER, `rest` its body."""
    return Line(
        rest, host=match["host"], origin=match["tag"], pid=match["pid"] or "", level=(match["level"] or "").lower()
    )


def after_structured_data(text: str) -> str:
    """The message of an RFC 5424 record: one pass over its bracketed elements."""
    if not text.startswith("["):
        return text.removeprefix("-").removeprefix(" ")
    at, quoted = 0, False
    while at < len(text):
        character = text[at]
        if quoted and character == "\\":
            at += 1
        elif character == '"':
            quoted = not quoted
        elif character == "]" and not quoted and text[at + 1 : at + 2] != "[":
            return text[at + 1 :].removeprefix(" ")
        at += 1
    return text
