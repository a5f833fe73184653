"""Shared file systems as their clients (and Lustre servers) tell them: Lustre, NFS, Storage Scale (GPFS), Ceph.

The component is the client's view, `filesystem:host/server`; the server is the peer. One client that complains is a
client's matter, many are the server's: that is for the localiser.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.reading import Line, Record
from collectors.formats.speaking import told
from sickbay.components import UNKNOWN, Kind, name

LITERALS = (
    "This client was evicted by", "in progress operations using this service will ", "Connection restored to ",
    "@@@ Request sent has ", "evicting client at ", "not responding, ", "nfs: server ", "Lost membership in cluster",
    "Disk lease period expired", "being expelled ", "be expelled from", "Unmounting file systems", "libceph: ",
    "ceph: ", "lock timed out (enqueued at",
)  # fmt: skip

_LUSTRE = r"^(?:LustreError|Lustre): "
_TARGET = r"(?P<target>[A-Za-z0-9_]{1,40}-(?:OST|MDT)[0-9a-fA-F]{4}|MGS|MGC[\w.@-]{1,40})"
_EVICTED = re.compile(_LUSTRE + rf".{{0,200}}?This client was evicted by {_TARGET}")
_LOST = re.compile(
    _LUSTRE + rf".{{0,200}}?Connection to {_TARGET} \(at (?P<address>[\w.:@-]{{1,60}})\) was lost; "
    r"in progress operations using this service will (?:wait|fail)"
)
_RESTORED = re.compile(_LUSTRE + rf".{{0,200}}?Connection restored to (?:service )?{_TARGET}")
_SLOW = re.compile(
    _LUSTRE + rf".{{0,200}}?@@@ Request sent has "
    rf"(?P<what>timed out for (?:slow reply|sent delay)|failed due to network error)"
    rf".{{0,300}}?->{_TARGET}-(?:osc|mdc|mgc|osp|lwp)"
)
_SERVER_EVICTS = re.compile(
    _LUSTRE + rf".{{0,200}}?evicting client at (?P<address>[\w.:@-]{{1,60}}) +ns: (?:filter-|mdt-)?{_TARGET}"
)
_LOCK = re.compile(_LUSTRE + rf".{{0,200}}?lock timed out \(enqueued at \d{{1,12}}.{{0,200}}?{_TARGET}")
_NFS = re.compile(
    r"^nfs4?: server (?P<target>[\w.:-]{1,120}) (?P<what>not responding, still trying|not responding, timed out|OK)$"
)
_GPFS_LOST = re.compile(
    r"^(?:mmfs: |\[[EWN]\] |GPFS: ){0,2}.{0,60}?"
    r"(?:Lost membership in cluster|Disk lease period expired .{0,40}in cluster) (?P<target>[\w.-]{1,100}?)\.(?:\s|$)"
)
_GPFS_EXPELLED = re.compile(
    r"^(?:mmfs: |\[[EWN]\] |GPFS: ){0,2}This node (?:is being|will be) expelled "
    r"(?:from cluster (?P<target>[\w.-]{1,100}?)[.\s])?"
)
_CEPH = re.compile(
    r"^(?:lib)?ceph: (?:\[[0-9a-f-]{36} \d{1,20}\]: )?(?P<target>(?:mds|osd|mon)\d{1,6})(?: \(\d{1,3}\)\S{1,60})? "
    r"(?P<what>hung|came back|recovery completed|caps stale|caps went stale|caps renewed|down"
    r"|socket closed|socket error|session lost|session established|reconnect denied|rejected session"
    r"|closed our session)"
)
_CEPH_KINDS = {
    "hung": "filesystem.server_silent",
    "down": "filesystem.server_silent",
    "came back": "filesystem.server_answers",
    "recovery completed": "filesystem.server_answers",
    "caps stale": "filesystem.request_slow",
    "caps went stale": "filesystem.request_slow",
    "caps renewed": "filesystem.connection_restored",
    "socket closed": "filesystem.connection_lost",
    "socket error": "filesystem.connection_lost",
    "session lost": "filesystem.connection_lost",
    "session established": "filesystem.connection_restored",
    "reconnect denied": "filesystem.client_evicted",
    "rejected session": "filesystem.client_evicted",
    "closed our session": "filesystem.client_evicted",
}


def _client(kind: str, target: str, **attributes: str) -> Record:
    return told(kind, name(Kind.FILESYSTEM, UNKNOWN, target), peer=name(Kind.STORAGE, target), attributes=attributes)


def _slow(match: re.Match[str]) -> Record:
    kind = "filesystem.connection_lost" if "network" in match["what"] else "filesystem.request_slow"
    return _client(kind, match["target"], what=match["what"])


def _server_evicts(match: re.Match[str]) -> Record:
    """A server's word: the client is known by its network address only."""
    component = name(Kind.FILESYSTEM, match["address"], match["target"])
    return told(
        "filesystem.client_evicted",
        component,
        peer=name(Kind.STORAGE, match["target"]),
        attributes={"told_by": "server"},
    )


