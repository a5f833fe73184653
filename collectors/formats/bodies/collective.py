"""Lines of the collective libraries that keep NCCL's text (RCCL, MCCL, forks), and device errors as ranks print them.

Shapes and completion codes: NCCL src/transport/net_ib, src/misc/ibvwrap.cc; rdma-core verbs.h. Hints that follow an
error are guesses of the library and never evidence.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from collectors.codes.collective import COMPLETIONS, LOCAL, MISUSES, Completion
from collectors.formats.collective_samples import SAMPLES
from collectors.formats.device_errors import DEVICE_WORDS, device_error
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name, path
from sickbay.messages import Blame, Event, Placement, RankPlace

_MAX_RANKS = 65_536  # places remembered until the end of the input
_MAX_TOLD = 4096  # failed transfers whose repetition in an exception is recognised

_HEAD = re.compile(
    r"(?<![\w.-])(?P<host>[\w.-]{1,253}):\d{1,10}:\d{1,10} \[(?P<device>-?\d{1,4})\] (?:\S{1,200} )?"
    r"(?P<library>[A-Z]{1,8}CCL) (?P<level>[A-Z]{4,6}) (?P<text>.*)"
)
_BKCL = re.compile(
    r"\[(?:\d\d:\d\d:\d\d\]\[(?P<host>[\w.-]{1,253})\]\[\d{1,10}\]\[)?(?P<level>ERR|WARN)\]\[BKCL\]"
    r"\[[^\]]{1,200}\] (?P<text>.+)"
)
_COMPLETION = re.compile(
    r"Got completion (?:from peer (?P<peer>[^\s<]{1,80})(?:<\d{1,6}>)? )?with "
    r"(?:status=|error )(?:[A-Z][A-Z_]{2,40}\((?P<named>\d{1,3})\)|(?P<bare>\d{1,3})(?!\d))(?P<tail>.*)"
)
_VENDOR = re.compile(r"vendor[_ ]err[= ](\d{1,6})\b")
_LOCAL = re.compile(r"localGids? ?([0-9A-Fa-f:.]{2,45})")
_REMOTE = re.compile(r"remoteGids? ?([0-9A-Fa-f:.]{2,45})")  # no blank after the word in current releases
_HCA = re.compile(r"\bhca ([\w.-]{1,64})")
_DIRECTION = re.compile(r"\((Send|Recv)\)")
_ASYNC = re.compile(
    r"NET/\w{1,12} ?: (?:(?P<device>[\w.-]{1,64}):(?P<port>\d{1,3}) )?Got (?:non-fatal )?async "
    r"(?P<fatal>fatal )?event ?(?:on [^:]{1,60})?: ?(?P<what>[A-Za-z' ]{3,60})"
)
_SPEED = re.compile(
    r"(?:(?P<device>[A-Za-z][\w.-]{0,63}):(?P<port>\d{1,3}):? )?(?:\w{1,20} ){0,3}speed change detected: "
    r"(?P<old>\d{1,9}) -> (?P<new>\d{1,9}) ?Mbps"
)
_CLOSED = re.compile(r"Connection closed by remote peer (?P<peer>[^\s<]{1,253})(?:<\d{1,6}>)?")
_SOCKET = re.compile(
    r"(?:[Cc]onnect to|[Cc]all to \w{2,12} from) (?P<peer>[^\s<]{1,253})<\d{1,6}> (?:failed|returned) ?:? ?"
    r"(?P<why>Connection reset by peer|Connection refused|Connection timed out|No route to host|Broken pipe)"
)
_MISMATCH = re.compile(
    r"(?P<what>Mismatched collective detected|collective mismatch error|Message truncated"
    r"|receiving \d{1,18} bytes instead of \d{1,18})"
)
_PEER = re.compile(r"\bpeer ([^\s<]{1,253})<\d{1,6}>")
_QUEUE_PAIR = re.compile(
    r"Call to ibv_modify_qp failed with (?:error )?(?:\d{1,4} )?(?P<why>[A-Za-z ]{3,60})"
    r"(?:, on dev (?P<device>[\w.-]{1,64}):\d{1,3})?"
)
_LOCAL_END = re.compile(r"local GID ([0-9A-Fa-f:.]{2,45})")
_REMOTE_END = re.compile(r"remote GID ([0-9A-Fa-f:.]{2,45})")
_GLOO = re.compile(r"\bpair\.cc:\d{1,5}\] (?P<why>Connection (?:closed|reset) by peer) \[(?P<peer>[^\]\s]{2,60})\]:\d")
_GLOO_ERROR = re.compile(
    r"\bpair\.cc:\d{1,5}\] (?:Read|Write|writev?) (?:error )?\[(?P<peer>[^\]\s]{2,60})\]:\d{1,6}: "
    r"(?P<why>Connection (?:closed|reset) by peer|Broken pipe)"
)
_OWN_RANK = re.compile(r"\[(?:PG ID \d{1,9} PG GUID \w{1,40}\(default_pg\) |PG 0 )?Rank (\d{1,7})\]")
_TEST = re.compile(r"(?P<host>[\w.-]{1,253}): Test \w?CCL failure \S{1,200}:\d{1,6} '(?P<what>[^'(/]{3,60})")
_RESULT = re.compile(
    r"\b(?:[a-z]ccl(?P<what>(?:Remote|System|Internal)Error|Unhandled\w{1,8}Error|InvalidUsage): [A-Z]"
    r"|Aborting communicator: 0x[0-9a-f]{1,16} due to async NCCL error: (?P<async>.{3,60}))"
)
_INIT = re.compile(
    r"comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) n[Rr]anks (?P<of>\d{1,7}) (?:cuda|hip|musa)Dev \d{1,4} "
    r"(?:nvmlDev \d{1,4} )?busId (?P<bus>[0-9a-f]{4,12})(?: commId (?P<id>0x[0-9a-f]{1,16}))?"
)


_ALONE = (MISUSES[0], MISUSES[-1])  # what exceptions repeat without the library's head
__all__ = ["GRAMMAR", "LITERALS", "SAMPLES", "Collective"]

LITERALS = (
    "Got completion",
    "async event",
    "async fatal event",
    "speed change detected",
    "Connection closed by remote peer",
    "CCL WARN",
    "pair.cc:",
    "CCL failure ",
    "NET/OFI ",
    "due to async ",
    "cclRemoteError: ",
    "cclSystemError: ",
    "cclInternalError: ",
    "cclUnhandled",
    "cclInvalidUsage: ",
    "nranks ",
    "nRanks ",
    "][BKCL][",
    "out of memory",
    "_ERROR_OUT_OF_MEMORY",
    *_ALONE,
    "RESOURCE_EXHAUSTED: Out of memory",
    "onnect to ",
    " failed : Connection ",
    " failed : Broken pipe",
    *DEVICE_WORDS,
)


class _Place(NamedTuple):
    host: str
    component: str
    line: Line


class Collective:
    """Body grammar of collective libraries. Keeps where the ranks of the widest communicator sit."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        self._of = 0
        self._doubtful = False
        self._told: set[tuple[str, str]] = set()

    def read(self, line: Line) -> Iterable[Record]:
        """Events of network paths, ports, NICs and devices that the line tells."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        start, head = origin(body), _HEAD.search(body) if "CCL " in body else None
        if head and "HINT" in head["text"]:
            return
        host, text = (head["host"], head["text"]) if head else (start.host, body)
        if "omm 0x" in text and (match := _INIT.search(text)):
            self._learn(match, host, start.rank, line)
            return
        facts = {"device": head["device"]} if head else {}
        own = _OWN_RANK.search(text) if start.rank < 0 else None
        rank = int(own[1]) if own else start.rank
        told = list(_events(text, host, rank, facts))
        if not told and ((head and head["level"] == "WARN") or any(words in text for words in _ALONE)):
            told = [_warning(text, host, rank, facts)]
        for found in told:
            if not self._repeated(found, own_line=head is not None):
                yield found

    def end(self) -> Iterable[tuple[Record, Line]]:
        """The places of the widest communicator's ranks, if nothing contradicts that it is the whole job."""
        if not self._places or self._doubtful or len(self._places) > self._of:
            return
        ranks = tuple(
            RankPlace(rank=rank, host=place.host, component=place.component)
            for rank, place in sorted(self._places.items())
        )
        yield Placement(job=UNKNOWN, ranks=ranks), next(iter(self._places.values())).line

    def _repeated(self, found: Event, own_line: bool) -> bool:
        """Whether an exception's text says again, without its ends, what the library's own line has told."""
        key = (found.attributes.get("peer_address", ""), found.attributes.get("status", ""))
        if own_line and key[1] and len(self._told) < _MAX_TOLD:
            self._told.add(key)
        return not own_line and key in self._told

    def _learn(self, match: re.Match[str], host: str, told: int, line: Line) -> None:
        """Ranks of a communicator are those of the job only in the communicator that spans it."""
        of, rank = int(match["of"]), int(match["rank"])
        if not host or of < self._of or rank >= of:
            return
        if of > self._of:
            self._of, self._places, self._doubtful = of, {}, False
        place = _Place(host, name(Kind.ACCELERATOR, host, _pci(match["bus"])), line)
        known = self._places.get(rank)
        self._doubtful |= (known is not None and known[:2] != place[:2]) or told not in (-1, rank)
        if len(self._places) < _MAX_RANKS:
            self._places.setdefault(rank, place)


