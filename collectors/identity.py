"""Who is who: which host an input speaks of, and one name for each device whatever its sources call it.

All inputs are read for identities before anything is named. An unknown host is never shared by two inputs, and an
address is never invented: a device keeps the name that its source gave where nothing joins it to another.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from collectors.formats.reading import Reading
from collectors.inputs.gather import Gathered
from collectors.port_names import PortNames
from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, part, placed
from sickbay.messages import Edge, Event, Identity, Placement
from sickbay.schema import Samples

MAX_CARDS = 4096  # identities of one host that are joined: no host has more
MAX_STAND_IN = 100  # characters of a path that may stand in for a host
MAX_PIECE = 255  # characters of one file name: no system has longer ones
MAX_WORDS = 64  # of one file name: a name of nothing but signs
MAX_MATES = 16  # rows of one host that claim the same token: more contradict each other anyway
_ALNUM = re.compile(r"[^\W_]")
_SERIAL = re.compile(r"(?=.*[1-9])[0-9A-Za-z-]{6,64}$")


def told_host(text: str) -> str:
    """A host as an input tells it, fit for names: one piece, never one of our own stand-ins, "" where it is none."""
    host = part(text).replace("/", "_")
    return "" if host in ("", UNKNOWN) else f"_{host[1:]}" if host.startswith("~") else host


def hosts_told(inputs: Iterable[Gathered]) -> set[str]:
    """All hosts that some input names by itself."""
    told = {host for found in inputs for reading in found.readings for host in _hosts_of(reading)}
    return {host for name in told if (host := told_host(name))}


def _hosts_of(reading: Reading) -> Iterable[str]:
    yield reading.host
    record = reading.record
    if isinstance(record, Identity):
        yield record.host
    elif isinstance(record, Placement):
        yield from (*record.hosts, *(rank.host for rank in record.ranks))
    elif isinstance(record, Edge):
        yield from (host for end in (record.child, record.parent) if (host := _host(end)))
    elif isinstance(record, Event) and (host := _host(record.component)):
        yield host
    elif isinstance(record, Samples):
        yield from {host for component in set(record.component) if (host := _host(component))}


def _host(component: Name) -> str:
    try:
        return host_of(component) or "" if kind_of(component) is not Kind.SWITCH else ""
    except ValueError:
        return ""


def host_of_path(path: str, known: set[str]) -> str | None:
    """The known host that a file or folder name names, the innermost first, the longest name first."""
    for piece in reversed(re.split(r"[/!]+", path)):
        fits = [word for word in _words(piece[-MAX_PIECE:]) if word in known]
        if fits:
            return max(fits, key=lambda host: (len(host), host))
    return None


def _words(piece: str) -> Iterator[str]:
    """All parts of a file name that no letter or digit continues: `h1-ib.log` holds `h1`, `h1-ib`, not `h`."""
    inside = [bool(_ALNUM.match(mark)) for mark in piece]
    starts = [at for at in range(len(piece)) if at == 0 or not inside[at - 1]]
    ends = [at for at in range(1, len(piece) + 1) if at == len(piece) or not inside[at]]
    return (piece[start:end] for start in starts[:MAX_WORDS] for end in ends[-MAX_WORDS:] if start < end)


def host_for(found: Gathered, known: set[str], given: str | None) -> str:
    """Whom the lines of an input speak of where they do not say: `--host`, else the path, else `~` + the path."""
    return part(given) if given else host_of_path(found.path, known) or stand_in(found.path)


def stand_in(path: str) -> str:
    """The stand-in for an unknown host or job: `~` + the path, in one piece and short enough for a name."""
    text = part(path).replace("/", "_")
    if len(text) > MAX_STAND_IN:
        text = hashlib.sha256(path.encode(errors="replace")).hexdigest()[:8] + "_" + text[-MAX_STAND_IN:]
    return f"~{text}"


class Names:
    """One name for each component. Made from all inputs' identities; `canonical` is then a pure look-up."""

    def __init__(self, identities: Iterable[Identity]) -> None:
        told = list(identities)
        self.ports = PortNames(told)
        cards = [row for row in told if row.kind == Kind.ACCELERATOR]
        self._stable: dict[tuple[str, str], str] = {}  # (host, any token) -> the most stable token
        self._home: defaultdict[str, set[str]] = defaultdict(set)  # uuid or serial -> hosts
        self._told: dict[Name, Identity] = {}
        for host, group in _by_host(cards).items():
            for card in _joined(group):
                self._learn(host, card)

    def _learn(self, host: str, card: Identity) -> None:
        stable = part(card.pci or card.uuid or card.index)
        if not stable:
            return
        self._told[f"{Kind.ACCELERATOR}:{host}/{stable}"] = card
        for token in _tokens(card):
            known = self._stable.setdefault((host, token), stable)
            if known != stable:
                self._stable[host, token] = token  # two cards claim it: it names neither
        for token in (card.uuid, card.serial):
            if token:
                self._home[part(token)].add(host)

    def identity(self, component: Name) -> Identity | None:
        """What is known of an accelerator by its canonical name."""
        return self._told.get(component)

    def canonical(self, component: Name, host: str, job: str = UNKNOWN) -> Name:
        """The component's one name; `host` and `job` stand in where it does not tell its own."""
        kind, _, rest = component.partition(":")
        if kind != Kind.ACCELERATOR:
            return self.ports.canonical(placed(component, host, job))
        owner, slash, token = rest.partition("/")
        if owner == UNKNOWN:
            homes = self._home.get(token, set()) - {UNKNOWN}
            owner = next(iter(homes)) if len(homes) == 1 else host
        return f"{kind}:{owner}{slash}{self._stable.get((owner, token), token)}"


