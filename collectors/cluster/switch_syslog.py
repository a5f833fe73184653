"""The logs of switches, received over syslog: events and changes of the switch whose address the sender's is.

Whose line it is, the address says: a host name in the text names nobody. When it was, the line's own stamp says where
it is near the time of receipt (`[cluster] timezone` for stamps without a zone, else UTC), else the receipt.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from collectors.cluster.asking import targets
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.cluster.streamed import Streamed
from collectors.cluster.switch_records import outgoing
from collectors.cluster.switch_state import device_time
from collectors.cluster.syslog_receiver import Receiver, plain
from collectors.formats.events import event
from collectors.host.growing import Lines
from collectors.lines import Dated, Follower
from sickbay.components import Kind, Name, name
from sickbay.config import ConfigError
from sickbay.messages import Change, Event, replace
from sickbay.settings import Config

LOOK_S = 0.5
LOST_AGAIN_MS = 60_000  # between two words about lines of one sender that were lost
OWN = frozenset({Kind.PORT, Kind.OPTIC, Kind.SWITCH})  # of which parts a switch may speak
# What any Linux says of itself is, from a switch, said of the switch.
AS_SWITCH = {"host.boot": "switch.restarted", "host.panic": "switch.restarted"}


def sources(config: Config) -> list[Source[int]]:
    """One source of all senders. Raises ConfigError."""
    settings = config.syslog
    host, colon, port = settings.listen.rpartition(":")
    if not colon:
        raise ConfigError("[syslog] listen: say where, such as 0.0.0.0:514")
    try:
        senders = addresses(settings.senders)
    except ValueError as error:
        raise ConfigError(f"[syslog] senders: {error}") from None

    def made() -> Receiver:
        try:
            return Receiver(host.strip("[]") or "0.0.0.0", int(port), senders)
        except OSError as error:
            raise PollFailed(f"[syslog] listen {settings.listen}: {error.strerror or error}") from None

    zone = ZoneInfo(config.cluster.timezone) if config.cluster.timezone else UTC
    return [source(made, zone)]


def addresses(senders: Iterable[str]) -> dict[str, str]:
    """Address -> name; one name may have several addresses, separated by commas. Raises ValueError."""
    found: dict[str, str] = {}
    for target in targets(tuple(senders), "[syslog] senders"):
        for address in target.address.split(","):
            if found.setdefault(plain(address.strip()), target.name) != target.name:
                raise ValueError(f"{address.strip()} is that of two senders")
    if not found:
        raise ValueError("name who may send, such as leaf1=10.0.0.1")
    return found


def source(made: Callable[[], Receiver], zone: tzinfo) -> Source[int]:
    """The source of what a receiver takes, which the first poll makes."""
    logs, kept, said, receivers = dict[str, Log](), Streamed(), dict[str, int](), list[Receiver]()

    def poll(state: int, now_ms: int) -> Polled[int]:
        if not receivers:
            receivers.append(made())
        receiver = receivers[0]
        if not receiver.alive:
            receivers.clear()
            raise PollFailed("nobody listens any more; it begins again with the next look")
        records: list[Outgoing] = []
        taken, unread = receiver.taken(), receiver.unknown()
        for switch in {*taken, *(one for one, log in logs.items() if log.waits > 0)}:
            messages, lost = taken.get(switch, ([], 0))
            log = logs.setdefault(switch, Log(switch, zone))
            records += (outgoing(record, switch, now_ms) for record in log.records(messages, now_ms))
            unread += log.unread()
            if lost and now_ms - said.get(switch, -LOST_AGAIN_MS) >= LOST_AGAIN_MS:
                said[switch] = now_ms
                records.append(outgoing(_lost(switch, lost, now_ms), switch, now_ms))
        return kept.polled(state, records, (), unread)

    def close() -> None:
        for receiver in receivers:
            receiver.close()

    return Source("syslog", LOOK_S, 0, poll, close=close)


def _lost(switch: str, lost: int, now_ms: int) -> Event:
    told = event("monitor.lines_lost", name(Kind.MONITOR, switch, "syslog"), {"lost": str(lost)}, code="lines lost")
    message = f"{lost} lines were too long, or more than its rate allows"
    return replace(told, at_ms=now_ms, message=message)  # type: ignore[no-any-return]


class Log:
    """The lines of one switch."""

    def __init__(self, switch: str, zone: tzinfo) -> None:
        self._switch, self._number = switch, 0
        self._follower = Follower(zone, history=False)
        self.foreign = 0  # events of parts that are no switch's
        self.waits = 0  # polls after which nothing waits for further lines

    def records(self, messages: list[bytes], now_ms: int) -> Iterator[Event | Change]:
        """What more messages tell."""
        self.waits = 10 if messages else self.waits - 1
        text = b"".join(message.rstrip(b"\r\n\x00") + b"\n" for message in messages)
        lines = [Lines(text, self._number + 1, numbered=False)] if messages else []
        self._number += text.count(b"\n")
        for dated in self._follower.take(lines, now_ms):
            yield from self._told(dated, now_ms)
        self._follower.caught_up(now_ms)

    def unread(self) -> int:
        """Events left out since the last look: of a storm, or of no part of a switch."""
        left, self._follower.omitted = self._follower.omitted, 0
        foreign, self.foreign = self.foreign, 0
        return left + foreign

    def _told(self, dated: Dated, now_ms: int) -> Iterator[Event | Change]:
        record, at_ms = dated.reading.record, device_time(dated.at_ms, now_ms)
        if isinstance(record, Change):
            if (target := self._own(record.target)) is not None:
                yield replace(record, target=target, at_ms=at_ms)
        elif isinstance(record, Event):
            if kind := AS_SWITCH.get(record.kind):
                told = event(kind, name(Kind.SWITCH, self._switch), code=record.kind)
                yield replace(told, at_ms=at_ms, message=record.message)
            elif (component := self._own(record.component)) is None:
                self.foreign += 1
            else:
                yield replace(record, component=component, peer="", host="", at_ms=at_ms, path="syslog")
                if record.kind == "port.admin_down":
                    yield Change(target=component, what="port closed", at_ms=at_ms, message=record.message)

    def _own(self, component: Name) -> Name | None:
        """The part under the name of this switch, whatever host the line told; None for what no switch has."""
        kind, _, rest = component.partition(":")
        return f"{kind}:{'/'.join([self._switch, *rest.split('/')[1:]])}" if kind in OWN else None
