"""HCCL: connection tables, time-outs and completion errors of Ascend's collective library (plog lines and EI codes).

Both ends of a pair print it with the roles swapped: that is one event. Time-outs differ by version and site and are
never assumed.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event, rank_name
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name, path
from sickbay.messages import Blame, Progress, Severity

_MAX_PATHS = 4096  # pairs whose second side is recognised

_END = re.compile(r"^\s*([0-9A-Fa-f:.]{2,45}|\[[0-9A-Fa-f:.]{2,45}\])\s?\((\d{1,7})\)\s*$")
_IP = r"\[?([0-9A-Fa-f:.]{2,45})"
_CREATE_LINK = re.compile(rf"localIpAddr\[{_IP}(?:/\d{{1,4}})?\].{{0,200}}?remoteIpAddr\[{_IP}(?:/\d{{1,4}})?\]")
_COMPLETION = re.compile(r"cqe err(?:or)? status\[(\d{1,3})\](.{0,800})")
_LOCAL_IP = re.compile(rf"(?:localIP:?\[|localInfo\{{.{{0,200}}?deviceIp\[){_IP}\]")
_REMOTE_IP = re.compile(rf"(?:remoteIP:?\[|remoteIP\{{.{{0,200}}?deviceIp\[|\bip:\[){_IP}\]")
_LOCATION = re.compile(
    r"Location\[IP/ID\]:\[(?P<ip>[0-9A-Fa-f:.]{2,45})/(?P<id>\d{1,4})\].{0,60}?(?:ExceptionType:\[)?"
    r"(?P<what>Heartbeat Lost|Stuck|Error Cqe|Cqe Err|Link Down)",
    re.IGNORECASE,
)
_LOST = re.compile(r"serverId\[([^\]]{1,64})\], deviceId\[(\d{1,4})\], (Heartbeat Lost) Occurred")
_PEER = re.compile(r"(?:Waiting peer rank: ?|remote rank ?:? ?)\[?(\d{1,10})(?!\d)")
_OWN = re.compile(r"\b(?:rankId|localUserrank|local_?rank)[:\[ ]{1,3}(\d{1,7})\b", re.IGNORECASE)
_TAG = re.compile(r"tag\[(?:Hcom)?([A-Za-z]{3,40})[_\]]")
_GROUP = re.compile(r"group:? ?\[([^\],]{1,120})[\],]")
_TASK = re.compile(r"taskType\[(Notify Wait|Memcpy|Reduce Inline)\]")
_CODE = re.compile(r"\b(EI\d{4})\b")
_SOCKET_WAIT = re.compile(r"wait socket establish timeout, role\[\d\] rank\[(\d{1,7})\] timeout\[(\d{1,6}) ?s?\]")
_LISTEN = re.compile(rf"listen on ip\[{_IP}\] and (?:specific )?port\[(\d{{1,5}})\] fail")
_TORCH = re.compile(r"\bERR0([0-2])(\d{3})\b")  # 00 the framework, 01 its operators, 02 the distributed layer
_SDMA = re.compile(r"ProcessStarsSdmaErrorInfo.{0,200}?cqeStatus=(0x[28])\b")
_NO_RANK = 4_294_967_295  # printed where the waiting rank waits for its own stream

_SIGNATURES = (  # text -> kind, code, blame; the reading of the vendor's fault-diagnosis guides
    ("ra hdc message process failed ret(-67)", "port.error", "port down before the task", Blame.HARDWARE),
    ("get qp status timeout", "path.not_connected", "queue pair set-up timed out", Blame.EITHER),
    ("get socket timeout", "rank.collective_error", "EI0006 link set-up timed out", Blame.EITHER),
    ("connected p2p timeout", "rank.collective_error", "EI9999 peer access timed out", Blame.HARDWARE),
    ("Device lost heartbeart", "rank.device_error", "device lost heartbeat", Blame.HARDWARE),
    ("Device lost heartbeat", "rank.device_error", "device lost heartbeat", Blame.HARDWARE),
    ("UCE ERROR", "rank.device_error", "memory error", Blame.HARDWARE),
    ("hbm multi bit ecc", "rank.device_error", "memory error", Blame.HARDWARE),
    ("vector core execution is abnormal", "rank.device_error", "vector core exception", Blame.APPLICATION),
    ("aicore execution is abnormal", "rank.device_error", "AI core exception", Blame.APPLICATION),
    ("HCCL function error", "rank.collective_error", "collective function failed", Blame.EITHER),
    ("FORCE STOP", "rank.collective_aborted", "stopped by the watchdog", Blame.EITHER),
)
_CODES = {  # EI codes whose text names neither ends nor a task
    "EI0003": ("rank.collective_error", Blame.APPLICATION),
    "EI0004": ("rank.collective_error", Blame.APPLICATION),
    "EI0006": ("rank.collective_error", Blame.EITHER),
    "EI9999": ("rank.collective_error", Blame.EITHER),
}

LITERALS = (
    "no connect",
    "time out",
    "timeout |",
    "remoteIpAddr[",
    "cqe err",
    "Location[IP/ID]",
    "Heartbeat Lost Occurred",
    "taskType[",
    "EI0",
    "EI9999",
    "wait socket establish timeout",
    "listen on ip[",
    "ERR00",
    "ERR01",
    "ERR02",
    "ProcessStarsSdmaErrorInfo",
    *(text for text, _, _, _ in _SIGNATURES),
)


class AscendCollective:
    """Body grammar of HCCL. Keeps the pairs of addresses already told, so that the other side adds nothing."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def read(self, line: Line) -> Iterable[Record]:
        """Events of paths, ranks and ports; `Progress` for a rank that waited for a peer's signal."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        rank = origin(body).rank
        for reader in (_table, _create_link, _completion):
            if (found := reader(body)) is not None:
                yield from self._once(*found)
                return
        yield from _located(body) or _task(body, rank) or _signature(body, rank)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()

    def _once(self, component: str, kind: str, code: str, facts: dict[str, str]) -> Iterator[Record]:
        if (component, code) in self._told:
            return
        if len(self._told) < _MAX_PATHS and UNKNOWN not in component:
            self._told.add((component, code))
        yield event(kind, component, facts, code=code)


_Found = tuple[str, str, str, dict[str, str]]


def _table(body: str) -> _Found | None:
    """A row of LINK_ERROR_INFO: two cells `address(rank)`, then, ports or not, role and status."""
    cells = body.split("|")[:12]
    ends = [match for cell in cells if (match := _END.match(cell))]
    words = [cell.strip() for cell in cells]
    role = next((at for at, word in enumerate(words) if word in ("server", "client")), 0)
    if len(ends) != 2 or not role or role + 1 >= len(words):
        return None
    status = " ".join(words[role + 1].split()).lower()
    if status not in ("no connect", "time out", "timeout"):
        return None
    there, here = ends
    facts = {"rank": here[2], "peer_rank": there[2], "role": words[role], "address": here[1], "peer_address": there[1]}
    return path(there[1].strip("[]"), here[1].strip("[]")), "path.not_connected", f"link {status}", facts


def _create_link(body: str) -> _Found | None:
    match = _CREATE_LINK.search(body)
    if not match or match[1] == match[2]:  # one server: the pair is two devices, no network path
        return None
    return path(match[1], match[2]), "path.not_connected", "link set-up failed", {"tag": _first(_TAG, body)}


def _completion(body: str) -> _Found | None:
    match = _COMPLETION.search(body)
    if not match:
        return None
    number = int(match[1])
    local, remote = _first(_LOCAL_IP, match[2]), _first(_REMOTE_IP, match[2])
    kinds = {5: "path.flushed", 12: "path.retry_exceeded", 13: "path.receiver_not_ready"}
    facts = {"status": str(number), "local_address": local, "remote_address": remote}
    ends = path(local or remote or UNKNOWN, remote if local and remote else UNKNOWN)
    return ends, kinds.get(number, "path.remote_error"), f"status {number}", facts


def _located(body: str) -> list[Record]:
    """The cluster heartbeat names a server and a device that went silent or stuck: a suspect, seen by another."""
    if match := _LOCATION.search(body):
        facts = {"server": match["ip"], "device": match["id"], "exception": match["what"].lower()}
    elif match := _LOST.search(body):
        facts = {"server": match[1], "device": match[2], "exception": match[3].lower()}
    else:
        return []
    return [event("rank.collective_error", rank_name(-1), facts, code=f"heartbeat: {facts['exception']}")]


def _task(body: str, told: int) -> list[Record]:
    """A task that failed: one that waited for a peer's signal is a victim, a copy that failed is a device error."""
    match = _TASK.search(body)
    if not match and "EI0002" not in body:
        return []
    own = _first(_OWN, body)
    rank = told if told >= 0 or not own else int(own)
    if match and match[1] != "Notify Wait":
        return [event("rank.device_error", rank_name(rank), code=f"task {match[1]} failed", blame=Blame.HARDWARE)]
    peer, op, group = _first(_PEER, body), _first(_TAG, body), _first(_GROUP, body)
    facts = {"op": op, "group": group, "peer_rank": peer if int(peer or _NO_RANK) < _NO_RANK else ""}
    timeout = event("rank.collective_timeout", rank_name(rank), facts, code=f"notify wait {op}".rstrip())
    return [Progress(rank=rank, group=group, op=op, state="waiting"), timeout]