def _by_host(cards: Iterable[Identity]) -> dict[str, list[Identity]]:
    grouped: defaultdict[str, list[Identity]] = defaultdict(list)
    for card in cards:
        grouped[part(card.host)].append(card)
    return grouped


def _tokens(card: Identity) -> list[str]:
    serial = card.serial if _SERIAL.match(card.serial) else ""  # "N/A" and the like are no device's
    return [part(token) for token in (card.index, card.pci, card.uuid, serial, card.name) if token]


def _joined(cards: Iterable[Identity]) -> list[Identity]:
    """The cards of one host, partial rows joined over a name they share; rows that contradict each other stay apart."""
    rows: dict[int, Identity] = {}
    sharing: defaultdict[str, list[int]] = defaultdict(list)  # token -> places of rows, also of rows joined since
    for place, card in enumerate(cards):
        places = {at for token in _tokens(card) for at in sharing[token] if at in rows}
        mates = {at: rows[at] for at in sorted(places)}
        if card in mates.values():
            continue
        merged = _merged_with(mates.values(), card)
        if merged is None:
            mates, merged = {}, card
        if merged in mates.values() or len(rows) - len(mates) >= MAX_CARDS:
            continue
        for at in mates:
            del rows[at]
        rows[place] = merged
        for token in _tokens(merged):
            sharing[token] = [*[at for at in sharing[token] if at in rows][: MAX_MATES - 1], place]
    return list(rows.values())


def _merged_with(mates: Iterable[Identity], card: Identity) -> Identity | None:
    merged: Identity | None = card
    for mate in mates:
        merged = merged and _merged(mate, merged)
    return merged


def _merged(old: Identity, new: Identity) -> Identity | None:
    """Both in one row, None where they contradict each other."""
    fields: dict[str, str] = {}
    for field in Identity.__struct_fields__:
        told = {value for value in (getattr(old, field), getattr(new, field)) if value}
        if len(told) > 1 and field in ("index", "pci", "uuid"):
            return None
        fields[field] = getattr(new, field) or getattr(old, field)
    return Identity(**fields)


def addresses(identities: Iterable[Identity]) -> dict[str, str]:
    """Address -> host, where sources say that a host answers there and just one does."""
    told: defaultdict[str, set[str]] = defaultdict(set)
    for row in identities:
        if row.kind == Kind.HOST and row.name and row.host != UNKNOWN:
            told[part(row.name)].add(part(row.host))
    return {address: next(iter(hosts)) for address, hosts in told.items() if len(hosts) == 1}


def short_names(hosts: Iterable[str]) -> dict[str, str]:
    """`host.example.com` -> `host` for every full name whose first label is a known host, or unique among the hosts."""
    known = set(hosts)
    by_label: defaultdict[str, set[str]] = defaultdict(set)
    for host in known:
        if "." in host and not re.fullmatch(r"[\d.]+", host):
            by_label[host.partition(".")[0]].add(host)
    return {full: label for label, fulls in by_label.items() if len(fulls) == 1 and label in known for full in fulls}