def _pci(bus: str) -> str:
    """`1b000` is domain, bus, device, function in one hexadecimal number (NCCL's busIdToInt64)."""
    number = int(bus, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}"


def _events(text: str, host: str, rank: int, facts: dict[str, str]) -> Iterator[Event]:
    """The event that the text tells; at most one."""
    for word, reader in _READERS:
        if word in text and (found := reader(text, host, facts)):
            yield found
            return
    if found := device_error(text, host, rank, facts):
        yield found
    elif match := _TEST.search(text):
        what = match["what"].strip()
        yield event("rank.collective_error", rank_name(rank), facts, code=what, host=match["host"])
    elif match := _RESULT.search(text):
        yield event("rank.collective_error", rank_name(rank), facts, code=match["what"] or match["async"], host=host)
    elif match := _BKCL.search(text):
        kind = "rank.collective_error" if match["level"] == "ERR" else "rank.collective_notice"
        yield event(kind, rank_name(rank), facts, code=match["text"][:60], host=match["host"] or "")


def _completion(text: str, host: str, facts: dict[str, str]) -> Event | None:
    """A work request that failed. `opcode` and `len` of such a completion are garbage and are not read."""
    match = _COMPLETION.search(text)
    if not match:
        return None
    number, tail = int(match["named"] or match["bare"]), match["tail"]
    code = COMPLETIONS.get(number, Completion("?", LOCAL))
    local, remote, peer = _address(_LOCAL.search(tail)), _address(_REMOTE.search(tail)), _plain(match["peer"] or "")
    facts = facts | {
        "status": str(number),
        "local_address": local,
        "remote_address": remote,
        "peer_address": peer,
        "hca": _first(_HCA, tail),
        "vendor_error": _first(_VENDOR, tail),
        "direction": _first(_DIRECTION, tail).lower(),
    }
    ends = (local, remote) if local and remote else (host or local or UNKNOWN, remote or peer or UNKNOWN)
    where = rank_name(-1) if code.kind == LOCAL else path(*ends)
    return event(code.kind, where, facts, code=f"status {number} {code.name}", blame=code.blame, host=host)


