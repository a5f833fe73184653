"""The envelopes of log lines, one pattern and one function each: what the layer tells and what is left.

Nothing is dated or attributed by guess: what an envelope does not tell stays empty.
"""

import re
from collections.abc import Callable

from collectors.formats import stamps
from collectors.formats.envelope_margins import RING_STAMP, behind_margin, foreign_date
from collectors.formats.envelope_speakers import (
    FACILITY,
    GRADE,
    HOST,
    NOT_HOSTS,
    SPEAKER,
    SPEAKERS,
    after_structured_data,
    speaker,
    spoken,
)
from collectors.formats.json_lines import LEVELS, json_record
from collectors.formats.reading import Line
from sickbay.clock import NO_STAMP, Clock

MAX_REPEATS = 1_000_000  # a larger count is not believed
USER = "user"  # a priority that says: some program, not the kernel
RING = "~kernel"  # a bare kernel stamp: the kernel's, unless somebody else is known to speak

_CALLER = r"(?:\[ {0,12}[TC]\d{1,9}\] ?)?"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SHORT = rf"{_MONTH} {{1,2}}(?P<day>\d{{1,2}}) "

_LONGEST_UPTIME_S = 1e9
_DMESG_HUMAN = re.compile(rf"^\[(?: {{1,12}}\+\d{{1,12}}\.\d{{3,9}}|{_SHORT}\d\d:\d\d)\] {_CALLER}")
_EXPORTED = re.compile(r"^ {0,8}MESSAGE=")  # journalctl -o export, -o verbose: the date is on another line
# The word behind it tells whose format it is, and so which of the numbers is the month.
_AMERICAN = re.compile(
    rf"^(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}) {stamps.CLOCK} - (?=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - )"
)
_NUMBERED = re.compile(r"^\[\d{1,9}\] (?=\[)")
_DECODED = re.compile(rf"^{FACILITY} {{0,6}}:{GRADE} {{0,6}}: ")
_TALOS = re.compile(rf"^(?:{HOST}: )?{FACILITY}: {{1,8}}{GRADE}: \[{stamps.ISO}\]: ")
_PRIORITY = re.compile(r"^<(?P<priority>\d{1,3})>(?!1 )")
_BOOT = re.compile(rf"^\[ {{0,12}}(?P<boot>\d{{1,12}}\.\d{{1,9}})\] ?{_CALLER}")
_CALLED = re.compile(r"^\[ {0,12}[TC]\d{1,9}\] ?")
_DMESG_T = re.compile(
    rf"^\[{_WEEKDAY} {_SHORT}(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d{{1,9}})? "
    rf"(?P<year>\d{{4}})\] ?{_CALLER}"
)
_KMSG = re.compile(r"^(?P<priority>\d{1,4}),\d{1,20},(?P<us>\d{1,18}),[^;,]{1,4}(?:,[^;]{0,200})?;")
# A separator behind the date: a table, not a log.
_ISO = re.compile(rf"^\[?{stamps.ISO}(?: UTC(?= ))?(?P<end>\]?)(?::(?= ))?(?![\w:,;|.])[ \t]?")
_JOURNAL_FULL = re.compile(rf"^{_WEEKDAY} {stamps.DATE} {stamps.CLOCK} (?P<zone_name>[A-Z]{{2,5}}|[+-]\d\d(?:\d\d)?) ")
_BSD = re.compile(
    rf"^\[?(?:{_WEEKDAY} )?(?:(?P<year_first>\d{{4}}) )?{_SHORT}(?:(?P<year>\d{{4}}) )?{stamps.CLOCK}"
    rf"(?: (?P<year_last>\d{{4}}))?(?P<end>\]?)(?![\w:]) ?"
)
# H3C Comware: milliseconds behind a colon, the year behind them.
_COMWARE = re.compile(
    rf"^%{_SHORT}(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?::(?P<fraction>\d{{1,3}}))? (?P<year>\d{{4}}) "
    r"(?P<host>[A-Za-z0-9][\w.-]{0,62}) (?=(?:%%\d\d)?[A-Z][A-Z0-9_]{1,30}/\d/)"
)
_UNIX = re.compile(r"^(?P<seconds>1\d{9}\.\d{3,9}) (?=\S+ \S+: )")
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
_STAMP_AHEAD = rf"(?={RING_STAMP}|\[?\d{{4}}-\d\d-\d\d[T ]\d\d:|\[?(?:[A-Z][a-z]{{2}} ){{1,2}} ?\d{{1,2}} \d\d:\d\d:)"
_FANNED_OUT = re.compile(rf"^{HOST}: {_STAMP_AHEAD}")  # pdsh, clush
_FOUND_IN = re.compile(rf"^[\w./@+-]{{1,200}}:(?:\d{{1,9}}:)?{_STAMP_AHEAD}")  # grep over several files


