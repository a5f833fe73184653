"""Questions over SNMP, version 2c: values and whole tables, bounded, each device with a socket of its own.

Only GET and GETBULK exist here: nothing can change a device. What a device may do wrong, each with a test: an answer
that goes back in the table (it would never end), more rows than any device has, an answer that is too big for it.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from pysnmp.hlapi.v1arch.asyncio import CommunityData, SnmpDispatcher, UdpTransportTarget, bulk_cmd, get_cmd
from pysnmp.proto import rfc1902, rfc1905

from collectors.formats.snmp_tables import Index, Oid

MOST_ROWS = 8_192  # of one column
MOST_ANSWERS = 4_096  # of one table
CELLS = 60  # values of one answer: what fits into a datagram of 1,500 bytes
MOST_BYTES = 1_024  # of one text
RETRIES = 1
TOO_BIG = 1  # errorStatus

Value = int | bytes
_NONE = (rfc1905.NoSuchObject, rfc1905.NoSuchInstance, rfc1905.EndOfMibView, rfc1902.univ.Null)


class Unanswered(Exception):
    """The device did not answer, or in a way that cannot be used; the text says why."""


class Session(Protocol):
    """A device that can be asked."""

    async def get(self, oids: Sequence[Oid]) -> list[tuple[Oid, Value | None]]:
        """Values, None where it has none. Raises Unanswered."""
        ...

    async def bulk(self, oids: Sequence[Oid], most: int) -> list[tuple[Oid, Value | None]]:
        """What follows each, `most` times in turn. Raises Unanswered; an empty list: too big, ask for less."""
        ...


class Device:
    """The session to one device: `async with Device(...)`."""

    def __init__(self, host: str, port: int, community: str, timeout_s: float) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._community = CommunityData(community, mpModel=1)

    async def __aenter__(self) -> "Device":
        self._dispatcher = SnmpDispatcher()
        self._transport = await UdpTransportTarget.create(
            (self._host, self._port), timeout=self._timeout_s, retries=RETRIES
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dispatcher.transport_dispatcher.close_dispatcher()

    async def get(self, oids: Sequence[Oid]) -> list[tuple[Oid, Value | None]]:
        """Values, None where it has none. Raises Unanswered."""
        return told(await get_cmd(self._dispatcher, self._community, self._transport, *map(asked, oids)))

    async def bulk(self, oids: Sequence[Oid], most: int) -> list[tuple[Oid, Value | None]]:
        """What follows each, `most` times in turn. Raises Unanswered; an empty list: too big, ask for less."""
        return told(await bulk_cmd(self._dispatcher, self._community, self._transport, 0, most, *map(asked, oids)))


def asked(oid: Oid) -> tuple[Any, Any]:
    """One name in a question."""
    return rfc1902.ObjectName(oid), rfc1902.Null("")


def told(answer: tuple[Any, Any, Any, Sequence[Any]]) -> list[tuple[Oid, Value | None]]:
    """What an answer holds; empty: it was too big. Raises Unanswered."""
    failure, status, _, pairs = answer
    if failure:
        raise Unanswered(str(failure))
    if int(status) == TOO_BIG:
        return []
    if int(status):
        raise Unanswered(f"error {int(status)}")
    return [(tuple(oid), _value(value)) for oid, value in pairs]


def _value(told: Any) -> Value | None:
    if isinstance(told, _NONE):
        return None
    if isinstance(told, rfc1902.univ.ObjectIdentifier):
        return ".".join(map(str, tuple(told))).encode()
    if isinstance(told, rfc1902.univ.OctetString):
        return bytes(told.asOctets()[:MOST_BYTES])
    return int(told) if isinstance(told, rfc1902.univ.Integer) else None


async def table(session: Session, columns: Mapping[str, Oid]) -> dict[str, dict[Index, Value]]:
    """All rows of some columns of one table; a column that the device lacks is empty. Raises Unanswered."""
    found: dict[str, dict[Index, Value]] = {name: {} for name in columns}
    at = dict(columns)
    cells = CELLS
    for _ in range(MOST_ANSWERS):
        if not at:
            return found
        names = list(at)
        came = await session.bulk([at[name] for name in names], max(1, cells // len(names)))
        if not came:
            if cells <= len(names):
                raise Unanswered("an answer of one row is too big for it")
            cells //= 2
            continue
        before = dict(at)
        for place, (oid, value) in enumerate(came):
            name = names[place % len(names)]
            if name in at:
                _take(name, columns[name], oid, value, at, found)
        if at == before:
            raise Unanswered("its table does not go on")
    raise Unanswered(f"a table without an end, after {MOST_ANSWERS} answers")


def _take(
    name: str, column: Oid, oid: Oid, value: Value | None, at: dict[str, Oid], found: dict[str, dict[Index, Value]]
) -> None:
    """One cell: a row of its column, or the end of it."""
    if value is None or oid[: len(column)] != column or len(found[name]) >= MOST_ROWS:
        del at[name]
    elif oid <= at[name]:
        raise Unanswered("its table goes back: it would never end")
    else:
        found[name][oid[len(column) :]] = value
        at[name] = oid