def _async_event(text: str, host: str, facts: dict[str, str]) -> Event | None:
    match = _ASYNC.search(text)
    if not match:
        return None
    what, device = match["what"].strip(), match["device"] or UNKNOWN
    port = name(Kind.PORT, host or UNKNOWN, device, match["port"] or UNKNOWN)
    kinds = {"port error": "port.down", "port active": "port.up", "GID table change": "port.config_notice"}
    for words, kind in kinds.items():
        if what.startswith(words):
            return event(kind, port, facts, code=what, host=host)
    if "catastrophic" in what:
        return event("nic.health", name(Kind.NIC, host or UNKNOWN, device), facts, code=what, host=host)
    return None


def _speed(text: str, host: str, facts: dict[str, str]) -> Event | None:
    match = _SPEED.search(text)
    if not match or match["old"] == match["new"]:
        return None
    kind = "port.speed_reduced" if int(match["new"]) < int(match["old"]) else "port.config_notice"
    port = name(Kind.PORT, host or UNKNOWN, match["device"] or UNKNOWN, match["port"] or UNKNOWN)
    facts = facts | {"old_mbps": match["old"], "new_mbps": match["new"]}
    return event(kind, port, facts, code="speed change", host=host)


def _queue_pair(text: str, host: str, facts: dict[str, str]) -> Event | None:
    """A connection that was never made; the ends only where current releases print them."""
    match = _QUEUE_PAIR.search(text)
    if not match:
        return None
    local, remote = _address(_LOCAL_END.search(text)), _address(_REMOTE_END.search(text))
    facts = facts | {"local_address": local, "remote_address": remote, "hca": match["device"] or ""}
    ends = path(local or host or UNKNOWN, remote or UNKNOWN)
    return event("path.not_connected", ends, facts, code=match["why"].strip(), host=host)


