"""The text around a log message: who said it where and when. One grammar an envelope, peeled until none is left.

`peel` is pure; `Envelopes` adds what needs memory: lines that a container runtime wrote in parts. Nothing is dated or
attributed by guess: what an envelope does not tell stays empty.
"""

import re
from collections.abc import Callable, Iterator

from collectors.formats import stamps
from collectors.formats.json_lines import LEVELS, json_record
from collectors.formats.reading import Line
from collectors.formats.text import MAX_LINE, segments
from sickbay.clock import NO_STAMP, Clock

MAX_LAYERS = 4
MAX_REPEATS = 1_000_000  # a larger count is not believed
MAX_PARTS = 200  # lines a partial line may wait for its end
RING = "~kernel"  # a bare kernel stamp: the kernel's, unless somebody else is known to speak

_HOST = r"(?P<host>[A-Za-z0-9](?:[\w.:-]{0,252}\w)?)"
_TAG = r"(?P<tag>[^\s:\[\]{}\"'=,]{1,64})(?:\[(?P<pid>\d{1,10})\])?:"
_LEVEL = r"(?:(?P<level>EMERG|ALERT|CRIT|ERR|ERROR|WARNING|NOTICE|INFO|DEBUG) )?"
_CALLER = r"(?:\[ {0,12}[TC]\d{1,9}\] ?)?"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SHORT = rf"{_MONTH} {{1,2}}(?P<day>\d{{1,2}}) "

_NUMBERED = re.compile(r"^\[\d{1,9}\] (?=\[)")
_DECODED = re.compile(
    r"^(?P<facility>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) {0,6}"
    r":(?P<level>emerg|alert|crit|err|warn|notice|info|debug) {0,6}: "
)
_PRIORITY = re.compile(r"^<(?P<priority>\d{1,3})>(?!1 )")
_BOOT = re.compile(rf"^\[ {{0,12}}(?P<boot>\d{{1,12}}\.\d{{3,9}})\] ?{_CALLER}")
_CALLED = re.compile(r"^\[ {0,12}[TC]\d{1,9}\] ?")
_DMESG_T = re.compile(
    rf"^\[{_WEEKDAY} {_SHORT}(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d{{1,9}})? (?P<year>\d{{4}})\] ?{_CALLER}"
)
_KMSG = re.compile(r"^(?P<priority>\d{1,4}),\d{1,20},(?P<us>\d{1,18}),[^;,]{1,4}(?:,[^;]{0,200})?;")
_ISO = re.compile(rf"^\[?{stamps.ISO}(?P<end>\]?)(?::(?= ))?(?![\w:,;|.])[ \t]?")  # a separator behind it: a table, not a log
_JOURNAL_FULL = re.compile(rf"^{_WEEKDAY} {stamps.DATE} {stamps.CLOCK} (?P<zone_name>[A-Z]{{2,5}}|[+-]\d\d(?:\d\d)?) ")
_BSD = re.compile(
    rf"^\[?(?:(?P<year_first>\d{{4}}) )?{_SHORT}(?:(?P<year>\d{{4}}) )?{stamps.CLOCK}(?: (?P<year_last>\d{{4}}))?(?P<end>\]?)(?![\w:]) ?"
)
_UNIX = re.compile(r"^(?P<seconds>1\d{9}\.\d{3,9}) (?=\S+ \S+: )")
_SPEAKER = re.compile(rf"^{_HOST} {_LEVEL}{_TAG} ?")
_MNEMONIC = re.compile(rf"^{_HOST} (?:: )?(?=%[A-Z][A-Z0-9_]{{1,40}}-)")  # a switch: what follows is its message, no program
_KERNEL = re.compile(rf"^kernel: ?(?:\[ {{0,12}}(?P<boot>\d{{1,12}}\.\d{{1,9}})\] ?{_CALLER})?")
_CRI = re.compile(r"^(?P<stream>stdout|stderr) [FP](?::\S{0,64})? ?")
_RFC5424 = re.compile(
    rf"^<(?P<priority>\d{{1,3}})>1 (?:-|{stamps.DATE}T{stamps.CLOCK}{stamps.ZONE}) "
    r"(?P<host>\S{1,255}) (?P<app>\S{1,48}) (?P<pid>\S{1,128}) \S{1,32} "
)
_SERVICE = re.compile(r"^(?P<tag>systemd(?:-[a-z]{2,20})?)\[(?P<pid>\d{1,10})\]: ")
_REPEATED = re.compile(r"^message repeated (?P<times>\d{1,7}) times: \[ ?(?P<rest>.*)$", re.DOTALL)
_MPI = re.compile(r"^\[(?P<stream>\d{1,6},\d{1,9})\]<std(?:out|err)>: ?")
_LOCAL_RANK = re.compile(r"^\[default(?P<stream>\d{1,6})\]:")
_POD = re.compile(r"^\[pod/(?P<stream>[^\s\]]{1,300})\] ")
_INDENTED = re.compile(rf"^ {{1,8}}\[{stamps.ISO}\](?![\w:]) ?")
_TASK = re.compile(r"^ {0,6}(?P<stream>\d{1,6}): (?=\S)")
_STAMP_AHEAD = (
    r"(?=\[ {0,12}\d{1,12}\.\d{6}\]|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[?(?:[A-Z][a-z]{2} ){1,2} ?\d{1,2} \d\d:\d\d:)"
)
_FANNED_OUT = re.compile(rf"^{_HOST}: {_STAMP_AHEAD}")  # pdsh, clush
_FOUND_IN = re.compile(rf"^[\w./@+-]{{1,200}}:(?:\d{{1,9}}:)?{_STAMP_AHEAD}")  # grep over several files

