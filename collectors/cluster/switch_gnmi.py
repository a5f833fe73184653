"""Ethernet switches that stream their state (gNMI): ports, optics, the switches themselves, and their cables.

Names: `[gnmi] targets` names each switch; its ports bear its own names for them (`port:leaf1/Ethernet12`). At the other
end of a cable stands the port that LLDP tells, under the name that the host's agent uses for its interface.
"""

from pathlib import Path

from collectors.cluster.asking import some_of, targets
from collectors.cluster.gnmi_access import Access
from collectors.cluster.gnmi_stream import Streams
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.cluster.streamed import Streamed
from collectors.cluster.switch_records import names_of, outgoing, remember
from sickbay.config import ConfigError
from sickbay.schema import Samples
from sickbay.settings import Config
from sickbay.source_settings import Gnmi
from sickbay.topics import TOPOLOGY

LOOK_S = 1.0  # between two looks at what has come
MOST_FILE = 1 << 20


def sources(config: Config) -> list[Source[int]]:
    """One source of all switches."""
    settings = config.gnmi
    try:
        wanted = targets(settings.targets, "[gnmi] targets")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not wanted:
        raise ConfigError("[gnmi] targets: name the switches, such as leaf1=10.0.0.1:9339")
    return [source(Streams(wanted, access_of(settings)))]


def access_of(settings: Gnmi) -> Access:
    """How the settings say that switches are asked. Raises ConfigError."""
    password = _file(settings.password_file, "password_file")
    return Access(
        settings.sample_s,
        settings.timeout_s,
        settings.user,
        (password or b"").decode(errors="replace").strip(),
        _file(settings.ca_file, "ca_file"),
        _file(settings.certificate_file, "certificate_file"),
        _file(settings.private_key_file, "private_key_file"),
        settings.certificate_name,
    )


def source(streams: Streams) -> Source[int]:
    """The source of these streams."""
    kept = Streamed()
    switches = [one.switch for one in streams.followed]

    def poll(state: int, now_ms: int) -> Polled[int]:
        return _poll(streams, kept, state, now_ms)

    def remembered(told: object) -> int:
        with streams.lock:
            remember(switches, told)  # type: ignore[arg-type]
        return 0

    def standing(_: int) -> list[Outgoing]:
        with streams.lock:
            return [outgoing(edge, switch.name) for switch in switches for edge in switch.standing()]

    return Source("gnmi", LOOK_S, 0, poll, standing, TOPOLOGY, remembered, close=streams.close)


def _poll(streams: Streams, kept: Streamed, state: int, now_ms: int) -> Polled[int]:
    records: list[Outgoing] = []
    samples: list[Samples] = []
    unread = 0
    streams.start()
    with streams.lock:
        switches = names_of([one.switch for one in streams.followed])
        for one in streams.followed:
            samples += one.switch.samples(now_ms)
            records += (outgoing(record, one.switch.name, now_ms) for record in one.switch.records(now_ms, switches))
            unread += one.unread + one.switch.omitted
            one.unread = one.switch.omitted = 0
        never = {one.target.name: one.why for one in streams.followed if one.why and not one.answered}
    polled = kept.polled(state, records, samples, unread)
    if not streams.alive:
        raise PollFailed("nobody follows the switches any more: start this process again")
    if len(never) == len(streams.followed):  # later, each one that falls silent is told by itself
        raise PollFailed(f"no switch has answered yet: {some_of(never)}")
    return polled


def _file(path: str, setting: str) -> bytes | None:
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_FILE)
    except OSError as error:
        raise ConfigError(f"[gnmi] {setting} {path}: {error.strerror or error}") from None
