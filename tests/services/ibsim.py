"""A simulated InfiniBand fabric for tests: ibsim with opensm as its subnet manager; the usual tools run against it.

    with ibsim.running(folder) as fabric:
        fabric.run("ibnetdiscover")
        fabric.console('Unlink "S-leaf1"[3]')     # a cable is pulled

Every fabric has a name of its own for its sockets, so that several stand side by side. Where a binary is missing the
test is skipped, or fails with SERVICES=require.
"""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.process import Child, found, retried, started

START_S = 30.0
MANAGER_LOG = "opensm.txt"

# Two leaves under one spine, two hosts each; every link is told from both of its ends. The first line of a node must
# be followed by all of its ports, an empty line ends it.
NET = """\
Switch 4 "S-leaf1"
[1] "H-node1"[1]
[2] "H-node2"[1]
[3] "S-spine1"[1]

Switch 4 "S-leaf2"
[1] "H-node3"[1]
[2] "H-node4"[1]
[3] "S-spine1"[2]

Switch 4 "S-spine1"
[1] "S-leaf1"[3]
[2] "S-leaf2"[3]

Hca 1 "H-node1"
[1] "S-leaf1"[1]

Hca 1 "H-node2"
[1] "S-leaf1"[2]

Hca 1 "H-node3"
[1] "S-leaf2"[1]

Hca 1 "H-node4"
[1] "S-leaf2"[2]
"""


@dataclass(frozen=True, slots=True)
class Fabric:
    """One that is up."""

    folder: Path
    simulator: Child
    manager: Child
    env: dict[str, str]

    def run(self, *command: str, limit_s: float = 30.0) -> str:
        """What a tool prints that is run as on the first host. Raises CalledProcessError where it fails."""
        (wrapper, tool) = found("ibsim-run", command[0])
        done = subprocess.run(
            [wrapper, tool, *command[1:]], cwd=self.folder, env={**os.environ, **self.env},
            check=True, capture_output=True, text=True, timeout=limit_s,
        )  # fmt: skip
        return done.stdout

    def console(self, line: str) -> None:
        """One command of the simulator, such as `Unlink "S-leaf1"[3]`, `Link …`, `Error "S-leaf1"[3] 50` (% lost)."""
        self.simulator.say(line)


@contextmanager
def running(folder: Path, net: str = NET) -> Iterator[Fabric]:
    """A fabric of this net whose subnet is up; stopped at the end."""
    simulator, wrapper, manager = found("ibsim", "ibsim-run", "opensm")
    (folder / "net").write_text(net)
    env = {"IBSIM_SOCKNAME": f"t{secrets.token_hex(6)}", "SIM_HOST": _first_host(net), "OSM_CACHE_DIR": str(folder)}
    log = folder / "ibsim.log"

    def start_simulator() -> Child:
        # Its input is its console: at its end ibsim spins.
        child = Child([simulator, "-s", "net"], folder, log, env, stdin_open=True)
        return started(child, lambda: "simulator ready" in log.read_text(errors="replace"), START_S)

    sim = retried(start_simulator)
    try:
        with _managed(wrapper, manager, folder, env) as child:
            yield Fabric(folder, sim, child, env)
    finally:
        sim.stop(5.0)


@contextmanager
def _managed(wrapper: str, manager: str, folder: Path, env: dict[str, str]) -> Iterator[Child]:
    log = folder / MANAGER_LOG
    (folder / "opensm.conf").write_text("force_log_flush TRUE\n")  # else "SUBNET UP" waits in a buffer till the end
    options = ["-F", str(folder / "opensm.conf"), "-f", str(log), "-g", "0"]  # -g 0: the port of SIM_HOST
    child = Child([wrapper, manager, *options], folder, folder / "opensm.log", env)

    def start() -> Child:
        return started(child, lambda: "SUBNET UP" in log.read_text(errors="replace"), START_S)

    try:
        yield retried(start)
    finally:
        child.stop(5.0)


def _first_host(net: str) -> str:
    return next(line.split('"')[1] for line in net.splitlines() if line.startswith("Hca"))
