"""Transports under the collectives (UCX, libfabric's EFA provider, UCCL): transfers that failed, ports that changed.

What one end prints cannot tell which end failed. The far end is known only where the line prints it.
"""

import re
from collections.abc import Iterable

from collectors.codes.collective import COMPLETIONS, LOCAL, Completion
from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name, path

_WRITER = re.compile(r"\[?(?P<host>[A-Za-z0-9][\w.-]{0,252}):\d{1,10} ?:(?:\d{1,10}:\d{1,10}|async|\d{1,10})\]")
_SYNDROME = re.compile(r"\((?:synd|syndrom) (0x[0-9a-f]{1,8}) vend (0x[0-9a-f]{1,8})")
_DEVICE = re.compile(r"\bon (?P<device>[A-Za-z][\w.-]{0,63}):(?P<port>\d{1,3})\b")
_WHAT = (  # UCX's words (src/uct/ib/mlx5/ib_mlx5_log.c) -> the completion code of the verbs interface
    ("Transport retry count exceeded", 12),
    ("Receive-no-ready retry count exceeded", 13),
    ("WR flushed because QP in error state", 5),
    ("Remote access", 10),
    ("Remote operation", 11),
    ("Invalid request", 9),
    ("Remote side aborted", 11),
    ("Local protection", 4),
    ("Local QP operation", 2),
    ("Local length", 1),
)
_ASYNC = re.compile(
    r"IB Async event on (?P<device>[A-Za-z][\w.-]{0,63}): (?P<what>[A-Za-z ]{3,60}?)(?: on port (?P<port>\d{1,3}))?$"
)
_ASYNC_KINDS = (("port error", "port.down"), ("port active", "port.up"), ("", "port.config_notice"))
_ENTRY = re.compile(r"CQE ERROR wr_id=\d{1,20} status=(\d{1,3})\(")
_FABRIC = re.compile(
    r"(?P<what>Unresponsive receiver|Unresponsive remote|Unreachable remote)"
    r"(?:.{0,400}?My EFA addr: \S{0,40}?\[(?P<here>[0-9a-f:]{2,45})\])?"
    r"(?:.{0,200}?Peer EFA addr: \S{0,40}?\[(?P<there>[0-9a-f:]{2,45})\])?"
)

LITERALS = ("(synd 0x", "IB Async event on ", "CQE ERROR wr_id=", "My EFA addr: ")


class Transport:
    """Body grammar of transports. Keeps nothing between lines."""

    def read(self, line: Line) -> Iterable[Record]:
        """Events of paths and ports, at most one a line."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        writer = _WRITER.search(body)
        host = writer["host"] if writer else origin(body).host
        if "(synd 0x" in body:
            return _failed(body, host)
        if "IB Async event on " in body:
            return _changed(body, host)
        if entry := _ENTRY.search(body):
            return [_transfer(int(entry[1]), host, UNKNOWN, {})]
        return _unreachable(body, host)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def _failed(body: str, host: str) -> list[Record]:
    status = next((status for words, status in _WHAT if words in body), 0)
    syndrome, device = _SYNDROME.search(body), _DEVICE.search(body)
    if not status or not syndrome:
        return []
    facts = {"vendor_error": syndrome[2], "hca": f"{device['device']}:{device['port']}" if device else ""}
    return [_transfer(status, host, UNKNOWN, facts)]


def _transfer(status: int, here: str, there: str, facts: dict[str, str]) -> Record:
    code = COMPLETIONS.get(status, Completion("?", LOCAL))
    where = rank_name(-1) if code.kind == LOCAL else path(here or UNKNOWN, there)
    told = {"code": f"status {status} {code.name}", "blame": code.blame}
    return event(code.kind, where, facts | {"status": str(status)}, **told)


def _changed(body: str, host: str) -> list[Record]:
    match = _ASYNC.search(body)
    if not match:
        return []
    kind = next(kind for words, kind in _ASYNC_KINDS if match["what"].startswith(words))
    port = name(Kind.PORT, host or UNKNOWN, match["device"], match["port"] or UNKNOWN)
    return [event(kind, port, code=match["what"].strip())]


def _unreachable(body: str, host: str) -> list[Record]:
    match = _FABRIC.search(body)
    if not match:
        return []
    ends = path(match["here"] or host or UNKNOWN, match["there"] or UNKNOWN)
    facts = {"local_address": match["here"] or "", "remote_address": match["there"] or ""}
    return [event("path.retry_exceeded", ends, facts, code=match["what"].lower())]


GRAMMAR = Transport

SAMPLES = (
    Sample(
        "[gx-r07-n02:27251:0:27251] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_4:1/IB (synd 0x15 vend "
        "0x81 hw_synd 0/0)",
        (
            {
                "type": "event",
                "component": "path:gx-r07-n02~?",
                "kind": "path.retry_exceeded",
                "code": "status 12 RETRY_EXC_ERR",
                "attributes": {"vendor_error": "0x81", "hca": "mlx5_4:1", "status": "12"},
            },
        ),
    ),
    Sample(
        "[gx-r07-n02:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: Remote operation "
        "(synd 0x14 vend 0x89) opcode SEND",
        ({"type": "event", "component": "path:gx-r07-n02~?", "kind": "path.remote_error"},),
    ),
    Sample(
        "[1754000000.823013] [gx-r07-n02:6471 :async]       ib_device.c:475  UCX  WARN  IB Async event on mlx5_0: GID "
        "table change on port 1",
        ({"type": "event", "component": "port:gx-r07-n02/mlx5_0/1", "kind": "port.config_notice", "severity": "info"},),
    ),
    Sample(
        "[1754000000.823013] [gx-r07-n02:6471 :async]       ib_device.c:475  UCX  ERROR IB Async event on mlx5_0: port "
        "error on port 1",
        ({"type": "event", "component": "port:gx-r07-n02/mlx5_0/1", "kind": "port.down"},),
    ),
    Sample(
        "CQE ERROR wr_id=17 status=12(transport retry counter exceeded) opcode=1 byte_len=0 vendor_err=0xa "
        "qp_num=0x2c11",
        ({"type": "event", "component": "path:?~?", "kind": "path.retry_exceeded"},),
    ),
    Sample(
        "libfabric:51877:1754000000::efa:cq:efa_rdm_txe_handle_error():730<warn> err: 103, message: Unresponsive "
        "receiver (reachable by EFA device but handshake failed) My EFA addr: fi_addr_efa://[fe80::4c:1]:0:1838 My "
        "host id: i-0aa1 Peer EFA addr: fi_addr_efa://[fe80::4c:9]:1:2044 Peer host id: N/A (4169)",
        (
            {
                "type": "event",
                "component": "path:fe80::4c:1~fe80::4c:9",
                "kind": "path.retry_exceeded",
                "code": "unresponsive receiver",
            },
        ),
    ),
)