_RANK = re.compile(r"^\[?[Rr]ank ?(\d{1,6})\]")
_CRI_PART = re.compile(r"^(\d{4}-\d\d-\d\dT\S{8,30} (stdout|stderr) )([FP])(?::\S{0,64})? ?")
_KMSG_PROPERTY = re.compile(r"^ [A-Z][A-Z_]{1,30}=")
_ESCAPED_NEWLINES = re.compile(r"#012|\\x0a")
# Words that stand where a host would in lines of programs.
_NOT_HOSTS = frozenset(
    "trace debug info notice warn warning error err crit critical fatal alert emerg panic stdout stderr the".split()
)
# What rsyslog writes without a process id; any other program must show one before its neighbour is taken for a host.
_SPEAKERS = frozenset("kernel systemd rsyslogd syslogd slurmd slurmctld slurmstepd dockerd containerd kubelet nhc".split())


def peel(text: str, number: int = 0) -> Line:
    """The line in `text` without its envelopes, at most MAX_LAYERS of them.

    The outer host wins unless empty, and so does the better clock; a bare kernel stamp inside a program's line does
    not make it the kernel's.
    """
    line = Line(text, number)
    for _ in range(MAX_LAYERS):
        inner = _outermost(line)
        if inner is None:
            break
        line = _merged(line, inner)
    return _finished(line)


def known(text: str) -> bool:
    """Whether the text begins with an envelope."""
    return _outermost(Line(text)) is not None


