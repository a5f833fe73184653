"""Readable names of a scenario file (h17, h17/3, leaf-2, job-1, pdu-1) and what they are in the cluster that was built.

h17                     a host; h17/3: its card 3, counted from 0
h17/3:port              of that card: port, switch_port, optic, far_optic, module, nic, pcie, link
leaf-2 pdu-1 cdu-1 mgmt-1   the second leaf; the unit of the first rack, counted from 1
job-1                   the first job
storage:scratch-MDT0002 any other component, word by word; {h17} stands for the host's real name
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from simulator.parts import facility
from simulator.parts.cables import HOST, LEAF, optic, serial
from simulator.parts.cluster import Card, Cluster
from simulator.parts.targets import link_of
from simulator.workload.run import Job

_CARD = re.compile(r"([^/:]+)/(\d{1,3})(?::([a-z_]+))?")
_UNIT = re.compile(r"(leaf|pdu|cdu|mgmt|job)-(\d{1,6})")
_RANGE = re.compile(r"([a-z][a-z-]*)(\d{1,6})-(?:[a-z][a-z-]*)?(\d{1,6})")
_REAL = re.compile(r"\{([^{}]{1,60})\}")
MOST_HOSTS = 100_000
PARTS: Mapping[str, Callable[[Card], Name]] = {
    "port": lambda card: card.port,
    "switch_port": lambda card: card.switch_port,
    "optic": lambda card: optic(card, HOST),
    "far_optic": lambda card: optic(card, LEAF),
    "nic": lambda card: name(Kind.NIC, card.host, card.nic_pci),
    "pcie": lambda card: name(Kind.PCIE, card.host, card.root_pci),
    "pcie_end": lambda card: name(Kind.PCIE, card.host, f"{card.pci}.0"),
    "link": link_of,
}


def hosts_in(told: str | int | Sequence[str]) -> tuple[str, ...]:
    """Names of hosts: a number (h1, h2, ...), a range (h15-h20), or several with commas. Raises ValueError."""
    if isinstance(told, int):
        if not 0 < told <= MOST_HOSTS:
            raise ValueError(f"hosts: {told} is not 1 to {MOST_HOSTS}")
        return tuple(f"h{place + 1}" for place in range(told))
    words = told.split(",") if isinstance(told, str) else told
    return tuple(host for word in words for host in _range(word.strip()))


def _range(word: str) -> Iterator[str]:
    match = _RANGE.fullmatch(word)
    if not match:
        yield word
        return
    first, last = int(match[2]), int(match[3])
    if not first <= last <= first + MOST_HOSTS:
        raise ValueError(f"hosts: {word} is not a range")
    yield from (f"{match[1]}{number}" for number in range(first, last + 1))


@dataclass(frozen=True)
class Places:
    """Of one scenario: `hosts` as the file calls them, in the cluster's order."""

    hosts: tuple[str, ...]
    cluster: Cluster
    jobs: tuple[Job, ...] = ()
    feeds: int = 1

    def host(self, word: str) -> str:
        """The host's real name. Raises ValueError."""
        if word not in self.hosts:
            raise ValueError(f"no such host: {word}; one of {_some(self.hosts)}")
        return self.cluster.hosts[self.hosts.index(word)]

    def card(self, word: str) -> Card:
        """The card. Raises ValueError."""
        match = _CARD.fullmatch(word)
        if not match or int(match[2]) >= self.cluster.per_host:
            raise ValueError(f"no such card: {word}; written {self.hosts[0]}/0 to /{self.cluster.per_host - 1}")
        return self.cluster.of(self.host(match[1]))[int(match[2])]

    def component(self, word: str) -> Name:
        """The component's real name. Raises ValueError."""
        if match := _UNIT.fullmatch(word):
            return self._unit(match[1], int(match[2]), word)
        if match := _CARD.fullmatch(word):
            card, part = self.card(f"{match[1]}/{match[2]}"), match[3]
            if part == "module":
                return name(Kind.OPTIC, card.leaf, serial(self.cluster, card, LEAF))
            if part and part not in PARTS:
                raise ValueError(f"{word}: no such part; one of module, {', '.join(PARTS)}")
            return PARTS[part](card) if part else card.component
        if ":" in word:
            return self.text(word)
        return name(Kind.HOST, self.host(word))

    def text(self, text: str) -> str:
        """The text with the real name of each {h17}, {h17/3:pci} (serial, uuid, pci, port, leaf_port, address), ..."""
        return _REAL.sub(lambda match: self._value(match[1]), text)

    def leaf(self, word: str) -> str:
        """The real name of a leaf. Raises ValueError."""
        return self.component(word).partition(":")[2]

    def job(self, word: str) -> Job:
        """The job. Raises ValueError."""
        match = _UNIT.fullmatch(word)
        if not match or match[1] != "job" or not 0 < int(match[2]) <= len(self.jobs):
            raise ValueError(f"no such job: {word}; job-1 to job-{len(self.jobs)}")
        return self.jobs[int(match[2]) - 1]

    def group(self, words: Iterable[str]) -> frozenset[Name]:
        """Components; `h1-h8` is a range of hosts, `cards` all cards, `hosts` all hosts, `leaves`, `jobs`."""
        found: set[Name] = set()
        every = {
            "hosts": [name(Kind.HOST, host) for host in self.cluster.hosts],
            "cards": self.cluster.components,
            "leaves": [name(Kind.SWITCH, leaf) for leaf in self.cluster.leaves],
            "jobs": [name(Kind.JOB, job.id) for job in self.jobs],
        }
        for word in words:
            if word in every:
                found |= set(every[word])
            elif _RANGE.fullmatch(word):
                found |= {self.component(host) for host in _range(word)}
            else:
                found.add(self.component(word))
        return frozenset(found)

    def _unit(self, kind: str, number: int, word: str) -> Name:
        if kind == "job":
            return name(Kind.JOB, self.job(word).id)
        fed = list(facility.feeds(self.cluster, self.feeds).values())
        known = {
            "leaf": [name(Kind.SWITCH, leaf) for leaf in self.cluster.leaves],
            "pdu": [pdu for one in fed for pdu in one.pdus],
            "cdu": list(dict.fromkeys(one.cdu for one in fed)),
            "mgmt": [one.manager for one in fed],
        }[kind]
        if not 0 < number <= len(known):
            raise ValueError(f"no such {kind}: {word}; {kind}-1 to {kind}-{len(known)}")
        return known[number - 1]

    def _value(self, word: str) -> str:
        """What stands for one {word} of a text."""
        if match := _CARD.fullmatch(word):
            card, what = self.card(f"{match[1]}/{match[2]}"), match[3] or "pci"
            values = (
                "pci",
                "nic_pci",
                "root_pci",
                "serial",
                "uuid",
                "interface",
                "rdma",
                "leaf_port",
                "leaf",
                "address",
            )
            if what not in values:
                raise ValueError(f"{word}: no such value; one of {', '.join(values)}")
            return str(getattr(card, what))
        if _UNIT.fullmatch(word):
            return self.component(word).partition(":")[2]
        return self.host(word)


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:6]) + (" ..." if len(words) > 6 else "")