def _signature(body: str, told: int) -> list[Record]:
    own = _first(_OWN, body)
    rank = told if told >= 0 or not own else int(own)
    if match := _SOCKET_WAIT.search(body):
        facts = {"timeout_s": match[2]}
        return [event("rank.collective_error", rank_name(int(match[1])), facts, code="EI0006 link set-up timed out")]
    if match := _LISTEN.search(body):
        ends, code = {"address": match[1], "port": match[2]}, "EI0019 port in use"
        return [event("rank.collective_error", rank_name(rank), ends, code=code, blame=Blame.APPLICATION)]
    if match := _SDMA.search(body):
        code = f"copy engine status {match[1]}"
        return [event("rank.device_error", rank_name(rank), code=code, blame=Blame.HARDWARE, severity=Severity.ERROR)]
    for text, kind, code, blame in _SIGNATURES:
        at = body.find(text)
        if at > 0 and body[at - 1].isalnum():  # "ALLREDUCE ERROR" is no UCE
            continue
        if at >= 0:
            return [event(kind, _where(kind, rank), code=code, blame=blame)]
    if (match := _CODE.search(body)) and match[1] in _CODES:
        kind, blame = _CODES[match[1]]
        return [event(kind, rank_name(rank), code=match[1], blame=blame)]
    if match := _TORCH.search(body):
        return [event("rank.collective_error", rank_name(rank), code=f"ERR0{match[1]}{match[2]}")]
    return []


