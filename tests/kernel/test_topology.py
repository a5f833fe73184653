"""Topology: versions, what names tell, conflicts, and a naive twin that scans lists."""

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.components import Kind, Name, kind_of, parts_of
from sickbay.messages import Edge, Relation
from sickbay.topology import CONTAINMENT, Topology, View

R = Relation


def edge(
    child: str,
    relation: Relation,
    parent: str,
    start: int | None = None,
    end: int | None = None,
    seen: int | None = None,
    source: str = "",
) -> Edge:
    return Edge(child=child, relation=relation, parent=parent, from_ms=start, to_ms=end, seen_ms=seen, source=source)


LEAF = [
    edge("port:leaf1/1", R.PART_OF, "switch:leaf1"),
    edge("port:leaf1/2", R.PART_OF, "switch:leaf1"),
    edge("port:h1/nic0/1", R.LINK_END, "port:leaf1/1"),
    edge("port:leaf1/2", R.LINK_END, "port:h2/nic0/1"),
    edge("switch:leaf1", R.ATTACHED_TO, "switch:spine1"),
    edge("host:h1", R.POWERED_BY, "pdu:p1"),
    edge("host:h2", R.POWERED_BY, "pdu:p1"),
]


def test_names_tell_the_host_without_an_edge() -> None:
    view = Topology().at(None)
    assert view.parents("accelerator:h/0000:cb:00") == ("host:h",)
    assert view.ancestors("optic:h/nic0/1") == ("port:h/nic0/1", "host:h")
    assert view.parents("accelerator:?/0") == ()
    assert view.parents("not a name") == ()
    assert view.ancestors("host:h") == ()


def test_a_link_attaches_the_host_and_its_port_to_the_switch() -> None:
    view = Topology(LEAF).at(None)
    assert view.other_end("port:leaf1/1") == "port:h1/nic0/1"
    assert view.other_end("port:h2/nic0/1") == "port:leaf1/2"
    assert view.other_end("port:leaf1/9") is None
    assert view.parents("host:h1") == ("switch:leaf1", "pdu:p1")
    assert view.ancestors("port:h1/nic0/1") == ("host:h1", "pdu:p1", "switch:leaf1", "switch:spine1")
    assert view.hosts_under("switch:spine1") == ("h1", "h2")
    assert view.hosts_under("pdu:p1") == ("h1", "h2")
    assert view.hosts_under("host:h9") == ("h9",)
    assert view.hosts_under("accelerator:h1/0") == ()


def test_shared_parents_come_nearest_first_with_their_counts() -> None:
    view = Topology(LEAF).at(None)
    cards = ["accelerator:h1/0", "accelerator:h1/1", "accelerator:h2/0", "accelerator:h3/0"]
    assert view.shared_parents(cards) == [
        ("host:h1", 2),
        ("pdu:p1", 3),
        ("switch:leaf1", 3),
        ("switch:spine1", 3),
    ]
    assert view.shared_parents(cards, least=4) == []


def test_a_move_counts_from_when_it_holds() -> None:
    #  r1 from the start, r2 from 100, gone at 200
    topology = Topology(
        [edge("host:h", R.PART_OF, "rack:r1"), edge("host:h", R.PART_OF, "rack:r2", 100, 200)],
    )
    assert topology.at(99).parents("host:h") == ("rack:r1",)
    assert topology.at(100).parents("host:h") == ("rack:r2",)
    assert topology.at(200).parents("host:h") == ("rack:r1",)
    assert topology.conflicts == ()


def test_a_partial_sweep_removes_nothing_and_an_ended_version_does() -> None:
    told = [edge("host:h", R.ATTACHED_TO, f"switch:leaf{n}", seen=10) for n in range(8)]
    sweep = [edge("host:h", R.ATTACHED_TO, "switch:leaf0", seen=20)]
    topology = Topology(told).add(sweep)
    assert len(topology.at(None).parents("host:h")) == 8
    topology = topology.add([edge("host:h", R.ATTACHED_TO, "switch:leaf3", None, 30, seen=40)])
    assert "switch:leaf3" in topology.at(29).parents("host:h")
    assert "switch:leaf3" not in topology.at(30).parents("host:h")
    assert "switch:leaf3" not in topology.at(None).parents("host:h")


def test_recabling_frees_the_old_end() -> None:
    topology = Topology(
        [
            edge("port:h1/n/1", R.LINK_END, "port:s/1", 0),
            edge("port:h2/n/1", R.LINK_END, "port:s/1", 50),
        ]
    )
    assert topology.at(49).other_end("port:s/1") == "port:h1/n/1"
    assert topology.at(50).other_end("port:s/1") == "port:h2/n/1"
    assert topology.at(50).other_end("port:h1/n/1") is None
    assert topology.conflicts == ()


