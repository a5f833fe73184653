"""Syslog of switches: framing, who may send, what a line may say of whom, and bounds on all of it."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster import switch_syslog
from collectors.cluster.poll import Outgoing, PollFailed, Source, sources
from collectors.cluster.switch_syslog import Log, addresses
from collectors.cluster.syslog_receiver import BURST, MOST_LINE, MOST_OF_SENDER, Framer, Receiver, plain
from sickbay.config import ConfigError
from sickbay.messages import Change, Event
from sickbay.settings import Config
from sickbay.source_settings import Syslog

T = 1_773_203_400_000  # 2026-03-11T04:30:00Z
SAID = ":- updatePortOperStatus: Port Ethernet24 oper state set from up to down"
DOWN = f"Mar 11 04:29:58.412331 leaf9 NOTICE swss#orchagent: {SAID}"
AT = "Mar 11 04:29:58"


def read(*lines: str, zone: str = "UTC", now_ms: int = T) -> list[Event | Change]:
    log = Log("leaf1", ZoneInfo(zone))
    return [*log.records([line.encode() for line in lines], now_ms), *log.records([], now_ms + 2_000)]


@pytest.mark.parametrize(
    ("line", "kind", "component"),
    [
        (f"<133>{DOWN}", "port.down", "port:leaf1/Ethernet24"),
        (f"<133>1 2026-03-11T04:29:58.4Z leaf9 orchagent 31 - - {SAID}", "port.down", "port:leaf1/Ethernet24"),
        (
            f"<189>{AT} leaf9 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet12/1, changed state to up",
            "port.up", "port:leaf1/Ethernet12/1",
        ),
        (
            f"<189>: 2026 {AT} UTC: %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/12 is down (Link failure)",
            "port.down", "port:leaf1/Ethernet1/12",
        ),
        (
            "<188>Mar 11 2026 04:29:58 leaf9 %%01IFNET/4/LINK_STATE(l)[15]:The line protocol IP on the interface "
            "100GE1/0/12 has entered the DOWN state.",
            "port.down", "port:leaf1/100GE1/0/12",
        ),
        (
            "<187>Mar 11 04:29:58 2026 leaf9 %%10IFNET/3/PHY_UPDOWN: Physical state on the interface "
            "HundredGigE1/0/12 changed to down.",
            "port.down", "port:leaf1/HundredGigE1/0/12",
        ),
        (
            f"<132>{AT} leaf9 NOTICE pmon#xcvrd[31]: Ethernet8: Got SFP removed event",
            "optic.unplugged", "optic:leaf1/Ethernet8",
        ),
        (
            f"<132>{AT} leaf9 WARNING pmon#psud[31]: PSU absence warning: PSU 1 is not present.",
            "switch.environment", "switch:leaf1",
        ),
    ],
)  # fmt: skip
def test_lines_of_each_system_speak_of_the_sender_whatever_host_they_name(line: str, kind: str, component: str) -> None:
    (event,) = read(line)
    assert isinstance(event, Event)
    assert (event.kind, event.component, event.host) == (kind, component, "")
    assert T - 10_000 <= (event.at_ms or 0) <= T


def test_a_closed_port_and_a_configuration_are_changes() -> None:
    told = read(
        "Mar 11 04:29:58 leaf9 %ETHPORT-5-IF_DOWN_ADMIN_DOWN: Interface Ethernet1/12 is down (Administratively down)",
        "Mar 11 04:29:59 leaf9 %VSHD-5-VSHD_SYSLOG_CONFIG_I: Configured from vty by rong on 198.51.100.7@pts/0",
    )
    changes = [(one.target, one.what, one.who) for one in told if isinstance(one, Change)]
    assert changes == [("port:leaf1/Ethernet1/12", "port closed", ""), ("switch:leaf1", "configuration", "rong")]
    assert [one.kind for one in told if isinstance(one, Event)] == ["port.admin_down"]


def test_no_line_of_a_switch_speaks_of_a_host_an_accelerator_or_a_job() -> None:
    log = Log("leaf1", UTC)
    lines = [
        b"Mar 11 04:29:58 gpu07 kernel: NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
        b"Mar 11 04:29:58 gpu07 kernel: Kernel panic - not syncing: Fatal exception",
    ]
    told = [*log.records(lines, T), *log.records([], T + 2_000)]
    assert {one.component for one in told if isinstance(one, Event)} <= {"switch:leaf1"}
    assert [one.kind for one in told if isinstance(one, Event)] == ["switch.restarted"]
    assert log.unread() >= 1


def test_a_stamp_counts_where_it_is_near_the_receipt_in_the_cluster_s_zone() -> None:
    local = DOWN.replace("04:29:58", "12:29:58")
    (event,) = read(local, zone="Asia/Shanghai")
    assert event.at_ms == T - 1_588
    (event,) = read(local)  # eight hours ahead of UTC: no time
    assert event.at_ms == T
    (event,) = read(DOWN.replace("Mar 11 04:29:58.412331 ", ""))
    assert event.at_ms == T


def test_streams_are_counted_octets_or_lines_cut_anywhere() -> None:
    data = b"5 hello3 a\nb<13>line one\nline two\n11 hello world"
    for size in (1, 2, 7, 100):
        framer, found = Framer(), list[bytes]()
        for start in range(0, len(data), size):
            found += framer.take(data[start : start + size])
        assert found == [b"hello", b"a\nb", b"<13>line one", b"line two", b"hello world"], size


def test_a_message_that_is_too_long_is_cut_and_the_next_is_whole() -> None:
    long = b"x" * (3 * MOST_LINE)
    for stream in (str(len(long)).encode() + b" " + long + b"4 next", long + b"\nnext\n"):
        framer, found = Framer(), list[bytes]()
        for start in range(0, len(stream), 1000):
            found += framer.take(stream[start : start + 1000])
        assert found[-1] == b"next"
        assert found[0] == b"x" * len(found[0])
        assert len(found) == 2
        assert framer.cut == 1


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_stream_keeps_no_more_than_a_message(pieces: list[bytes]) -> None:
    framer = Framer()
    for piece in pieces:
        assert all(len(message) <= MOST_LINE for message in framer.take(piece))
        assert len(framer._buffer) - framer._at <= MOST_LINE + 60


@given(st.lists(st.binary(max_size=120) | st.text(max_size=80).map(str.encode), max_size=8))
def test_any_lines_are_read_and_speak_of_nobody_else(lines: list[bytes]) -> None:
    log = Log("leaf1", UTC)
    for record in [*log.records([DOWN.encode()[:60] + line for line in lines], T), *log.records([], T + 2_000)]:
        component = record.component if isinstance(record, Event) else record.target
        assert component.partition(":")[2].split("/")[0] == "leaf1"


class Site:
    """A receiver with two senders, both on loopback."""

    def __init__(self, senders: dict[str, str] | None = None) -> None:
        self.receiver = Receiver("127.0.0.1", 0, senders or {"127.0.0.1": "leaf1", "127.0.0.2": "leaf2"})
        self.source: Source[int] = switch_syslog.source(lambda: self.receiver, UTC)
        self.told: list[Outgoing] = []
        self.skipped = 0

    def send(self, *messages: str, source: str = "127.0.0.1") -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((source, 0))
            for message in messages:
                sender.sendto(message.encode(), ("127.0.0.1", self.receiver.port))

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.receiver.port), 5.0, (source, 0))

    def until(self, check: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            polled = self.source.poll(self.source.state, round(time.time() * 1000))
            self.source.state = polled.state
            self.told += polled.told
            self.skipped += polled.unparsed
            if check():
                return
            time.sleep(0.02)
        pytest.fail(f"told {self.told}")

    def components(self) -> list[str]:
        return [one.message.component for one in self.told if isinstance(one.message, Event)]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.source.close()


def stamped(port: str = "Ethernet24") -> str:
    now = datetime.now(UTC) - timedelta(seconds=1)
    return f"<133>{now:%b %d %H:%M:%S} leaf9 NOTICE swss#orchagent: {SAID.replace('Ethernet24', port)}"


def test_datagrams_are_their_address_s_and_strangers_are_counted_and_dropped(site: Site) -> None:
    site.send(stamped())
    site.send(stamped("Ethernet28"), source="127.0.0.2")
    site.send(stamped("Ethernet32"), stamped("Ethernet36"), source="127.0.0.3")
    site.until(lambda: len(site.told) == 2 and site.skipped == 2)
    assert sorted(site.components()) == ["port:leaf1/Ethernet24", "port:leaf2/Ethernet28"]
    assert {(one.key, one.topic) for one in site.told} == {
        ("leaf1", "sickbay.events.v1"),
        ("leaf2", "sickbay.events.v1"),
    }
    seen = [one.message.seen_ms or 0 for one in site.told if isinstance(one.message, Event)]
    assert all(abs(at - time.time() * 1000) < 60_000 for at in seen)


def test_connections_are_framed_and_end_with_their_last_line(site: Site) -> None:
    with site.connect() as connection:
        line = stamped().encode()
        connection.sendall(str(len(line)).encode() + b" " + line + stamped("Ethernet28").encode())
    site.until(lambda: len(site.told) == 2)
    assert site.components() == ["port:leaf1/Ethernet24", "port:leaf1/Ethernet28"]
    with site.connect("127.0.0.3") as stranger:
        stranger.settimeout(5.0)
        with suppress(ConnectionError):
            assert stranger.recv(10) == b""
    site.until(lambda: site.skipped == 1)


def test_one_sender_may_have_so_many_connections(site: Site) -> None:
    held = [site.connect() for _ in range(MOST_OF_SENDER + 2)]
    try:
        site.until(lambda: site.skipped == 2)
        with site.connect("127.0.0.2") as other:
            other.sendall(stamped().encode() + b"\n")
            site.until(lambda: site.told)
    finally:
        for one in held:
            one.close()


def test_a_flood_of_one_sender_is_cut_to_its_rate_and_told_once(site: Site) -> None:
    with site.connect() as connection:
        connection.sendall(b"chatter\n" * round(3 * BURST))
        site.until(lambda: "monitor:leaf1/syslog" in site.components())
    site.send(stamped(), source="127.0.0.2")
    site.until(lambda: "port:leaf2/Ethernet24" in site.components())
    assert site.components().count("monitor:leaf1/syslog") == 1


def test_settings_that_cannot_work_are_told() -> None:
    assert addresses(["leaf1=10.0.0.1,10.0.0.2", "leaf2=::ffff:10.0.0.3"]) == {
        "10.0.0.1": "leaf1", "10.0.0.2": "leaf1", "10.0.0.3": "leaf2",
    }  # fmt: skip
    assert plain("fe80::1%eth0") == "fe80::1"
    wrong = (
        (Syslog(), "listen: say where"),
        (Syslog(listen="127.0.0.1:0"), "name who may send"),
        (Syslog(listen="127.0.0.1:0", senders=("leaf1=host.example",)), "host.example"),
        (Syslog(listen="127.0.0.1:0", senders=("a=10.0.0.1", "b=10.0.0.1")), "two senders"),
    )
    for settings, text in wrong:
        with pytest.raises(ConfigError, match=text):
            sources(["syslog"], Config(syslog=settings))


def test_a_place_that_cannot_be_listened_on_is_a_failure_that_is_tried_again() -> None:
    (made,) = sources(["syslog"], Config(syslog=Syslog(listen="198.51.100.7:514", senders=("a=10.0.0.1",))))
    for _ in range(2):
        with pytest.raises(PollFailed, match=r"\[syslog\] listen 198\.51\.100\.7:514: "):
            made.poll(made.state, T)
    made.close()
