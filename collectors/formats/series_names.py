"""Which component a series speaks of: labels in, names out, with what one input teaches about its own names."""

import re
from dataclasses import dataclass, field
from functools import cache

from collectors.formats.metric_names import Metric, Source, Target, sources
from sickbay import components
from sickbay.components import UNKNOWN, Kind, Name
from sickbay.messages import Identity, Placement

# Labels that tell the host, best first; `instance` (host:port) only where none of them is there.
HOST_LABELS = ("Hostname", "hostname", "nodename", "node", "node_name", "kubernetes_node", "host")
JOB_LABEL = "hpc_job"  # the batch job on the card, as dcgm-exporter adds it from its job mapping directory
MAX_JOBS = 10_000
STILL_MS = 180_000  # a job last seen so shortly before the end still runs: a few scrapes
_JOB = re.compile(r"[0-9A-Za-z][\w.+-]{0,63}", re.ASCII)
MAX_IDENTITIES = 200_000  # what one input may make us remember
# Interfaces that carry no fabric traffic: a container's end that goes down is no fault.
_VIRTUAL = re.compile(r"lo$|veth|cali|docker|br-|virbr|tun|tap|cni|flannel|lxc|kube|dummy|ifb|nodelocaldns|vnet|podman")
_INSTANCE = re.compile(r"(?:https?://)?(\[[0-9A-Fa-f:.]{2,45}\]|[^/:\[\]\s]{1,253})(?::(\d{1,5}))?(?:/|$)")
_HERE = re.compile(r"localhost$|localhost\.|127\.|::1$|0\.0\.0\.0$")


def fits(metric: Metric, labels: dict[str, str]) -> bool:
    """Whether the series has the labels that its row asks for."""
    return not metric.where or all(labels.get(key, wanted) == wanted for key, wanted in metric.where.items())


def is_slice(source: Source, labels: dict[str, str]) -> bool:
    """Whether the series speaks of a part of a device only: its values are not the device's."""
    marks = (labels.get(label, "") for label in source.partition)
    return any(mark and mark not in source.whole for mark in marks)


def is_virtual(device: str) -> bool:
    """Whether an interface belongs to a container, a tunnel or the host itself: no fabric hangs on it."""
    return bool(_VIRTUAL.match(device))


def instance_host(instance: str) -> str:
    """The host of an `instance` label, "" where there is none or where it only says "here"."""
    match = _INSTANCE.match(instance)
    host = match.group(1).strip("[]") if match else ""
    return "" if _HERE.match(host) else host


def job_of(labels: dict[str, str]) -> str:
    """The job that a series says runs on its device, "" where none is told."""
    told = labels.get(JOB_LABEL, "")
    return told if _JOB.fullmatch(told) and told.strip("0") else ""


@dataclass(slots=True)
class Jobs:
    """When jobs were seen on which hosts, as labels of series tell it: placement without a scheduler."""

    hosts: dict[str, dict[str, None]] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)  # job -> first and last time, ms
    first_ms: int = 2**62
    last_ms: int = 0

    def see(self, labels: dict[str, str], host: str, first_ms: int, last_ms: int) -> None:
        """One series of a device on a host, with a sample at both times."""
        self.first_ms, self.last_ms = min(self.first_ms, first_ms), max(self.last_ms, last_ms)
        job = job_of(labels)
        if not job or host == UNKNOWN or (job not in self.seen and len(self.seen) >= MAX_JOBS):
            return
        begin, end = self.seen.get(job, (first_ms, last_ms))
        self.seen[job] = min(begin, first_ms), max(end, last_ms)
        self.hosts.setdefault(job, {})[host] = None

    def placements(self) -> list[Placement]:
        """One of each job; open where the job was seen to the end. A moment tells no beginning and no end: none."""
        if self.last_ms - self.first_ms <= STILL_MS:
            return []
        return [
            Placement(
                job=job,
                hosts=tuple(self.hosts[job]),
                from_ms=begin,
                to_ms=end + 1 if end < self.last_ms - STILL_MS else None,
                state="running",
            )
            for job, (begin, end) in sorted(self.seen.items())
        ]


