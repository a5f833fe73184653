"""A real SNMP agent for tests: Debian's snmpd as an ordinary user, with tables of switches that the test writes.

    with snmp.running(folder, {"1.3.6.1.2.1.99.1.1.1.4.7": ("integer", "415")}) as agent:
        agent.address          # 127.0.0.1:port
        agent.write({...})     # other rows from the next question on

Rows of trees that snmpd does not serve itself come from a program of its (pass_persist) that reads them from a file.
"""

import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.process import Child, found, free_port, retried, started

COMMUNITY = "readers"
USER, AUTH_KEY, PRIVACY_KEY = "watcher", "who-are-you-1", "what-is-said-2"  # of version 3
START_S = 15.0
TREES = ("1.3.6.1.2.1.99", "1.3.6.1.2.1.47", "1.0.8802.1.1.2")  # what the program serves

Rows = Mapping[str, tuple[str, str]]  # OID -> type as snmpd names it, value

_QUESTION = bytes.fromhex(  # GET sysUpTime.0, version 2c, community "readers"
    "3027 020101 0407 72656164657273 a019 020101 020100 020100 300e 300c 0608 2b06010201010300 0500"
)
_PROGRAM = """\
import sys

def rows():
    found = {}
    for line in open(sys.argv[1]):
        oid, kind, value = line.rstrip("\\n").split("\\t")
        found[tuple(map(int, oid.split(".")))] = (kind, value)
    return found

while True:
    word = sys.stdin.readline().strip()
    if not word:
        break
    if word == "PING":
        print("PONG", flush=True)
        continue
    asked = tuple(map(int, sys.stdin.readline().strip().strip(".").split(".")))
    if word == "set":
        sys.stdin.readline()
        open(sys.argv[1] + ".set", "a").write(str(asked))
        print("not-writable", flush=True)
        continue
    told = rows()
    oid = min((one for one in told if one > asked), default=None) if word == "getnext" else asked
    if oid in told:
        print("." + ".".join(map(str, oid)), told[oid][0], told[oid][1], sep="\\n", flush=True)
    else:
        print("NONE", flush=True)
"""


@dataclass(frozen=True, slots=True)
class Agent:
    """One that answers."""

    folder: Path
    child: Child
    port: int

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.port}"

    def write(self, rows: Rows) -> None:
        """The rows of the trees of the program, from the next question on."""
        _write(self.folder, rows)

    def restart(self) -> None:
        """The agent, not the machine."""
        self.child.stop(5.0)
        _start(self.child, self.port)


@contextmanager
def running(folder: Path, rows: Rows, more: str = "") -> Iterator[Agent]:
    """An agent with these rows; `more`: further lines of its configuration. Stopped at the end."""
    (binary,) = found("snmpd")
    _write(folder, rows)
    (folder / "program.py").write_text(_PROGRAM)
    ports: list[int] = []

    def start() -> Child:
        ports.append(free_port())
        (folder / "snmpd.conf").write_text(_configuration(folder, ports[-1], more))
        state = folder / "state"  # what it keeps over restarts: how often it was started
        env = {"SNMP_PERSISTENT_DIR": str(state), "MIBS": "", "SNMPCONFPATH": f"{folder}:{state}"}
        command = [binary, "-f", "-Lo", "-p", str(folder / "pid")]
        return _start(Child(command, folder, folder / "snmpd.log", env), ports[-1])

    (folder / "state").mkdir(exist_ok=True)
    child = retried(start)
    try:
        yield Agent(folder, child, ports[-1])
    finally:
        child.stop(5.0)


def _start(child: Child, port: int) -> Child:
    return started(child, lambda: _answers(port), START_S)


def _configuration(folder: Path, port: int, more: str) -> str:
    program = f"{sys.executable} {folder / 'program.py'} {folder / 'rows'}"
    passes = "".join(f"pass_persist .{tree} {program}\n" for tree in TREES)
    user = f'createUser {USER} SHA-256 "{AUTH_KEY}" AES "{PRIVACY_KEY}"\nrouser {USER} priv\n'
    community = f"rocommunity {COMMUNITY} 127.0.0.1\n"
    return f"agentaddress udp:127.0.0.1:{port}\n{community}{user}sysName leaf9\n{passes}{more}"


def _write(folder: Path, rows: Rows) -> None:
    (folder / "rows.new").write_text("".join(f"{oid}\t{kind}\t{value}\n" for oid, (kind, value) in rows.items()))
    (folder / "rows.new").replace(folder / "rows")


def _answers(port: int) -> bool:
    """Whether it answers a question for sysUpTime."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.5)
        asking.sendto(_QUESTION, ("127.0.0.1", port))
        try:
            return bool(asking.recv(1500))
        except TimeoutError:
            time.sleep(0.05)
            return False