def test_what_cannot_be_true_is_told_and_ignored() -> None:
    topology = Topology(
        [
            edge("host:a", R.PART_OF, "rack:r1"),
            edge("host:a", R.PART_OF, "rack:r2"),
            edge("host:b", R.PART_OF, "host:b"),
            edge("host:?", R.PART_OF, "rack:r1"),
            edge("nonsense", R.PART_OF, "rack:r1"),
            edge("port:h1/n/1", R.LINK_END, "port:s/1"),
            edge("port:h2/n/1", R.LINK_END, "port:s/1"),
            edge("switch:x", R.ATTACHED_TO, "switch:y"),
            edge("switch:y", R.ATTACHED_TO, "switch:z"),
            edge("switch:z", R.ATTACHED_TO, "switch:x"),
            edge("host:c", R.ATTACHED_TO, "switch:x"),
            edge("host:d", R.PART_OF, "accelerator:d/0"),
        ]
    )
    assert sorted(conflict.what for conflict in topology.conflicts) == [
        "bad_name",
        "bad_name",
        "cycle",
        "cycle",
        "end_taken",
        "self_edge",
        "two_parents",
    ]
    view = topology.at(None)
    assert "two_parents: host:a part_of rack:r1; host:a part_of rack:r2" in map(str, topology.conflicts)
    assert view.parents("host:a") == ()
    assert view.other_end("port:s/1") is None
    assert view.other_end("port:h1/n/1") is None
    assert view.ancestors("host:c") == ("switch:x",)
    assert view.ancestors("accelerator:d/0") == ("host:d",)
    assert view.descendants("switch:y") == ()
    assert sorted(conflict.what for conflict in topology.add([]).conflicts) == sorted(
        conflict.what for conflict in topology.conflicts
    )


def test_where_sources_disagree_what_was_seen_wins_and_both_are_told() -> None:
    seen = edge("port:h1/n/1", R.LINK_END, "port:leaf1/e3", seen=10, source="lldp")
    written = edge("port:h1/n/1", R.LINK_END, "port:leaf1/e4", seen=20, source="inventory:cables.csv")
    for told in ([seen, written], [written, seen]):
        topology = Topology(told)
        assert topology.at().other_end("port:h1/n/1") == "port:leaf1/e3"
        assert topology.at().other_end("port:leaf1/e4") is None
        (conflict,) = topology.conflicts
        assert str(conflict) == (
            "sources_disagree: port:h1/n/1 link_end port:leaf1/e3; port:h1/n/1 link_end port:leaf1/e4"
        )


def test_of_two_that_wrote_down_the_later_wins() -> None:
    old = edge("host:h1", R.PART_OF, "rack:r1", seen=10, source="inventory:a.csv")
    new = edge("host:h1", R.PART_OF, "rack:r2", seen=20, source="netbox")
    topology = Topology([new, old])
    assert topology.at().parents("host:h1", R.PART_OF) == ("rack:r2",)
    assert [conflict.what for conflict in topology.conflicts] == ["sources_disagree"]


def test_a_move_that_one_source_tells_is_no_disagreement() -> None:
    moved = [edge("host:h1", R.PART_OF, f"rack:r{n}", seen=n, source="inventory:a.csv") for n in (1, 2)]
    agreed = [edge("host:h2", R.PART_OF, "rack:r1", seen=n, source=source) for n, source in ((1, "netbox"), (2, "x"))]
    fed = [edge("host:h2", R.POWERED_BY, f"pdu:{n}", seen=n, source=f"s{n}") for n in (1, 2)]  # two are as good as one
    assert Topology([*moved, *agreed, *fed]).conflicts == ()


def test_what_was_seen_to_end_is_not_held_up_by_a_list() -> None:
    ended = edge("port:h1/n/1", R.LINK_END, "port:leaf1/e3", end=50, seen=10, source="lldp")
    written = edge("port:h1/n/1", R.LINK_END, "port:leaf1/e3", seen=20, source="inventory:cables.csv")
    topology = Topology([ended, written])
    assert topology.at(40).other_end("port:h1/n/1") == "port:leaf1/e3"
    assert topology.at(60).other_end("port:h1/n/1") is None