@dataclass(slots=True)
class Names:
    """Names of one input's components. It learns which names belong together as series pass; hold one an input."""

    host_of: dict[str, str] = field(default_factory=dict)  # instance, or its address alone; "" once two hosts share it
    up_of: dict[tuple[str, str], str] = field(default_factory=dict)  # (job, instance) -> column of its `up`
    pci_of_uuid: dict[tuple[str, str], str] = field(default_factory=dict)
    told: set[tuple[str, ...]] = field(default_factory=set)

    def learn(self, target: Target | None, labels: dict[str, str]) -> list[Identity]:
        """Identities that this series tells and no earlier one did."""
        instance, host = labels.get("instance", ""), _told_host(labels)
        for name in (instance, f"/{instance_host(instance)}") if host and instance_host(instance) else ():
            if len(self.host_of) < MAX_IDENTITIES and self.host_of.setdefault(name, host) != host:
                self.host_of[name] = ""
        if target is None:
            return self._new(self._interface(labels)) if "bus_info" in labels else self._new(_alias(labels))
        if len(self.up_of) < MAX_IDENTITIES:
            self.up_of.setdefault((labels.get("job", ""), instance), _up_column(target.source))
        return self._new(_alias(labels), self._device(target.source, labels))

    def host(self, labels: dict[str, str]) -> str:
        """The host of a series, `?` where nothing tells it."""
        instance = labels.get("instance", "")
        address = instance_host(instance)
        learnt = self.host_of.get(instance)
        if learnt is None:
            learnt = self.host_of.get(f"/{address}", address)
        # Two hosts behind one instance: a proxy, whose address is neither's name.
        return _told_host(labels) or learnt or UNKNOWN

    def component(self, target: Target, labels: dict[str, str]) -> Name | None:
        """The component a series speaks of, None where its labels do not name one that we follow."""
        source, host = target.source, self.host(labels)
        if source.table == "host":
            return components.name(Kind.HOST, host)
        if source.port:
            parts = [_first(labels, tuple(label.split("|"))) for label in source.port]
            return components.name(Kind.PORT, host, *parts) if all(parts) and not is_virtual(parts[0]) else None
        unit = self._unit(source, labels, host)
        parts = [unit, target.part] if target.part else [unit]
        return components.name(Kind(source.table), host, *parts) if unit else None

    def up_column(self, labels: dict[str, str]) -> str | None:
        """Which column of the host the `up` of this scrape job is; None for exporters that are none of ours."""
        job, instance = labels.get("job", ""), labels.get("instance", "")
        return self.up_of.get((job, instance)) or _column_of_port(instance) or _column_of_job(job.lower())

    def _unit(self, source: Source, labels: dict[str, str], host: str) -> str:
        """A device's most stable name: PCI address, else UUID, else index, else serial number."""
        uuid = _first(labels, source.uuid)
        pci = components.pci_address(_first(labels, source.pci)) or self.pci_of_uuid.get((host, uuid), "")
        return pci or uuid or _first(labels, source.index) or _first(labels, source.serial)

    def _device(self, source: Source, labels: dict[str, str]) -> Identity | None:
        if source.table != "accelerator":
            return None
        host, uuid = self.host(labels), _first(labels, source.uuid)
        pci = components.pci_address(_first(labels, source.pci)) or ""
        if pci and uuid and len(self.pci_of_uuid) < MAX_IDENTITIES:
            self.pci_of_uuid[host, uuid] = pci
        index, serial = _first(labels, source.index), _first(labels, source.serial)
        if sum(map(bool, (pci, uuid, index, serial))) < 2:
            return None
        device, model = _first(labels, source.device), _first(labels, source.model)
        return Identity(host=host, index=index, pci=pci, uuid=uuid, serial=serial, name=device, model=model)

    def _interface(self, labels: dict[str, str]) -> Identity | None:
        pci = components.pci_address(labels.get("bus_info", ""), function=True)
        device = labels.get("device", "")
        return Identity(host=self.host(labels), kind="nic", pci=pci, name=device) if pci and device else None

    def _new(self, *identities: Identity | None) -> list[Identity]:
        fresh = []
        for identity in identities:
            if identity is None or len(self.told) >= MAX_IDENTITIES:
                continue
            names = (identity.index, identity.pci, identity.uuid, identity.serial, identity.name)
            key = (identity.kind, identity.host, *names)
            if key not in self.told:
                self.told.add(key)
                fresh.append(identity)
        return fresh


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name][:128] for name in names if labels.get(name)), "")


def _told_host(labels: dict[str, str]) -> str:
    """The host that labels name themselves. An exporter in a container may take its pod's name for a host's."""
    pod = labels.get("pod")
    told = (labels[name][:128] for name in HOST_LABELS if labels.get(name) and labels[name] != pod)
    return next((host for host in told if not _HERE.match(host)), "")


def _alias(labels: dict[str, str]) -> Identity | None:
    """A host and the other name that its scrape job knows it by."""
    host, other = _told_host(labels), instance_host(labels.get("instance", ""))
    return Identity(host=host, kind="host", name=other) if host and other and host != other else None


def _up_column(source: Source) -> str:
    return "accelerator_source_up" if source.of_accelerators else "up"


@cache
def _job_words() -> tuple[tuple[str, str], ...]:
    return tuple((word, _up_column(source)) for source in sources().values() for word in source.jobs)


def _column_of_job(job: str) -> str | None:
    columns = {column for word, column in _job_words() if word in job}
    # "gpu-node-exporter" says both: then only the port or the series can tell.
    return columns.pop() if len(columns) == 1 else None


def _column_of_port(instance: str) -> str | None:
    match = _INSTANCE.match(instance)
    port = int(match.group(2)) if match and match.group(2) else 0
    return next((_up_column(source) for source in sources().values() if port and port in source.ports), None)