def _nfs(match: re.Match[str]) -> Record:
    if match["what"] == "OK":
        return _client("filesystem.server_answers", match["target"])
    return _client(
        "filesystem.server_silent", match["target"], mount="soft" if "timed out" in match["what"] else "hard"
    )


_TELLS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Record]], ...] = (
    (_EVICTED, lambda match: _client("filesystem.client_evicted", match["target"])),
    (_LOST, lambda match: _client("filesystem.connection_lost", match["target"], address=match["address"])),
    (_RESTORED, lambda match: _client("filesystem.connection_restored", match["target"])),
    (_SLOW, _slow),
    (_SERVER_EVICTS, _server_evicts),
    (_LOCK, lambda match: _client("filesystem.request_slow", match["target"], what="lock")),
    (_NFS, _nfs),
    (_GPFS_LOST, lambda match: _client("filesystem.unmounted", match["target"])),
    (_GPFS_EXPELLED, lambda match: _client("filesystem.client_evicted", match["target"] or "mmfs")),
    (_CEPH, lambda match: _client(_CEPH_KINDS[match["what"]], match["target"])),
)
_SPEAKERS = ("kernel", "", "mmfs", "mmfsd")


class GRAMMAR:
    """One event a line."""

    def read(self, line: Line) -> Iterator[Record]:
        """What the client says of its server."""
        if line.origin not in _SPEAKERS:
            return
        for pattern, tell in _TELLS:
            if match := pattern.match(line.body):
                yield tell(match)
                return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing stays open."""
        return ()


def _expect(kind: str, target: str, **fields: object) -> tuple[dict[str, object], ...]:
    component = fields.pop("component", f"filesystem:?/{target}")
    return ({"type": "event", "kind": kind, "component": component, "peer": f"storage:{target}", **fields},)


SAMPLES = (
    Sample(
        "LustreError: 167-0: work-OST0003-osc-ffff9a41c2d8e000: This client was evicted by "
        "work-OST0003; in progress operations using this service will fail.",
        _expect("filesystem.client_evicted", "work-OST0003"),
    ),
    Sample(
        "Lustre: work-MDT0001-mdc-ffff9a41c2d8e000: Connection to work-MDT0001 (at "
        "198.51.100.90@o2ib1) was lost; in progress operations using this "
        "service will wait for recovery to complete",
        _expect("filesystem.connection_lost", "work-MDT0001", attributes={"address": "198.51.100.90@o2ib1"}),
    ),
    Sample(
        "Lustre: work-MDT0001-mdc-ffff9a41c2d8e000: Connection restored to work-MDT0001 (at 198.51.100.90@o2ib1)",
        _expect("filesystem.connection_restored", "work-MDT0001"),
    ),
    Sample(
        "Lustre: 2101:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has timed out for "
        "slow reply: [sent 1741666642/real 1741666642]  "
        "req@ffff9a x1801/t0(0) o4->work-OST0003-osc-ffff9a41@198.51.100.91@o2ib1:6/4 lens 488/448 e 0 "
        "to 1 dl 1741666649 ref 2",
        _expect("filesystem.request_slow", "work-OST0003"),
    ),
    Sample(
        "LustreError: 0:0:(ldlm_lockd.c:256:expired_lock_main()) ### lock callback timer expired after "
        "101s: evicting client at 198.51.100.7@o2ib1  "
        "ns: filter-work-OST0003_UUID lock: ffff9a/0x1 lrc: 3/0,0",
        _expect("filesystem.client_evicted", "work-OST0003", component="filesystem:198.51.100.7@o2ib1/work-OST0003"),
    ),
    Sample(
        "nfs: server filer2 not responding, still trying",
        _expect("filesystem.server_silent", "filer2", attributes={"mount": "hard"}),
    ),
    Sample(
        "nfs: server filer2 not responding, timed out",
        _expect("filesystem.server_silent", "filer2", attributes={"mount": "soft"}),
    ),
    Sample("nfs: server filer2 OK", _expect("filesystem.server_answers", "filer2")),
    Sample(
        "[E] Lost membership in cluster scale1.example. Unmounting file systems.",
        _expect("filesystem.unmounted", "scale1.example"),
    ),
    Sample("ceph: mds0 hung", _expect("filesystem.server_silent", "mds0")),
    Sample("ceph: mds0 came back", _expect("filesystem.server_answers", "mds0")),
    Sample("libceph: osd41 down", _expect("filesystem.server_silent", "osd41")),
    Sample(
        "libceph: osd41 (1)198.51.100.60:6801 socket closed (con state OPEN)",
        _expect("filesystem.connection_lost", "osd41"),
    ),
    Sample(
        "ceph: [0d3f1c2a-0000-4000-8000-00000000a1b2 41288]: mds0 rejected session",
        _expect("filesystem.client_evicted", "mds0"),
    ),
)