def test_a_loop_that_was_never_true_at_one_time_is_none() -> None:
    topology = Topology(
        [
            edge("switch:x", R.ATTACHED_TO, "switch:y", 0, 10),
            edge("switch:y", R.ATTACHED_TO, "switch:x", 10),
        ]
    )
    assert topology.at(5).ancestors("switch:x") == ("switch:y",)
    assert topology.at(15).ancestors("switch:y") == ("switch:x",)
    assert topology.conflicts == ()


def test_a_scale_up_domain_of_many_hosts_is_no_part_of_a_host() -> None:
    view = Topology([edge("host:h1", R.PART_OF, "fabric:b01"), edge("host:h2", R.PART_OF, "fabric:b01")]).at(None)
    assert view.ancestors("accelerator:h1/0") == ("host:h1", "fabric:b01")
    assert view.hosts_under("fabric:b01") == ("h1", "h2")
    assert view.parents("fabric:h7") == ("host:h7",)


def test_groups_are_seen_from_both_sides() -> None:
    view = Topology([edge("port:s/1", R.SAME_GROUP, "port:s/2")]).at(None)
    assert view.parents("port:s/1", R.SAME_GROUP) == ("port:s/2",)
    assert view.children("port:s/1", R.SAME_GROUP) == ("port:s/2",)
    assert view.parents("port:s/1") == ("host:s",)


def test_a_port_told_to_be_part_of_a_device_reaches_its_host_through_it() -> None:
    view = Topology([edge("port:h/n/1", R.PART_OF, "nic:h/0000:1a:00")]).at(None)
    assert view.parents("port:h/n/1") == ("nic:h/0000:1a:00",)
    assert view.ancestors("port:h/n/1") == ("nic:h/0000:1a:00", "host:h")
    assert view.descendants("host:h") == ("nic:h/0000:1a:00", "port:h/n/1")


# --- the naive twin ---------------------------------------------------------------------------------------------------


