"""A made-up fabric as its tools tell it: leaves with hosts under spines, and what goes wrong with them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.cluster.fabric_sweep import Answer
from collectors.cluster.fabric_versions import Step, Versions, swept
from collectors.formats.link_listing import ports
from collectors.formats.reading import Tally

T = 1_773_203_400_000
MINUTE = 60_000
MANAGER = "0x00000000000000aa"
UNANSWERED = "query_smp.c:228; umad (DR path slid 0; dlid 0; {} Attr 0x11:0) bad status 110; Connection timed out"
SPARE = 2  # ports of every switch that nothing is in

End = tuple[str, int]


def guid(node: str) -> str:
    """A node's GUID, the same for the same name."""
    return f"0x{sum(ord(letter) * 257**place for place, letter in enumerate(node)) % 16**16:016x}"


@dataclass
class Fabric:
    """`leaves` x `hosts` under `spines`: host k of leaf l is h<l>-<k>. `off`: nodes without power; `mute`: nodes that
    answer nobody; `cut`: ports whose cable is out; `closed`: ports that were disabled."""

    leaves: int = 2
    hosts: int = 8
    spines: int = 1
    off: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    cut: set[End] = field(default_factory=set)
    closed: set[End] = field(default_factory=set)
    called: dict[str, str] = field(default_factory=dict)
    speeds: dict[End, str] = field(default_factory=dict)
    moved: dict[End, End] = field(default_factory=dict)

    @property
    def links(self) -> dict[End, End]:
        """Cables, from switch ports: a leaf's hosts stand at 1.., its uplinks after them."""
        told: dict[End, End] = {}
        for leaf in range(1, self.leaves + 1):
            for host in range(1, self.hosts + 1):
                told[f"leaf{leaf}", host] = (f"h{leaf}-{host} mlx5_0", 1)
            for spine in range(1, self.spines + 1):
                up, down = (f"leaf{leaf}", self.hosts + spine), (f"spine{spine}", leaf)
                told |= {up: down, down: up}
        return told | self.moved

    @property
    def switches(self) -> list[str]:
        """All of them."""
        return [f"leaf{n}" for n in range(1, self.leaves + 1)] + [f"spine{n}" for n in range(1, self.spines + 1)]

    def reached(self, start: str = "leaf1") -> set[str]:
        """Switches that a sweep from this one gets to."""
        found, waiting = set(), [start]
        while waiting:
            node = waiting.pop()
            if node in found or node in self.off | self.mute or node not in self.switches:
                continue
            found.add(node)
            waiting += [far[0] for end, far in self.links.items() if end[0] == node and self._stands(end, far)]
        return found

    def _stands(self, end: End, far: End) -> bool:
        return not ({end, far} & (self.cut | self.closed)) and far[0] not in self.off

    def listing(self, only: Iterable[str] | None = None) -> str:
        """What `iblinkinfo --line --switches-only` prints; `only`: of these switches."""
        rows = []
        for switch in sorted(self.reached() if only is None else only):
            numbers = max(port for node, port in self.links if node == switch)
            rows += [self._row(switch, port) for port in range(1, numbers + SPARE + 1)]
        return "".join(row + "\n" for row in rows)

    def _row(self, switch: str, port: int) -> str:
        own = f'{guid(switch)} "{self.called.get(switch, switch):>30}"    7  {port:>3}[  ] ==('
        far = self.links.get((switch, port))
        if (switch, port) in self.closed:
            return own + '                Down/Disabled)==>             [  ] "" ( )'
        if far is None or not self._stands((switch, port), far):
            return own + '                Down/ Polling)==>             [  ] "" ( )'
        up = self.speeds.get((switch, port), " 4X        53.125 Gbps Active/  LinkUp")
        if far[0] in self.mute:
            return f'{own}{up})==>             [  ] "" ( )'
        return f'{own}{up})==>  {guid(far[0])}      9  {far[1]:>3}[  ] "{self.called.get(far[0], far[0])}" ( )'

    def answer(
        self, *, only: Iterable[str] | None = None, warnings: tuple[str, ...] = (), failed: str = "",
        managers: tuple[str, str] = (MANAGER, MANAGER),
    ) -> Answer:  # fmt: skip
        """One sweep. Every mute node that a reached switch leads to is complained of, as the tools do."""
        tally = Tally()
        told = tuple(ports([self.listing(only).encode()], tally))
        assert tally.unparsed == 0
        mute = [UNANSWERED.format(f"0,{number},1") for number, _ in enumerate(sorted(self.mute))]
        return Answer(told, (*mute, *warnings), managers, failed)


@dataclass
class Watch:
    """A fold over sweeps, one a minute."""

    versions: Versions = field(default_factory=Versions)
    now_ms: int = T
    edges: list[tuple[str, str, str, bool]] = field(default_factory=list)  # (child, parent, relation, ended)

    def sees(self, answer: Answer, minutes: float = 1) -> Step:
        """One more sweep."""
        self.now_ms += round(minutes * MINUTE)
        step = swept(self.versions, answer, self.now_ms)
        self.versions = step.versions
        self.edges += [(one.child, one.parent, one.relation.value, one.to_ms is not None) for one in step.edges]
        return step


def kinds(step: Step) -> list[tuple[str, str, str]]:
    """(kind, component, peer) of its events."""
    return [(one.kind, one.component, one.peer) for one in step.events]