class Envelopes:
    """Peels the lines of one input; joins lines that a container runtime cut into parts (bounded)."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, str]] = {}  # stream -> first line's number, text so far
        self._waited = 0

    @property
    def open(self) -> bool:
        """Whether a partial line waits for its end: the next line is needed whatever it holds."""
        return bool(self._parts)

    def lines(self, text: str, number: int) -> Iterator[Line]:
        """The lines of one physical line: several where it holds carriage returns or escaped line feeds."""
        for piece in segments(text):
            if whole := self._whole(piece, number):
                yield from _split(peel(whole[1], whole[0]))
        if self._parts:
            self._waited += 1
            if self._waited > MAX_PARTS:
                yield from self.end()

    def end(self) -> Iterator[Line]:
        """What is left of unfinished lines."""
        parts, self._parts, self._waited = self._parts, {}, 0
        for number, text in parts.values():
            yield from _split(peel(text, number))

    def _whole(self, text: str, number: int) -> tuple[int, str] | None:
        if text[0] == " ":
            return None if _KMSG_PROPERTY.match(text) else (number, text)
        match = _CRI_PART.match(text) if self._parts or (" P" in text[:64]) else None
        if match is None:
            return number, text
        head, stream, flag = match.groups()
        first, so_far = self._parts.pop(stream, (number, f"{head}F "))
        joined = (so_far + text[match.end() :])[:MAX_LINE]
        if flag == "F":
            return first, joined
        self._parts[stream] = (first, joined)
        self._waited = 0 if len(joined) < MAX_LINE else self._waited
        return None


def _split(line: Line) -> Iterator[Line]:
    body = _ESCAPED_NEWLINES.sub("\n", line.body) if "#012" in line.body or "\\x0a" in line.body else line.body
    if "\n" not in body and "\r" not in body:
        if body.strip():
            yield line._replace(body=body.rstrip())
        return
    for piece in re.split(r"[\r\n]", body, maxsplit=1000):
        if piece.strip():
            yield line._replace(body=piece.rstrip())


def _merged(outer: Line, inner: Line) -> Line:
    origin = inner.origin
    if origin == RING and outer.origin:
        origin = outer.origin
    if origin == "kernel" and not inner.host and outer.origin not in ("", RING, "kernel"):
        origin = outer.origin  # a program that says "kernel:" is still that program
    return Line(
        body=inner.body,
        number=outer.number,
        stamp=stamps.better(outer.stamp, inner.stamp) if inner.stamp != NO_STAMP else outer.stamp,
        boot_s=outer.boot_s if inner.boot_s is None else inner.boot_s,
        host=outer.host or inner.host,
        origin=origin or outer.origin,
        pid=inner.pid or outer.pid,
        level=outer.level or inner.level,
        repeats=min(MAX_REPEATS, outer.repeats * inner.repeats),
        stream=_joined(outer.stream, inner.stream),
        boot_id=outer.boot_id or inner.boot_id,
    )


def _joined(outer: str, inner: str) -> str:
    return f"{outer}/{inner}" if outer and inner else outer or inner


def _finished(line: Line) -> Line:
    origin, pid, body, stream = line.origin, line.pid, line.body, line.stream
    if origin == RING:
        origin = "kernel"
    stamp = line.stamp if line.stamp != NO_STAMP else stamps.in_text(body)
    if stamp.clock is Clock.NONE and line.boot_s is not None:
        stamp = stamps.since_boot(line.boot_s)
    if rank := _RANK.match(body):
        stream = _joined(stream, f"rank{rank[1]}")
    elif pid and origin != "kernel":
        stream = _joined(stream, f"{origin}[{pid}]")
    return line._replace(body=body.rstrip(), origin=origin, pid=pid, stamp=stamp, stream=stream)


# --- one function an envelope: the layer it takes off, or None ---


def _boot(match: re.Match[str], rest: str, _: Line) -> Line:
    seconds = float(match["boot"])
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin=RING)


def _dmesg_t(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stamp=stamps.of_match(match), origin=RING)


def _decoded(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, origin="kernel" if match["facility"] == "kern" else "", level=match["level"])


def _priority(match: re.Match[str], rest: str, _: Line) -> Line | None:
    value = int(match["priority"])
    if value > 191:
        return None
    return Line(rest, origin=RING if value < 8 else "", level=LEVELS[value & 7])


def _kmsg(match: re.Match[str], rest: str, _: Line) -> Line:
    value, seconds = int(match["priority"]), int(match["us"]) / 1e6
    origin = "kernel" if value < 8 else ""
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin=origin, level=LEVELS[value & 7])


def _iso(match: re.Match[str], rest: str, _: Line) -> Line:
    layer = Line(rest, stamp=stamps.of_match(match))
    if rest.startswith(("stdout ", "stderr ")) and (cri := _CRI.match(rest)):
        return layer._replace(body=rest[cri.end() :], stream=cri["stream"])
    text = match[0]
    if text[10:11] == "T" and text[19:20] == "," and match["zone"]:
        return layer._replace(origin=RING)  # dmesg --time-format=iso: the only writer with a comma and a zone
    return layer if match["end"] else _spoken(layer, strict=True)


def _indented(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stamp=stamps.of_match(match))


def _journal_full(match: re.Match[str], rest: str, _: Line) -> Line:
    stamp = stamps.of_match(match)
    if match["zone_name"] in ("UTC", "GMT") and stamp.clock is Clock.NO_ZONE:
        stamp = stamp._replace(clock=Clock.ABSOLUTE)
    return _spoken(Line(rest, stamp=stamp), strict=False)


def _bsd(match: re.Match[str], rest: str, _: Line) -> Line:
    groups = match.groupdict()
    year = groups["year"] or groups["year_first"] or groups["year_last"] or ""
    stamp = stamps.of_match(match, year=year)
    layer = Line(rest, stamp=stamp)
    return layer if match["end"] else _spoken(layer, strict=False)


def _unix(match: re.Match[str], rest: str, _: Line) -> Line:
    return _spoken(Line(rest, stamp=stamps.epoch(float(match["seconds"]))), strict=False)


def _kernel(match: re.Match[str], rest: str, _: Line) -> Line:
    if not match["boot"]:
        return Line(rest, origin="kernel")
    seconds = float(match["boot"])
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin="kernel")


def _rfc5424(match: re.Match[str], rest: str, _: Line) -> Line:
    host, app, pid = ("" if match[name] == "-" else match[name] for name in ("host", "app", "pid"))
    priority = int(match["priority"])
    return Line(
        body=_after_structured_data(rest),
        stamp=stamps.of_match(match) if match["year"] else NO_STAMP,
        host=host,
        origin=app or (RING if priority < 8 else ""),
        pid=pid if pid.isdecimal() else "",
        level=LEVELS[priority & 7],
    )


def _repeated(match: re.Match[str], _: str, __: Line) -> Line | None:
    times = int(match["times"])
    rest = match["rest"].removesuffix("]")
    return Line(rest, repeats=times) if 0 < times <= MAX_REPEATS else None


def _service(match: re.Match[str], rest: str, _: Line) -> Line:
    """The service manager writes to the kernel's ring too: it is taken for what it is."""
    return Line(rest, origin=match["tag"], pid=match["pid"])


