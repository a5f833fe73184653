"""Storage: one client that lost its server, or a target that several clients name in the same minute.

Several clients accuse the target and clear each other. One client alone is the client: that its server names it too,
by an address of the network, makes no second one. Tasks stuck on several hosts at once, where none of them tells what
for and nothing is broken there, are one question about storage.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN, FAIR, GOOD, identity
from sickbay.components import HOST_SCOPED, UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Event, Evidence, Severity, replace

NAME, VERSION = "storage_stall", "2"

KINDS = frozenset(
    {
        "filesystem.client_evicted", "filesystem.connection_lost", "filesystem.request_slow",
        "filesystem.server_silent", "filesystem.unmounted",
    }
)  # fmt: skip
TOGETHER_MS = 60_000  # [house] clients of one target notice within a minute: requests have time-outs of their own
SEVERAL = 3  # [house] clients that leave little doubt
BEFORE_MS = 300_000  # a stuck task is told two minutes or more after what holds it (mechanism 22)
GRAVE = (Severity.ERROR, Severity.FATAL)


def claims(case: Case) -> Iterable[Evidence]:
    """Claims about clients, about targets that several of them name, and about stuck tasks."""
    spoken = [
        e for e in case.events if e.kind in KINDS and e.severity is not Severity.INFO and "injected" not in e.attributes
    ]
    shared = list(_targets(spoken))
    # Undated words of a shared target's clients can be ordered by nothing: the target's own claim holds them all.
    held = {id(event) for _, together, _ in shared for event in together if event.at_ms is None}
    own = [event for event in _by_clients(spoken) if id(event) not in held]
    for burst in bursts(own):
        claim = build(burst, "storage_client", burst[0].component, detector=NAME, version=VERSION, says="client_lost")
        told: Evidence = replace(claim, peer=target_of(burst[0]))
        yield told
    for target, together, hosts in shared:
        yield from _for_jobs(_of_target(target, together, hosts), hosts, case)
    stuck = [event for event in case.events if event.kind == "host.task_stuck"]
    for burst in bursts(stuck):
        claim = build(burst, "host_tasks_stuck", burst[0].component, detector=NAME, version=VERSION, says="tasks_stuck")
        yield _with_peer(claim, target_of(burst[0]) or _target_named_by(claim, shared))
    yield from _questions(stuck, {host for _, _, hosts in shared for host in hosts}, case)


def target_of(event: Event) -> Name:
    """The storage target that an event names, empty where it names none."""
    if event.peer and kind_of(event.peer) is Kind.STORAGE:
        return event.peer
    told = event.attributes.get("target") or event.attributes.get("server") or ""
    return name(Kind.STORAGE, told) if told else ""


def _with_peer(claim: Evidence, peer: Name) -> Evidence:
    told: Evidence = replace(claim, peer=peer)
    return told


def _target_named_by(claim: Evidence, shared: list[tuple[Name, list[Event], list[str]]]) -> Name:
    """The shared target that undated lines of the same host name."""
    host = host_of(claim.component)
    undated = (target for target, together, hosts in shared if host in hosts and together[0].at_ms is None)
    return next(undated, "") if claim.onset_from_ms is None else ""


def _client(event: Event) -> str:
    known = host_of(event.component) or event.host
    return known if known and known != UNKNOWN else ""


def _by_server(event: Event) -> bool:
    return event.attributes.get("told_by") == "server"


def _by_clients(spoken: list[Event]) -> list[Event]:
    """Without the server's words about a client that speaks itself: they name it by its address."""
    heard = {target_of(event) for event in spoken if not _by_server(event)}
    return [event for event in spoken if not (_by_server(event) and target_of(event) in heard)]


def _targets(spoken: list[Event]) -> Iterator[tuple[Name, list[Event], list[str]]]:
    by_target: dict[Name, list[Event]] = defaultdict(list)
    for event in spoken:
        if target := target_of(event):
            by_target[target].append(event)
    for target in sorted(by_target):
        for together in _within(by_target[target]):
            own = sorted({host for event in together if not _by_server(event) and (host := _client(event))})
            named = sorted({host for event in together if _by_server(event) and (host := _client(event))})
            if max(len(own), len(named)) > 1:
                yield target, together, own or named


def _of_target(target: Name, together: list[Event], hosts: list[str]) -> Evidence:
    dated = together[0].at_ms is not None
    llr = CERTAIN if len(hosts) >= SEVERAL and dated else GOOD
    says = "clients_name_target" if dated else "clients_name_target_undated"
    claim = build(together, "storage_stall", target, detector=NAME, version=VERSION, says=says, llr=llr)
    facts = claim.facts | {"hosts": ", ".join(hosts), "clients": str(len(hosts)), "target": target}
    told: Evidence = replace(claim, facts=facts, peer="", severity=Severity.ERROR, advice=None)
    return told


def _for_jobs(claim: Evidence, hosts: list[str], case: Case) -> Iterator[Evidence]:
    """The claim, once for each job that runs on the hosts: what one storage fault means to each of them."""
    view = case.placements.at(claim.onset_from_ms)
    jobs = sorted({place.job for host in hosts for place in view.jobs_of(name(Kind.HOST, host))} - {"", UNKNOWN})
    for number, job in enumerate(jobs or [claim.job]):
        key = claim.id if number == 0 else identity(NAME, VERSION, claim.component, claim.fault, f"{claim.id}|{job}")
        told: Evidence = replace(claim, id=key, job=job)
        yield told


def _questions(stuck: list[Event], told: set[str], case: Case) -> Iterator[Evidence]:
    """One question for tasks that hang on several hosts at once, where neither a target nor a broken part is told."""
    silent = [event for event in stuck if not target_of(event) and _client(event) not in told]
    for together in _within([event for event in silent if event.at_ms is not None]):
        sound = [event for event in together if not _broken(_client(event), event.at_ms or 0, case)]
        hosts = sorted({host for event in sound if (host := _client(event))})
        if len(hosts) > 1:
            claim = build(
                sound, "storage_suspected", name(Kind.STORAGE, UNKNOWN),
                detector=NAME, version=VERSION, says="hosts_stuck_together", llr=FAIR,
            )  # fmt: skip
            facts = claim.facts | {"hosts": ", ".join(hosts), "clients": str(len(hosts))}
            asked: Evidence = replace(claim, facts=facts, peer="", advice=None)
            yield from _for_jobs(asked, hosts, case)


def _broken(host: str, at_ms: int, case: Case) -> bool:
    """A grave word of a part of the host shortly before: its tasks wait for that."""
    return any(
        event.severity in GRAVE
        and event.at_ms is not None
        and abs(event.at_ms - at_ms) <= BEFORE_MS
        and kind_of(event.component) in HOST_SCOPED
        and host_of(event.component) == host
        for event in case.events
    )


def _within(events: list[Event]) -> Iterator[list[Event]]:
    """Dated events with gaps of a minute at most. Those that no clock dates name one target, so they are one group:
    hosts share no clock since boot, but nobody asks which came first."""
    undated = sorted((e for e in events if e.at_ms is None), key=lambda e: (e.path, e.line, e.component))
    if undated:
        yield undated
    dated = sorted((e for e in events if e.at_ms is not None), key=lambda e: (e.at_ms, e.path, e.line, e.component))
    group: list[Event] = []
    for event in dated:
        if group and (event.at_ms or 0) - (group[-1].at_ms or 0) > TOGETHER_MS:
            yield group
            group = []
        group.append(event)
    if group:
        yield group