def _boot(match: re.Match[str], rest: str, _: Line) -> Line:
    seconds = float(match["boot"])
    if seconds >= _LONGEST_UPTIME_S:  # a program's seconds since 1970
        return Line(rest, stamp=stamps.epoch(seconds))
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin=RING)


def _ring(_: re.Match[str], rest: str, __: Line) -> Line:
    """dmesg --human: a step since the line before, or a time without seconds; neither dates the line."""
    return Line(rest, origin=RING)


def _dmesg_t(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stamp=stamps.of_match(match), origin=RING)


def _decoded(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, origin="kernel" if match["facility"] == "kern" else match["facility"], level=match["level"])


def _talos(match: re.Match[str], rest: str, _: Line) -> Line:
    """talosctl dmesg."""
    origin = "kernel" if match["facility"] == "kern" else match["facility"]
    return Line(rest, stamp=stamps.of_match(match), host=match["host"] or "", origin=origin, level=match["level"])


def _priority(match: re.Match[str], rest: str, _: Line) -> Line | None:
    value = int(match["priority"])
    if value > 191:
        return None
    return Line(rest, origin=RING if value < 8 else USER, level=LEVELS[value & 7])


def _kmsg(match: re.Match[str], rest: str, _: Line) -> Line:
    value, seconds = int(match["priority"]), min(int(match["us"]) / 1e6, _LONGEST_UPTIME_S)
    origin = "kernel" if value < 8 else USER
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin=origin, level=LEVELS[value & 7])


def _iso(match: re.Match[str], rest: str, _: Line) -> Line:
    layer = Line(rest, stamp=stamps.of_match(match))
    if rest.startswith(("stdout ", "stderr ")) and (cri := _CRI.match(rest)):
        return layer._replace(body=rest[cri.end() :], stream=cri["stream"])
    text = match[0]
    if text[10:11] == "T" and text[19:20] == "," and match["zone"]:
        return layer._replace(origin=RING)  # dmesg --time-format=iso: the only writer with a comma and a zone
    return layer if match["end"] else spoken(layer, strict=True)


def _dated(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stamp=stamps.of_match(match))


def _journal_full(match: re.Match[str], rest: str, _: Line) -> Line:
    stamp = stamps.of_match(match)
    if match["zone_name"] in ("UTC", "GMT") and stamp.clock is Clock.NO_ZONE:
        stamp = stamp._replace(clock=Clock.ABSOLUTE)
    return spoken(Line(rest, stamp=stamp), strict=False)


def _bsd(match: re.Match[str], rest: str, _: Line) -> Line:
    groups = match.groupdict()
    year = groups["year"] or groups["year_first"] or groups["year_last"] or ""
    stamp = stamps.of_match(match, year=year)
    layer = Line(rest, stamp=stamp)
    return layer if match["end"] else spoken(layer, strict=False)


def _named(match: re.Match[str], rest: str, _: Line) -> Line:
    return Line(rest, stamp=stamps.of_match(match), host=match["host"])


def _unix(match: re.Match[str], rest: str, _: Line) -> Line:
    return spoken(Line(rest, stamp=stamps.epoch(float(match["seconds"]))), strict=False)


def _kernel(match: re.Match[str], rest: str, _: Line) -> Line:
    if not match["boot"]:
        return Line(rest, origin="kernel")
    seconds = float(match["boot"])
    return Line(rest, stamp=stamps.since_boot(seconds), boot_s=seconds, origin="kernel")