def _stream(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stream=match["stream"])


def _task(match: re.Match[str], rest: str, _: Line) -> Line | None:
    return Line(rest, stream=match["stream"]) if not rest[0].isdigit() else None


def _bare(_: re.Match[str], rest: str, outer: Line) -> Line | None:
    return Line(rest)


def _called(_: re.Match[str], rest: str, outer: Line) -> Line | None:
    return Line(rest) if outer.origin in (RING, "kernel") else None


def _fanned_out(match: re.Match[str], rest: str, outer: Line) -> Line | None:
    host = match["host"]
    return Line(rest, host=host) if not outer.host and host.lower() not in (*_NOT_HOSTS, "kernel") else None


def _ring_host(match: re.Match[str], rest: str, outer: Line) -> Line | None:
    """journalctl -o short-monotonic: a host and a speaker behind the kernel's own stamp."""
    return None if outer.boot_s is None or outer.host or match["tag"] not in _SPEAKERS else _speaker(match, rest)


Layer = Callable[[re.Match[str], str, Line], Line | None]
_BY_FIRST: tuple[tuple[str, tuple[tuple[re.Pattern[str], Layer], ...]], ...] = (
    ("[", ((_BOOT, _boot), (_DMESG_T, _dmesg_t), (_ISO, _iso), (_BSD, _bsd), (_CALLED, _called), (_POD, _stream),
           (_MPI, _stream), (_LOCAL_RANK, _stream), (_NUMBERED, _bare))),
    ("<", ((_RFC5424, _rfc5424), (_PRIORITY, _priority))),
    ("0123456789", ((_KMSG, _kmsg), (_ISO, _iso), (_BSD, _bsd), (_UNIX, _unix), (_TASK, _task),
                    (_FANNED_OUT, _fanned_out))),
    (" ", ((_TASK, _task), (_INDENTED, _indented))),
    ("km", ((_KERNEL, _kernel), (_DECODED, _decoded), (_REPEATED, _repeated))),
    ("uladsncf", ((_DECODED, _decoded),)),
    ("s", ((_SERVICE, _service),)),
    ("MTWFS", ((_JOURNAL_FULL, _journal_full),)),
    ("JFMASOND", ((_BSD, _bsd),)),
)  # fmt: skip
_GRAMMARS: dict[str, tuple[tuple[re.Pattern[str], Layer], ...]] = {}
for _firsts, _rows in _BY_FIRST:
    for _first in _firsts:
        _GRAMMARS[_first] = _GRAMMARS.get(_first, ()) + _rows
_ANYWHERE: tuple[tuple[re.Pattern[str], Layer], ...] = ((_FANNED_OUT, _fanned_out), (_FOUND_IN, _bare))


def _outermost(line: Line) -> Line | None:
    body = line.body
    if not body:
        return None
    if body[0] == "{":
        return json_record(body)
    if line.boot_s is not None and not line.host and (match := _SPEAKER.match(body)):
        if layer := _ring_host(match, body[match.end() :], line):
            return layer
    for pattern, grammar in _GRAMMARS.get(body[0], ()):
        if (match := pattern.match(body)) and (layer := grammar(match, body[match.end() :], line)):
            return layer
    if line.stamp == NO_STAMP and ":" in body[:220]:
        for pattern, grammar in _ANYWHERE:
            if (match := pattern.match(body)) and (layer := grammar(match, body[match.end() :], line)):
                return layer
    return None


def _spoken(layer: Line, *, strict: bool) -> Line:
    """The layer with host and program taken off as well, where they stand behind its stamp."""
    if match := _MNEMONIC.match(layer.body):
        return layer._replace(body=layer.body[match.end() :], host=match["host"])
    match = _SPEAKER.match(layer.body)
    if match is None or match["host"].lower() in _NOT_HOSTS or match["tag"].lower() in _NOT_HOSTS:
        return layer
    if strict and not match["pid"] and match["tag"] not in _SPEAKERS:
        return layer
    told = _speaker(match, layer.body[match.end() :])
    return told._replace(stamp=layer.stamp)


def _speaker(match: re.Match[str], rest: str) -> Line:
    return Line(rest, host=match["host"], origin=match["tag"], pid=match["pid"] or "", level=(match["level"] or "").lower())


def _after_structured_data(text: str) -> str:
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