def _where(kind: str, rank: int) -> str:
    if kind.startswith("port."):
        return name(Kind.PORT, UNKNOWN, UNKNOWN)
    return path(UNKNOWN) if kind.startswith("path.") else rank_name(rank)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


GRAMMAR = AscendCollective

_HEAD = "[ERROR] HCCL(7720,python):2025-05-14-09:10:11.120.300 "

SAMPLES = (
    Sample(
        f"{_HEAD}[comm_base.cc:967][811]   _________________________LINK_ERROR_INFO___________________________\n"
        f"{_HEAD}[comm_base.cc:969][811]   |  dest_ip(rank_id)  |  src_ip(rank_id)   |   Role   |   Status   |\n"
        f"{_HEAD}[comm_base.cc:1018][811]   |  192.0.2.31(4)   |   192.0.2.45(9)   |  server  | no connect |\n"
        "[ERROR] HCCL(6611,python):2025-05-14-09:10:11.476.916 [comm_base.cc:1018][715]   |  192.0.2.45(9)   |   "
        "192.0.2.31(4)   |  client  | no connect |",
        (
            {
                "type": "event",
                "component": "path:192.0.2.31~192.0.2.45",
                "kind": "path.not_connected",
                "severity": "error",
                "code": "link no connect",
            },
        ),
    ),
    Sample(
        f"{_HEAD}[hccl_socket.cc:100] [811][HcclSocket][Listen] socket type[1], listen on ip[192.0.2.31] and specific "
        "port[16666] fail. Please check the port status and whether the port is been using by other process.",
        ({"type": "event", "kind": "rank.collective_error", "blame": "application", "code": "EI0019 port in use"},),
    ),
    Sample(
        f"{_HEAD}[hccl_socket_manager.cc:778] [811][Wait][LinkEstablish]wait socket establish timeout, role[1] "
        "rank[12] timeout[120]",
        ({"type": "event", "component": "rank:?/12", "kind": "rank.collective_error"},),
    ),
    Sample(
        f"{_HEAD}[hccl_socket_manager.cc:583] [187] | 192.0.2.31(0) | 16666 | 192.0.2.45(1) | 3234403008 | client | "
        "time out | DISABLE | LinkInfo",
        ({"type": "event", "component": "path:192.0.2.31~192.0.2.45", "code": "link time out"},),
    ),
    Sample(
        f"{_HEAD}[heartbeat.cc:1229] [2066][TaskExecStage][HeartbeatAbnormal][ROCE CQE ERROR]cqe error status[12], "
        "time:[2025-05-14 09:10:10.776654],localInfo{server[198.51.100.1],deviceId[3],deviceIp[192.0.2.31]}, "
        "remoteIP{server[198.51.100.2],deviceId[5],deviceIp[192.0.2.45]}",
        ({"type": "event", "component": "path:192.0.2.31~192.0.2.45", "kind": "path.retry_exceeded"},),
    ),
    Sample(
        f"{_HEAD}[heartbeat.cc:1102] [2066][Heartbeat]cqe error status[12], time:[2025-05-14 09:10:10.776654],"
        "localIP[192.0.2.31], remoteIP:[192.0.2.45]",
        ({"type": "event", "component": "path:192.0.2.31~192.0.2.45", "kind": "path.retry_exceeded"},),
    ),
    Sample(
        f"{_HEAD}[task_exception_handler.cc:452][811][TaskExceptionHandler][Callback]Task run failed, base "
        "information is streamID:[3], taskID[62], taskType[Notify Wait], tag[AllReduce_192.0.2.9%eth0_60000], "
        "AlgType(level 0-1-2):[null-null-ring].",
        (
            {"type": "progress", "rank": -1, "op": "AllReduce", "state": "waiting", "timeout_ms": None},
            {"type": "event", "component": "rank:?/?", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "[rank6]: EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not "
        "received the Notify record from remote rank [11].base information: [streamID:[14], taskID[4], taskType[Notify "
        "Wait], tag[HcomAllReduce_66294_0].] task information: [notify id:[0x1], stage:[ffffffff], remote rank:[11].",
        (
            {"type": "progress", "rank": 6, "op": "AllReduce", "state": "waiting"},
            {"type": "event", "component": "rank:?/6", "kind": "rank.collective_timeout"},
        ),
    ),
    Sample(
        "        serverId[192.0.2.77], deviceId[4], Heartbeat Lost Occurred, Possible Reason: 1. Process has exited, "
        "2. Network Disconnected",
        ({"type": "event", "kind": "rank.collective_error", "code": "heartbeat: heartbeat lost"},),
    ),
    Sample(
        f"{_HEAD}[task_exception_handler.cc:452][811] Task run failed, taskType[Memcpy], tag[AllGather_1]",
        ({"type": "event", "kind": "rank.device_error", "blame": "hardware"},),
    ),
    Sample(
        "[ERROR] HCCP(7720,python):2025-05-14-09:10:11.1 [ra_hdc.c:512]ra hdc message process failed ret(-67)",
        ({"type": "event", "component": "port:?/?", "kind": "port.error"},),
    ),
    Sample(
        "[ERROR] 2024-07-03-11:28:40 (PID:639, Device:0, RankID:16) ERR00100 PTA call acl api failed.",
        ({"type": "event", "component": "rank:?/16", "kind": "rank.collective_error", "blame": "either"},),
    ),
    Sample(
        "[rank3]: EZ9999: 2025-06-11-03:02:01.1 The error from device(chipId:3, dieId:0), there is an hbm multi bit "
        "ecc error, device id 3",
        ({"type": "event", "component": "rank:?/3", "kind": "rank.device_error", "blame": "hardware"},),
    ),
    Sample(
        "[rank3]: RuntimeError: ERR02200 DIST call hccl api failed.",
        ({"type": "event", "component": "rank:?/3", "kind": "rank.collective_error", "code": "ERR02200"},),
    ),
)
