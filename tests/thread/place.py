"""Everything that the thread needs, started and ended: the site, Slurm, the log, Sickbay's processes, its surfaces.

Two ways to run Sickbay on the same site: every stage a process of its own on Kafka (`spread`), or all of it in one
process on the embedded log (`single`).
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sickbay.config import load
from sickbay.log import Log
from sickbay.log.opened import open_log
from simulator.live import node_test, trainer
from simulator.live.site import Site
from tests.services import slurm
from tests.services.process import Child, free_port

SICKBAY = Path(sys.executable).with_name("sickbay")
Way = Literal["spread", "single"]
# What each process runs when they are spread; agents come on top, one a host.
PROCESSES: dict[str, tuple[str, ...]] = {
    "windows": ("process", "ticker", "windows", "explicit", "lag"),
    "diagnosis": ("process", "diagnosis"),
    "surfaces": ("process", "alerts", "archive"),
    "poll": ("poll", "slurm"),
    "remediate": ("remediate",),
}


@dataclass
class Place:
    """A site under watch. `children` by the name of what they run."""

    folder: Path
    site: Site
    slurm: slurm.Cluster
    way: Way
    log_toml: str
    alertmanager: str = ""
    mode: str = "act"
    ports: dict[str, int] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        """The settings file of all but the agents."""
        return self.folder / "sickbay.toml"

    def write(self) -> None:
        """Settings, as an operator would write them."""
        for name in [*PROCESSES, "up", *self.slurm.nodes]:
            self.ports[name] = free_port()
            listen = f'[metrics]\nlisten = "127.0.0.1:{self.ports[name]}"\n'
            agent = self._agent(name) if name in self.slurm.nodes else self._central()
            (self.folder / f"{name}.toml").write_text(f"{self.log_toml}\n{agent}\n{listen}")
        self.config.write_text(f"{self.log_toml}\n{self._central()}\n")

    def _central(self) -> str:
        url = f"http://127.0.0.1:{self.site.exporters.port}"
        test = [sys.executable, node_test.__file__, url]
        return f"""
[slurm]
bin = "{self.slurm.bin}"
conf = "{self.slurm.conf}"
poll_s = 1

[windows]
lateness_s = 5

[remediation]
mode = "{self.mode}"
scheduler = "slurm"
holds_per_hour = 20
test_command = {json.dumps(test)}
test_sensitivity = 0.95
test_timeout_s = 30

[alerts]
url = "{self.alertmanager}"
every_s = 2

[archive]
path = "archive"
every_s = 2
"""

    def _agent(self, host: str) -> str:
        urls = [self.site.exporters.url(host, what) for what in ("accelerators", "node")]
        return f"""
[agent]
host = "{host}"
root = "{self.site.root(host)}"
kernel_log = "var/log/kern.log"
exporters = {json.dumps(urls)}
job_logs = {json.dumps(["scratch/slurm-*.out"] if host == self.slurm.nodes[0] else [])}
spool = "spool-{host}"
"""

    def start(self, *names: str) -> None:
        """Start the named processes, or start them again."""
        for name in names:
            self.children[name] = self._child(name)
            self.children[name].start()

    def _child(self, name: str) -> Child:
        if name == "up":
            agents = [f"--agent={self.folder / host}.toml" for host in self.slurm.nodes]
            arguments: Sequence[str] = ("up", *agents)
        elif name in PROCESSES:
            arguments = PROCESSES[name]
        else:
            arguments = ("agent",)
        command = [str(SICKBAY), *arguments, f"--config={self.folder / name}.toml"]
        return Child(command, self.folder, self.folder / f"{name}.log", {**self.slurm.env, "PYTHONUNBUFFERED": "1"})

    @property
    def names(self) -> list[str]:
        """The processes of this way."""
        return ["up"] if self.way == "single" else [*PROCESSES, *self.slurm.nodes]

    def diagnoses(self) -> str:
        """The process that diagnoses."""
        return "up" if self.way == "single" else "diagnosis"

    def remediates(self) -> str:
        """The process that remediates."""
        return "up" if self.way == "single" else "remediate"

    def train(self, nodes: int = 3) -> str:
        """Submit the training job; its id."""
        out = self.site.scratch / "slurm-%j.out"
        run = f"exec srun --ntasks-per-node=1 {sys.executable} -I -S {trainer.__file__} {self.site.folder}"
        return self.slurm.submit(
            run, f"--nodes={nodes}", "--requeue", f"--output={out}", f"--error={out}", "--open-mode=append",
            "--job-name=pretrain",
        )  # fmt: skip

    def steps(self, job: str) -> list[int]:
        """The steps in the job's log, in order."""
        file = self.site.scratch / f"slurm-{job}.out"
        text = file.read_text(errors="replace") if file.exists() else ""
        return [int(line.split("iteration", 1)[1].split("/")[0]) for line in text.splitlines() if "| lm loss" in line]

    def node(self, name: str) -> str:
        """What Slurm says of a node, one line."""
        return self.slurm.run("scontrol", "show", "node", "-o", name)

    def alerts(self) -> list[dict[str, Any]]:
        """What stands in Alertmanager."""
        answer = get(f"{self.alertmanager}/api/v2/alerts")
        found: list[dict[str, Any]] = json.loads(answer)
        return found

    def open_log(self) -> Log:
        """The log, for whoever only looks."""
        return open_log(load(self.config).log)

    def sickbay(self, *arguments: str, limit_s: float = 60) -> str:
        """What a command of sickbay prints. Raises AssertionError where it fails."""
        settings = [] if arguments[0] == "dashboards" else [f"--config={self.config}"]
        done = subprocess.run(
            [str(SICKBAY), *arguments, *settings], cwd=self.folder, capture_output=True, text=True,
            timeout=limit_s, env={**os.environ, **self.slurm.env},
        )  # fmt: skip
        assert done.returncode == 0, f"sickbay {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ended_badly(self) -> list[str]:
        """Processes that are gone though nobody ended them, with their last words."""
        return [f"{name}: {child.tail()}" for name, child in self.children.items() if not child.alive()]

    def last_words(self) -> str:
        """The end of what each process said: what a failing test shows."""
        return "\n".join(f"== {name}\n{child.tail()}" for name, child in self.children.items())

    def close(self) -> None:
        """End every process."""
        for child in self.children.values():
            child.stop(25)
        self.site.close()


def get(url: str, timeout_s: float = 5.0) -> bytes:
    """The body of an answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=timeout_s) as answer:
        body: bytes = answer.read()
        return body


@contextmanager
def placed(
    folder: Path, cluster: slurm.Cluster, way: Way, log_toml: str, *, alertmanager: str = "", mode: str = "act"
) -> Iterator[Place]:
    """A place with its site, nothing of Sickbay started yet; all that was started is ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = Place(folder, Site(folder / "site", cluster.nodes), cluster, way, log_toml, alertmanager, mode)
        stack.callback(place.close)
        place.site.start()
        place.write()
        try:
            yield place
        except BaseException:
            print(place.last_words())
            raise
