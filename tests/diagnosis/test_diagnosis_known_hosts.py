"""Hosts and switches told apart where no topology says which is which: no switch is ever drained for its pause."""

import polars as pl

from diagnosis.case import Case
from diagnosis.detectors import link_errors, pause_sent
from diagnosis.known_hosts import is_switch, known_hosts
from tests.diagnosis.kit import T0, case, hosts_up, placement

HOSTS = [f"h{number}" for number in range(8)]


def storm(sender: str, *, measured: bool) -> Case:
    """Every host port is held by its port of the leaf; one host sends. Nothing tells that the leaf is a switch."""
    sends = {f"port:{sender}/eth0": 9e4} | {f"port:leaf/Ethernet{place}": 8e4 for place in range(len(HOSTS))}
    held = {f"port:{host}/eth0": 8e4 for host in HOSTS if host != sender}
    rows = [
        {"component": port, "end_ms": T0 + 10_000 * window, "tx_pause_total__increase": sends.get(port, 0.0),
         "rx_pause_total__increase": held.get(port, 0.0)}
        for window in range(3)
        for port in sorted({*sends, *held})
    ]  # fmt: skip
    features = {"port": pl.DataFrame(rows)} | ({"host": hosts_up(HOSTS)} if measured else {})
    return case([], [placement("A", HOSTS)] if not measured else [], [], features)


def test_the_switch_that_passes_pause_on_is_never_the_sender() -> None:
    for measured in (True, False):
        found = list(pause_sent.claims(storm("h3", measured=measured)))
        assert [one.component for one in found] == ["port:h3/eth0"]


def test_who_measures_itself_is_a_host_and_the_others_are_none() -> None:
    at = case([], [placement("A", ["h1"])], [], {"host": hosts_up(["h1", "h2"])})
    assert [one for one in ("h1", "h2", "leaf") if is_switch(at, one, known_hosts(at))] == ["leaf"]
    unmeasured = case([], [placement("A", ["h1"])])
    assert not is_switch(unmeasured, "h2", known_hosts(unmeasured)), "it may be idle"


def counted(carries_again: bool) -> list[str]:
    rows = [
        {"component": "port:h1/eth0", "end_ms": T0 + 10_000 * window, "link_downed_total__increase": float(window == 3),
         "received_bits_total__increase": 4e12 if window < 3 or carries_again else 0.0}
        for window in range(6)
    ]  # fmt: skip
    return [one.fault for one in link_errors.claims(case(features={"port": pl.DataFrame(rows)}))]


def test_a_counted_loss_after_which_the_port_carries_was_a_flap() -> None:
    assert counted(carries_again=True) == ["link_flap"]
    assert counted(carries_again=False) == ["link_down"]