def _socket(text: str, host: str, facts: dict[str, str]) -> Event | None:
    """A peer that closed is a symptom here: the cause is at the peer."""
    match = _CLOSED.search(text) or _SOCKET.search(text) or _GLOO.search(text) or _GLOO_ERROR.search(text)
    if not match:
        return None
    why = match.groupdict().get("why") or "closed by peer"
    kind = "path.peer_closed" if why.endswith(("by peer", "pipe")) else "path.not_connected"
    peer = _plain(match["peer"])
    return event(kind, path(host or UNKNOWN, peer), facts | {"peer_address": peer}, code=why, host=host)


def _fabric(text: str, host: str, facts: dict[str, str]) -> Event | None:
    """A libfabric plug-in's request whose far end did not answer; which address that was it does not print."""
    silent = re.search("Unresponsive (?:receiver|remote)|Unreachable remote|UNDELIVERABLE", text)
    code = silent[0].lower() if silent else ""
    return event("path.retry_exceeded", path(host or UNKNOWN), facts, code=code, host=host) if silent else None


def _mismatch(text: str, host: str, facts: dict[str, str]) -> Event | None:
    """Two ends that expect different operations or sizes: the program or its settings."""
    match = _MISMATCH.search(text)
    if not match:
        return None
    facts = facts | {"peer_address": _first(_PEER, text)}
    return event("rank.collective_mismatch", rank_name(-1), facts, code=match["what"][:40], host=host)


def _warning(text: str, host: str, rank: int, facts: dict[str, str]) -> Event:
    """Any other warning of the library: a known misuse is the program's, the rest is told and judged by nobody."""
    misuse = next((words for words in MISUSES if words in text), "")
    if misuse:
        told = {"code": misuse, "blame": Blame.APPLICATION, "host": host}
        return event("rank.collective_error", rank_name(rank), facts, **told)
    return event("rank.collective_notice", rank_name(rank), facts, host=host)


_READERS = (
    ("NET/OFI", _fabric),
    ("Got completion", _completion),
    ("async ", _async_event),
    ("speed change detected", _speed),
    ("ibv_modify_qp", _queue_pair),
    ("Connection", _socket),
    ("No route to host", _socket),
    ("Broken pipe", _socket),
    ("mismatch", _mismatch),
    ("Mismatched collective", _mismatch),
    ("Message truncated", _mismatch),
    ("bytes instead of", _mismatch),
)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _address(match: re.Match[str] | None) -> str:
    return _plain(match[1]) if match else ""


def _plain(text: str) -> str:
    """An IPv4-mapped address as IPv4; the unspecified address is none; anything else as the source spells it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return "" if address.is_unspecified else str(mapped or address)


GRAMMAR = Collective
