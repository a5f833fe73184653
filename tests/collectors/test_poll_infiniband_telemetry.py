"""A fabric manager's telemetry endpoint: counters of switches' ports by their names, each sample once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import fabric_manager
from collectors.cluster.fabric_manager_telemetry import OLD_MS, Counted, counted
from collectors.cluster.poll import Polled, PollFailed
from sickbay.config import ConfigError
from sickbay.source_settings import Fabric
from tests.collectors.fabric_kit import T
from tests.services.recorded_https import Recorded, recorded_https

PORTS = [
    {"name": "b0cf0e0300bb0010_1", "dname": "1", "node_description": "leaf1", "number": 1},
    {"name": "b0cf0e0300bb0010_2", "dname": "2", "node_description": "leaf1", "number": 2},
    {"name": "a088c20300aa0001_1", "dname": "HCA-1/1", "node_description": "h1 mlx5_0", "number": 1},
]


def line(counter: str, guid: str, port: int, value: int, at_ms: int | str) -> str:
    return (
        f'{counter}{{source="0x{guid}", node_guid="{guid}", port_guid="{guid}", port_num="{port}"}} {value} {at_ms}\n'
    )


def scrape(at_ms: int, downs: int = 3) -> bytes:
    told = "# TYPE LinkDownedCounterExtended counter\n# TYPE PortXmitDataExtended counter\n"
    told += line("PortXmitDataExtended", "b0cf0e0300bb0010", 1, 85554128244, at_ms)
    told += line("LinkDownedCounterExtended", "b0cf0e0300bb0010", 1, downs, at_ms)
    told += line("SymbolErrorCounterExtended", "b0cf0e0300bb0010", 1, 0, at_ms)
    told += line("LinkDownedCounterExtended", "0xb0cf0e0300bb0010", 2, 7, at_ms - 1000)
    told += line("LinkDownedCounterExtended", "a088c20300aa0001", 1, 9, at_ms)
    return told.encode()


def cells(polled: Polled[Any]) -> dict[tuple[str, str], tuple[float, int]]:
    return {
        (component, column): (float(values[at]), int(one.at_ms[at]))
        for one in polled.samples
        for at, component in enumerate(one.component)
        for column, values in one.values.items()
        if values[at] == values[at]
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Recorded]:
    with recorded_https(tmp_path) as told:
        told.answers = {"/metrics": scrape(T), "/ufmRest/resources/ports": PORTS}
        yield told


def test_counters_have_the_names_of_ports_and_the_time_of_their_sample(server: Recorded) -> None:
    settings = Fabric(manager_url=server.url, telemetry_url=f"{server.url}/metrics", ca_file=server.ca_file)
    source = fabric_manager.sources(settings)[-1]
    polled = source.poll(source.state, T + 2000)
    assert cells(polled) == {
        ("port:leaf1/1", "link_downed_total"): (3.0, T),
        ("port:leaf1/1", "symbol_errors_total"): (0.0, T),
        ("port:leaf1/2", "link_downed_total"): (7.0, T - 1000),
    }, "an adapter's port is its host's; of data the documents leave the unit open"
    again = source.poll(polled.state, T + 12_000)
    assert (again.samples, again.problem) == ([], "")
    server.answers["/metrics"] = scrape(T + 30_000, downs=4)
    later = source.poll(again.state, T + 31_000)
    assert cells(later)["port:leaf1/1", "link_downed_total"] == (4.0, T + 30_000)
    assert [one.path for one in server.asked].count("/ufmRest/resources/ports") == 1
    server.answers["/metrics"] = 503
    with pytest.raises(PollFailed, match="answered 503"):
        source.poll(later.state, T + 61_000)


def ports() -> bytes:
    return json.dumps(PORTS).encode()


def test_what_is_old_cut_or_something_else_is_no_reading() -> None:
    old = counted(scrape(T), ports, Counted(), T + OLD_MS + 5000)
    assert (old.samples, old.problem) == ([], "3 values of its telemetry are older than 10 minutes")
    bad = line("LinkDownedCounterExtended", "b0cf0e0300bb0010", 1, 5, "") + 'LinkDownedCounterExtended{node_guid="x\n'
    cut = line("LinkDownedCounterExtended", "b0cf0e0300bb0010", 1, 123, T)[:-9]
    half = counted(scrape(T) + (bad + cut).encode(), ports, Counted(), T)
    assert half.unparsed == 2
    assert cells(half)["port:leaf1/1", "link_downed_total"] == (3.0, T)
    for body in (b"", b"<html>", b"\xff" * 100, b'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n'):
        with pytest.raises(PollFailed, match="telemetry_url"):
            counted(body, ports, Counted(), T)
    with pytest.raises(PollFailed, match="no list of rows"):
        counted(scrape(T), lambda: b"{}", Counted(), T)


def test_the_same_counters_from_two_sides_are_refused() -> None:
    both = Fabric(manager_url="https://127.0.0.1:1", telemetry_url="http://127.0.0.1:1/metrics", device="mlx5_0")
    with pytest.raises(ConfigError, match="take one of the two out"):
        fabric_manager.sources(both)