def _rfc5424(match: re.Match[str], rest: str, _: Line) -> Line:
    host, app, pid = ("" if match[name] == "-" else match[name] for name in ("host", "app", "pid"))
    priority = int(match["priority"])
    return Line(
        body=after_structured_data(rest),
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
    return Line(rest, host=host) if not outer.host and host.lower() not in (*NOT_HOSTS, "kernel") else None


def _ring_host(match: re.Match[str], rest: str, outer: Line) -> Line | None:
    """journalctl -o short-monotonic: a host and a speaker behind the kernel's own stamp."""
    return None if outer.boot_s is None or outer.host or match["tag"] not in SPEAKERS else speaker(match, rest)


Layer = Callable[[re.Match[str], str, Line], Line | None]
_BY_FIRST: tuple[tuple[str, tuple[tuple[re.Pattern[str], Layer], ...]], ...] = (
    ("[", ((_BOOT, _boot), (_DMESG_T, _dmesg_t), (_DMESG_HUMAN, _ring), (_ISO, _iso), (_BSD, _bsd), (_CALLED, _called),
           (_POD, _stream), (_MPI, _stream), (_LOCAL_RANK, _stream), (_NUMBERED, _bare))),
    ("<", ((_RFC5424, _rfc5424), (_PRIORITY, _priority))),
    ("0123456789", ((_KMSG, _kmsg), (_ISO, _iso), (_AMERICAN, _dated), (_BSD, _bsd), (_UNIX, _unix), (_TASK, _task),
                    (_FANNED_OUT, _fanned_out))),
    ("%", ((_COMWARE, _named),)),
    (" ", ((_TASK, _task), (_INDENTED, _dated), (_EXPORTED, _bare))),
    ("M", ((_EXPORTED, _bare),)),
    ("km", ((_KERNEL, _kernel), (_DECODED, _decoded), (_REPEATED, _repeated))),
    ("uladsncf", ((_DECODED, _decoded),)),
    ("s", ((_SERVICE, _service),)),
    ("MTWFS", ((_JOURNAL_FULL, _journal_full), (_BSD, _bsd))),
    ("JFMASOND", ((_BSD, _bsd),)),
)  # fmt: skip
_GRAMMARS: dict[str, tuple[tuple[re.Pattern[str], Layer], ...]] = {}
for _firsts, _rows in _BY_FIRST:
    for _first in _firsts:
        _GRAMMARS[_first] = _GRAMMARS.get(_first, ()) + _rows
_ANYWHERE: tuple[tuple[re.Pattern[str], Layer], ...] = (
    (_FANNED_OUT, _fanned_out), (_FOUND_IN, _bare), (_TALOS, _talos),
)  # fmt: skip


def outermost(line: Line) -> Line | None:
    """The outermost layer of the line's body, its rest as `body`; None where the body begins with no envelope."""
    if layer := _known(line):
        return layer
    return _unknown_front(line) if line.origin in ("", RING, "kernel") and line.stamp == NO_STAMP else None


def _known(line: Line) -> Line | None:
    body = line.body
    if not body:
        return None
    if body[0] == "{":
        return json_record(body)
    if (match := SPEAKER.match(body)) and (layer := _ring_host(match, body[match.end() :], line)):
        return layer
    for pattern, grammar in _GRAMMARS.get(body[0], ()):
        if (match := pattern.match(body)) and (layer := grammar(match, body[match.end() :], line)):
            return layer
    if line.stamp == NO_STAMP and ":" in body[:220]:
        for pattern, grammar in _ANYWHERE:
            if (match := pattern.match(body)) and (layer := grammar(match, body[match.end() :], line)):
                return layer
    return None


def _unknown_front(line: Line) -> Line | None:
    """What an unknown tool, a paste or a date in another language stands in front of; nothing is dated by it."""
    if layer := behind_margin(line, _known):
        return layer
    rest = foreign_date(line.body)
    told = spoken(Line(rest), strict=True) if rest else None
    return told if told and told.origin else None
