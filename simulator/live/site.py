"""A simulated site in real time: hosts made of files and exporters, which real agents watch.

    FOLDER/hosts/HOST/var/log/kern.log    what the kernel of the host prints
    FOLDER/hosts/HOST/activity            what the training job on it does, rewritten several times a second
    FOLDER/hosts/HOST/lost                a card that left the bus: its index
    FOLDER/scratch/slurm-JOB.out          the job's log
    FOLDER/scratch/JOB.checkpoint         the newest committed step

The job is run by whom it is told to: `simulator.live.trainer` under a real scheduler, or a simulated one in process.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from sickbay.schema import Samples
from simulator.faults.kit import blind
from simulator.live.exporter import Exporters, exposition
from simulator.live.trainer import ACTIVITY, LOST, active
from simulator.parts.cluster import Card, build
from simulator.parts.physics import Sensors, calm
from simulator.printing import lines
from simulator.printing.envelopes import syslog
from simulator.printing.lines import Printed
from simulator.workload.run import Mode
from simulator.world import World, read

MODES = {"step": Mode.STEP, "load": Mode.LOAD, "save": Mode.PAUSE, "wait": Mode.WAIT}


class Site:
    """The hosts of a site. `start` lets its sensors run; every method may be called from any thread."""

    def __init__(
        self, folder: Path, hosts: tuple[str, ...], *, seed: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        self.folder, self.cluster, self._clock = folder, build(seed=seed, names=hosts), clock
        self._cards = {name: card for card in self.cluster.cards for name in (card.component, card.port)}
        self._rng = np.random.default_rng([seed, 0x1A])
        self._sensors = Sensors(self.cluster, seed, boot_s=clock() - 912_344)
        self._told: Mapping[str, tuple[Samples, ...]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensors", daemon=True)
        for host in hosts:
            self.kernel_log(host).parent.mkdir(parents=True, exist_ok=True)
            self.kernel_log(host).touch()
        self.scratch.mkdir(parents=True, exist_ok=True)
        for host in hosts:  # every host mounts it
            if not (self.root(host) / "scratch").is_symlink():
                (self.root(host) / "scratch").symlink_to(self.scratch.resolve())
        self.second()
        self.exporters = Exporters(self._page)

    @property
    def scratch(self) -> Path:
        """What all hosts share: job logs and checkpoints."""
        return self.folder / "scratch"

    def root(self, host: str) -> Path:
        """What the host's agent takes for `/`."""
        return self.folder / "hosts" / host

    def kernel_log(self, host: str) -> Path:
        """The file that the host's kernel messages go to."""
        return self.root(host) / "var" / "log" / "kern.log"

    def start(self) -> None:
        """Let the sensors run."""
        self._thread.start()

    def close(self) -> None:
        """Stop sensors and exporters."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self.exporters.close()

    def lose(self, host: str, index: int, *, coded: bool = True) -> Card:
        """A card falls off the bus: the kernel says so, the exporter of the host hangs, its job stalls."""
        card = self.cluster.of(host)[index]
        (self.root(host) / LOST).write_text(str(index))
        self._print(*lines.off_bus(self._now_ms(), card, coded=coded))
        return card

    def fail_program(self, host: str, index: int, code: int = 31) -> None:
        """A program's own error, which the driver reports with a code of its own; the card is well."""
        card = self.cluster.of(host)[index]
        words = {13: "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
                 31: "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7fd2_5c800000. Fault is of type "
                     "FAULT_PDE ACCESS_TYPE_VIRT_READ"}[code]  # fmt: skip
        self._print(lines.xid(self._now_ms(), card, code, words, "41207/python3"))

    def repair(self, host: str) -> None:
        """The host was power-cycled and has all its cards."""
        (self.root(host) / LOST).unlink(missing_ok=True)

    def healthy(self, host: str) -> bool:
        """What a test of the host finds."""
        return not (self.root(host) / LOST).exists()

    def second(self) -> None:
        """Read all sensors once."""
        now = self._clock()
        conditions = calm(self.cluster)
        world = World(self.cluster, {}, conditions, int(now * 1000), self._rng)
        for host in self.cluster.hosts:
            conditions.mode[self.cluster.rows(host)] = MODES.get(active(self.root(host) / ACTIVITY, now), Mode.IDLE)
            if not self.healthy(host):
                blind(world, host)
        self._told = read(self.cluster, conditions, self._sensors, int(now * 1000))

    def _run(self) -> None:
        while not self._end.wait(1.0 - self._clock() % 1.0):
            self.second()

    def _page(self, host: str, what: str) -> str | None:
        if what == "accelerators" and not (host in self.cluster.hosts and self.healthy(host)):
            return None
        wanted = {"accelerator"} if what == "accelerators" else {"host", "port"}
        return exposition([one for one in self._told.get(host, ()) if one.table in wanted], self._cards)

    def _print(self, *printed: Printed) -> None:
        for line in printed:
            with self.kernel_log(line.host).open("a", encoding="utf-8") as file:
                file.write(syslog(line, line.at_ms) + "\n")

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
