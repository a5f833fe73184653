"""One port under one name, live and offline: kernel line, counters and cable of one port are one incident."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from diagnosis.engine import advance, diagnose
from sickbay import messages
from sickbay.app.answering.offline import Options, run
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.edges import log_key
from sickbay.log import Record
from sickbay.messages import AnyMessage, Edge, Event, Identity, Incident, Relation, Severity
from sickbay.schema import TABLES, Samples
from sickbay.topics import EVENTS, FEATURES, TOPOLOGY
from streams.feature_record import encode_frame as encode
from streams.windows import WIDTH_MS, features, join

NOW = 1_796_000_000_000
PORT = Identity(host="h17", kind="port", index="mlx5_0/1", name="enp25s0np0", pci="0000:19:00.0")
CABLE = Edge(child="port:h17/enp25s0np0", parent="port:leaf1/Ethernet4", relation=Relation.LINK_END, source="lldp")


def record(message: AnyMessage, key: str = "k", topic: str = TOPOLOGY) -> Record:
    return Record(topic, 0, 0, NOW, key.encode(), messages.encode(message))


def down(component: str, at_ms: int, path: str) -> Record:
    event = Event(
        component=component, kind="port.down", at_ms=at_ms, severity=Severity.ERROR, path=path, message="Link down"
    )
    return record(event, topic=EVENTS)


def told() -> Iterator[Record]:
    """The same loss, as the kernel's line, a job's log and the switch tell it, each by its own name of the port."""
    yield record(CABLE, log_key(CABLE))
    yield down("port:h17/enp25s0np0", NOW - 20_000, "kmsg")
    yield down("port:h17/mlx5_0/1", NOW - 19_500, "job.log")
    yield down("port:leaf1/Ethernet4", NOW - 20_000, "syslog")


def judged(horizon: Horizon) -> tuple[Incident, ...]:
    return diagnose(horizon.case(NOW))


@pytest.mark.parametrize("late", [False, True], ids=["told before", "told after"])
def test_live_one_port_is_one_incident_with_both_ends_of_its_link(late: bool) -> None:
    horizon = Horizon()
    for line in [*told(), record(PORT)] if late else [record(PORT), *told()]:
        horizon.take(line)
        if late:
            judged(horizon)  # looks in between change nothing
    (one,) = judged(horizon)
    assert (one.component, one.fault) == ("port:h17/mlx5_0/1", "link_down")  # one loss, however many tell of it
    assert {each.component for each in one.suspects} == {"port:h17/mlx5_0/1", "port:leaf1/Ethernet4"}
    assert horizon.topology.at(None).other_end("port:leaf1/Ethernet4") == "port:h17/mlx5_0/1"


def test_live_incidents_of_two_names_become_one_when_the_names_turn_out_to_be_one_port_s() -> None:
    horizon, incidents = Horizon(), tuple[Incident, ...]()
    for line in told():
        horizon.take(line)
        incidents = advance(incidents, horizon.case(NOW))
    assert [one.state for one in incidents] == ["open", "open"]
    horizon.take(record(PORT))
    incidents = advance(incidents, horizon.case(NOW + 1_000))
    assert sorted(one.state for one in incidents) == ["merged", "open"]
    (one,) = (one for one in incidents if one.state == "open")
    assert (one.component, one.fault) == ("port:h17/mlx5_0/1", "link_down")
    assert {claim.component for claim in one.evidence} == {"port:h17/mlx5_0/1", "port:leaf1/Ethernet4"}


def test_live_a_second_loss_of_one_port_under_its_other_name_is_a_flap() -> None:
    horizon = Horizon()
    for line in (record(PORT), *told(), down("port:h17/enp25s0np0", NOW - 10_000, "kmsg")):
        horizon.take(line)
    (one,) = judged(horizon)
    assert (one.component, one.fault) == ("port:h17/mlx5_0/1", "link_flap")


def test_live_nothing_is_joined_where_nothing_tells_it() -> None:
    horizon = Horizon()
    for line in told():
        horizon.take(line)
    assert {one.component for one in judged(horizon)} == {"port:h17/enp25s0np0", "port:h17/mlx5_0/1"}


def test_live_a_join_that_is_taken_back_leaves_the_topology_as_it_was_told() -> None:
    horizon = Horizon()
    for line in (record(PORT), *told()):
        horizon.take(line)
    judged(horizon)
    horizon.take(Record(TOPOLOGY, 0, 0, NOW, b"k", None))
    judged(horizon)
    assert horizon.topology.at(None).other_end("port:leaf1/Ethernet4") == "port:h17/enp25s0np0"
    horizon.take(record(PORT))
    other = messages.replace(CABLE, child="port:h17/ens9", parent="port:leaf1/Ethernet8")
    horizon.take(record(other, log_key(other)))
    judged(horizon)
    view = horizon.topology.at(None)
    assert view.other_end("port:leaf1/Ethernet4") == "port:h17/mlx5_0/1"
    assert view.other_end("port:leaf1/Ethernet8") == "port:h17/ens9"


def test_live_windows_of_one_port_are_one() -> None:
    at_ms = np.arange(NOW - WIDTH_MS, NOW, 1000)
    of = {"port:h17/enp25s0np0": ("rx_errors_total", 7.0), "port:h17/mlx5_0/1": ("retransmits_total", 3.0)}
    samples = [
        Samples("port", [port] * len(at_ms), at_ms, {column: np.arange(len(at_ms), dtype=np.float64) * value})
        for port, (column, value) in of.items()
    ]
    windows = features(join(samples)["port"], TABLES["port"])
    horizon = Horizon()
    end_ms = int(windows["end_ms"].max())  # type: ignore[arg-type]
    horizon.take(Record(FEATURES, 0, 0, NOW, b"h17", encode("port", end_ms, windows)))
    horizon.take(record(PORT))
    found = horizon.case(NOW).features["port"]
    assert set(found["component"]) == {"port:h17/mlx5_0/1"}
    assert len(found) == found["end_ms"].n_unique()
    assert found["rx_errors_total__increase"].max() == 7.0 * (len(at_ms) - 1)
    assert found["retransmits_total__increase"].max() == 3.0 * (len(at_ms) - 1)


KERNEL = "2026-11-30T10:00:05.000000+00:00 h17 kernel: mlx5_core 0000:19:00.0 enp25s0np0: Link down\n"
JOB = (
    "2026-11-30T10:00:06.000000+00:00 h17 python3: h17:4711:4800 [0] NCCL INFO misc/ibvwrap.cc:113 NET/IB : "
    "mlx5_0:1 Got async event : port error\n"
)
COUNTERS = (
    "/sys/class/infiniband/mlx5_0/ports/1/state:1: DOWN\n"
    "/sys/class/infiniband/mlx5_0/ports/1/phys_state:2: Polling\n"
    "/sys/class/infiniband/mlx5_1/ports/1/state:4: ACTIVE\n"
)
PAIRS = {
    "ibdev2netdev.txt": "mlx5_0 port 1 ==> enp25s0np0 (Down)\nmlx5_1 port 1 ==> enp59s0np0 (Up)\n",
    "rdma.txt": "link mlx5_0/1 state DOWN physical_state POLLING netdev enp25s0np0 \n",
    "gids.txt": "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0:enp25s0np0\n",
}


def folder(root: Path, **more: str) -> Path:
    """A host's files, the cables and the switch's log."""
    host = root / "h17"
    host.mkdir()
    switch = (
        "2026-11-30T10:00:05.1+00:00 leaf1 NOTICE swss#orchagent: :- x: Port Ethernet4 oper state set from up to down\n"
    )
    files = {"dmesg.log": KERNEL, "job.log": JOB, "counters.txt": COUNTERS, **more}
    for name, text in files.items():
        (host / name).write_text(text)
    (root / "leaf1.log").write_text(switch)
    (root / "cables.csv").write_text("host,port,switch,switch_port\nh17,enp25s0np0,leaf1,Ethernet4\n")
    return root


@pytest.mark.parametrize("pair", PAIRS)
def test_offline_one_port_is_one_incident_with_both_ends_of_its_link(pair: str, tmp_path: Path) -> None:
    (one,) = run([folder(tmp_path, **{pair: PAIRS[pair]})], Options()).incidents
    assert (one.component, one.fault) == ("port:h17/mlx5_0/1", "link_down")
    assert {each.component for each in one.suspects} == {"port:h17/mlx5_0/1", "port:leaf1/Ethernet4"}


def test_offline_names_stay_where_nothing_tells_the_join(tmp_path: Path) -> None:
    found = run([folder(tmp_path)], Options()).incidents
    assert {one.component for one in found} == {"port:h17/enp25s0np0", "port:h17/mlx5_0/1"}