class Naive:
    """The same meaning by scanning the list of edges for every question."""

    def __init__(self, edges: Iterable[Edge], at_ms: int | None) -> None:
        usable = [e for e in edges if e.child != e.parent]
        self.all = [self._ordered(e) for e in usable]
        self.switches = {n for e in self.all for n in (e.child, e.parent) if n.startswith("switch:")}
        self.at_ms = float("inf") if at_ms is None else at_ms
        self.fabrics = {e.parent for e in self.all if e.relation not in (R.LINK_END, R.SAME_GROUP)}
        self.force = [e for e in self.all if self._decides(e)]
        self.links = [e for e in self.force if e.relation is R.LINK_END]
        self.single = [e for e in self.force if e.relation not in (R.LINK_END, R.SAME_GROUP) and self._wins(e)]
        self.raw: set[tuple[Name, Relation, Name]] = {(e.child, e.relation, e.parent) for e in self.single}
        names = {n for e in self.all for n in (e.child, e.parent)}
        for _ in range(2):
            names |= {p for n in names if (p := self.implied(n))}
        self.names = names
        asked = names.union(NAMES)
        by_name = {(n, R.PART_OF, p) for n in asked if (p := self.implied(n))}
        linked = {(a, R.ATTACHED_TO, b) for n in asked for a, b in self.attached(n)}
        everything = {(c, p) for c, r, p in self.raw | by_name | linked if r in CONTAINMENT}
        reach = self._closure(everything)
        self.kept = {
            (c, r, p) for c, r, p in self.raw if r not in CONTAINMENT or not ((c, p) in reach and (p, c) in reach)
        }
        self.ups = self.kept | linked | {(c, r, p) for c, r, p in by_name if not self._redundant(c)}

    @staticmethod
    def _ordered(e: Edge) -> Edge:
        if e.relation in (R.LINK_END, R.SAME_GROUP) and e.parent < e.child:
            return edge(e.parent, e.relation, e.child, e.from_ms, e.to_ms, e.seen_ms, e.source)
        return e

    @staticmethod
    def _word(e: Edge) -> tuple[bool, float, float]:
        begin = float("-inf") if e.from_ms is None else e.from_ms
        return (
            not e.source.startswith("inventory"),
            max(begin, float("-inf") if e.seen_ms is None else e.seen_ms),
            begin,
        )

    def _begun(self, e: Edge) -> bool:
        return e.from_ms is None or e.from_ms <= self.at_ms

    def _decides(self, e: Edge) -> bool:
        """Whether `e` is the last word on its edge and holds."""
        same = [x for x in self.all if (x.child, x.relation, x.parent) == (e.child, e.relation, e.parent)]
        begun = [x for x in same if self._begun(x)]
        if not begun:
            return False
        last = max(self._word(x) for x in begun)
        final = min(
            (x for x in begun if self._word(x) == last), key=lambda x: float("inf") if x.to_ms is None else x.to_ms
        )
        return final == e and (e.to_ms is None or self.at_ms < e.to_ms)

    def _wins(self, e: Edge) -> bool:
        kind = kind_of(e.parent)
        only_one = (e.relation is R.PART_OF and kind is not Kind.COHORT) or (
            e.relation is R.ATTACHED_TO and kind_of(e.child) in (Kind.PORT, Kind.OPTIC)
        )
        rivals = [
            x
            for x in self.force
            if x.child == e.child and x.relation is e.relation and kind_of(x.parent) is kind and x.parent != e.parent
        ]
        return not only_one or all(self._word(x) < self._word(e) for x in rivals)

    def implied(self, component: Name) -> Name | None:
        kind, parts = kind_of(component), parts_of(component)
        scoped = {"accelerator", "nic", "port", "optic", "pcie", "fabric"}
        if kind not in scoped or (kind == "fabric" and len(parts) == 1 and component in self.fabrics):
            return None
        if kind == "optic" and len(parts) > 1:
            return "port:" + "/".join(parts)
        return f"switch:{parts[0]}" if f"switch:{parts[0]}" in self.switches else f"host:{parts[0]}"

    def other_end(self, port: Name) -> Name | None:
        def best(end: Name) -> Name | None:
            mine = [e for e in self.links if end in (e.child, e.parent)]
            last = max(map(self._word, mine), default=None)
            others = {e.parent if e.child == end else e.child for e in mine if self._word(e) == last}
            return others.pop() if len(others) == 1 else None

        other = best(port)
        return other if other and best(other) == port else None

    def owner(self, port: Name) -> Name | None:
        told = sorted(p for c, r, p in self.raw if c == port and r is R.PART_OF and p.startswith(("host:", "switch:")))
        return told[0] if told else self.implied(port)

    def attached(self, component: Name) -> list[tuple[Name, Name]]:
        found = []
        ends = {n for e in self.links for n in (e.child, e.parent)}
        for port in ends:
            owner, other = self.owner(port), self.other_end(port)
            far = self.owner(other) if other else None
            joined = owner and owner.startswith("host:") and far and far.startswith("switch:")
            if joined and far and (component == owner or (component == port and port.startswith("port:"))):
                found.append((component, far))
        return found

    def _redundant(self, component: Name) -> bool:
        inside = [p for c, r, p in self.kept if c == component and r is R.PART_OF]
        if component.startswith("optic:"):
            return any(p.startswith("port:") for p in inside)
        own = parts_of(component)[0]
        return any(p.startswith(("host:", "switch:")) or ("/" in p and parts_of(p)[0] == own) for p in inside)

    @staticmethod
    def _closure(pairs: set[tuple[Name, Name]]) -> set[tuple[Name, Name]]:
        reach = set(pairs)
        while True:
            more = {(a, d) for a, b in reach for c, d in reach if b == c} - reach
            if not more:
                return reach
            reach |= more

    def parents(self, component: Name) -> set[Name]:
        return {p for c, r, p in self.ups if c == component and r in CONTAINMENT}

    def ancestors(self, component: Name) -> set[Name]:
        found: set[Name] = set()
        waiting = [component]
        while waiting:
            for parent in self.parents(waiting.pop()):
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found


NAMES = [
    "host:h1", "host:h2", "accelerator:h1/0", "port:h1/n/1", "port:h2/n/1", "port:s1/1", "port:s1/2", "switch:s1",
    "switch:s2", "rack:r1", "rack:r2", "pdu:p1", "optic:s1/1", "fabric:b1", "fabric:h1/b", "cohort:c1", "nic:h1/0",
]  # fmt: skip
times = st.none() | st.integers(0, 4)
tellers = st.sampled_from(["", "inventory", "inventory:b.csv", "lldp"])
edges = st.lists(
    st.builds(
        edge,
        st.sampled_from(NAMES),
        st.sampled_from(list(Relation)),
        st.sampled_from(NAMES),
        times,
        times,
        times,
        tellers,
    ),
    max_size=12,
)
plausible = st.lists(
    st.builds(
        lambda pair, start, end, seen, source: edge(pair[0], pair[1], pair[2], start, end, seen, source),
        st.sampled_from(
            [
                ("port:h1/n/1", R.LINK_END, "port:s1/1"),
                ("port:s1/1", R.LINK_END, "port:h2/n/1"),
                ("port:h2/n/1", R.LINK_END, "port:s1/2"),
                ("port:s1/1", R.PART_OF, "switch:s1"),
                ("port:s1/2", R.PART_OF, "switch:s2"),
                ("port:h1/n/1", R.PART_OF, "nic:h1/0"),
                ("switch:s1", R.ATTACHED_TO, "switch:s2"),
                ("switch:s2", R.ATTACHED_TO, "switch:s1"),
                ("host:h1", R.PART_OF, "rack:r1"),
                ("host:h1", R.PART_OF, "rack:r2"),
                ("rack:r1", R.POWERED_BY, "pdu:p1"),
                ("host:h1", R.PART_OF, "fabric:b1"),
            ]
        ),
        times,
        times,
        times,
        tellers,
    ),
    max_size=12,
)


def agree(view: View, naive: Naive) -> None:
    for component in NAMES:
        assert set(view.parents(component)) == naive.parents(component), component
        ancestors = view.ancestors(component)
        assert set(ancestors) == naive.ancestors(component), component
        assert len(set(ancestors)) == len(ancestors)
        assert view.other_end(component) == naive.other_end(component)
        for place, parent in enumerate(ancestors):  # what lies between two others stands between them
            assert not set(ancestors[place:]) & (set(view.descendants(parent)) - {component})
        below = {c for c in naive.names if component in naive.ancestors(c)}
        assert set(view.descendants(component)) == below, component
        hosts = {parts_of(c)[0] for c in below | {component} if c.startswith("host:")}
        if not component.startswith(("accelerator:", "port:", "nic:", "optic:")):
            assert set(view.hosts_under(component)) <= hosts
    shared = dict(view.shared_parents(NAMES, 2))
    counts = {p: sum(p in naive.ancestors(c) for c in NAMES) for c in NAMES for p in naive.ancestors(c)}
    assert shared == {p: n for p, n in counts.items() if n >= 2}


@pytest.mark.slow
@given(edges | plausible, times)
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_its_naive_twin(told: list[Edge], at_ms: int | None) -> None:
    agree(Topology(told).at(at_ms), Naive(told, at_ms))


@given(edges | plausible, st.randoms(use_true_random=False), times)
@settings(max_examples=100, deadline=None)
def test_order_and_batches_change_nothing(told: list[Edge], random: object, at_ms: int | None) -> None:
    shuffled = list(told)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    whole, parts = Topology(told), Topology()
    for one in shuffled:
        parts = parts.add([one])
    assert (whole.components, whole.links) == (parts.components, parts.links)
    assert sorted(c.what for c in whole.conflicts) == sorted(c.what for c in parts.conflicts)
    for component in NAMES:
        assert whole.at(at_ms).ancestors(component) == parts.at(at_ms).ancestors(component)
        assert whole.at(at_ms).children(component) == parts.at(at_ms).children(component)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.lists(st.integers(-5, 5), min_size=2, max_size=2))
def test_a_view_stays_right_while_many_moments_are_asked_for(hosts: list[str], moments: list[int]) -> None:
    topology = Topology([edge("host:h", R.PART_OF, f"rack:{n}{host}", n, n + 2) for n, host in enumerate(hosts)])
    for moment in (*moments, *range(-3, 12), *moments):
        assert topology.at(moment).parents("host:h") == Topology(topology).at(moment).parents("host:h")


@pytest.mark.slow
def test_a_hundred_thousand_edges_are_indexed_and_asked() -> None:
    hosts = range(6_250)
    told = [edge(f"host:h{n}", R.POWERED_BY, f"pdu:{n // 8}") for n in hosts]
    told += [
        edge(f"port:s{n // 32}-{r}/{n % 32}", R.PART_OF, f"switch:s{n // 32}-{r}") for n in hosts for r in range(8)
    ]
    told += [
        edge(f"port:h{n}/n{r}/1", R.LINK_END, f"port:s{n // 32}-{r}/{n % 32}", seen=n) for n in hosts for r in range(8)
    ]
    told += [edge(f"switch:s{n}-{r}", R.ATTACHED_TO, f"switch:x{r}") for n in range(196) for r in range(8)]
    view = Topology(told).at(5)
    cards = [f"accelerator:h{n}/{r}" for n, r in itertools.product(hosts, range(8))]
    shared = dict(view.shared_parents(cards, 1_000))
    assert shared == {f"switch:x{r}": 50_000 for r in range(8)}
    assert len(view.hosts_under("switch:x3")) == 6_250
