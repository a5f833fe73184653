"""Switches and power units asked over SNMP: interfaces, sensors, neighbours. The fallback where nothing streams.

Names as of `switch_gnmi`. A target `pdu:NAME=host` is a power unit: its sensors are the row of `pdu:NAME`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from collectors import rows
from collectors.cluster.asking import Target, some_of, targets
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.cluster.snmp_secure import SecureDevice, secure
from collectors.cluster.snmp_uptime import Clocks, restarted
from collectors.cluster.snmp_walk import Device, Session, Unanswered, Value, table
from collectors.cluster.streamed import Streamed
from collectors.cluster.switch_records import names_of, outgoing, remember
from collectors.cluster.switch_state import Switch
from collectors.formats import snmp_sensors, snmp_tables
from collectors.formats.snmp_tables import Index, Oid, Wide
from collectors.formats.switch_facts import Fact, Part
from sickbay.components import Kind, name
from sickbay.config import ConfigError
from sickbay.messages import AnyMessage
from sickbay.schema import Samples
from sickbay.settings import Config
from sickbay.source_settings import Snmp
from sickbay.topics import TOPOLOGY

AT_ONCE = 64  # devices asked at the same time
TRIES_IN_LIMIT = 4  # one silent question must not use up a device's time: sent twice, each for a quarter of it
SENSORS_MS, SLOW_MS = 60_000, 300_000  # between two readings of sensors; of entities and neighbours
PORT = 161
POWER = "pdu:"

Tables = Mapping[str, Mapping[Index, Value]]
Open = Callable[[Target], AbstractAsyncContextManager[Session]]


@dataclass(slots=True)
class Asked:
    """One device between looks."""

    target: Target
    switch: Switch | None = None  # None: a power unit
    wide: Wide = field(default_factory=Wide)
    clocks: Clocks | None = None
    tables: dict[str, dict[Index, Value]] = field(default_factory=dict)
    read_ms: dict[str, int] = field(default_factory=dict)
    half: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What a device answered: values, tables that are new, and why the rest is missing."""

    scalars: Mapping[str, Value | None]
    tables: Tables
    half: str = ""


def sources(config: Config) -> list[Source[int]]:
    """One source of all devices."""
    settings = config.snmp
    try:
        wanted = targets(settings.targets, "[snmp] targets")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if not wanted:
        raise ConfigError("[snmp] targets: name the devices, such as leaf1=10.0.0.1 or pdu:p1=10.0.0.9")
    addresses = {target.name: address_of(target.address) for target in wanted}
    return [source(wanted, _opened(settings, addresses), settings)]


def _opened(settings: Snmp, addresses: Mapping[str, tuple[str, int]]) -> Open:
    """How a device is reached: by the user of the settings, else by the community."""
    wait_s = settings.timeout_s / TRIES_IN_LIMIT
    if settings.user:
        user = secure(settings)
        return lambda target: SecureDevice(*addresses[target.name], user, wait_s)
    community = _community(settings.community_file)
    return lambda target: Device(*addresses[target.name], community, wait_s)


def source(wanted: Sequence[Target], opened: Open, settings: Snmp) -> Source[int]:
    """The source of these devices, which `opened` reaches."""
    known = [Asked(one, None if one.name.startswith(POWER) else Switch(one.name, "snmp")) for one in wanted]
    switches, kept = [one.switch for one in known if one.switch], Streamed()

    def poll(state: int, now_ms: int) -> Polled[int]:
        answers = asyncio.run(_round(known, opened, settings.timeout_s, now_ms))
        if all(isinstance(answer, str) for answer in answers) and not any(one.clocks for one in known):
            silent = {one.target.name: str(answer) for one, answer in zip(known, answers, strict=True)}
            raise PollFailed(f"no device has answered yet: {some_of(silent)}")
        samples: list[Samples] = []
        for one, answer in zip(known, answers, strict=True):
            samples += _taken(one, answer, now_ms)
        return kept.polled(state, _records(switches, now_ms), samples)

    def remembered(told: Iterable[AnyMessage]) -> int:
        remember(switches, told)
        return 0

    def standing(_: int) -> list[Outgoing]:
        return [outgoing(edge, switch.name) for switch in switches for edge in switch.standing()]

    limit_s = settings.timeout_s * (1 + len(known) / AT_ONCE)
    return Source("snmp", settings.poll_s, 0, poll, standing, TOPOLOGY, remembered, limit_s=limit_s)


def _records(switches: Sequence[Switch], now_ms: int) -> list[Outgoing]:
    known = names_of(switches)
    return [
        outgoing(one, switch.name, now_ms) for switch in switches for one in switch.records(now_ms, known, whole=True)
    ]


async def _round(known: Sequence[Asked], opened: Open, limit_s: float, now_ms: int) -> list[Look | str]:
    """One look at each device, side by side; a text says why there is none."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one_of(one: Asked) -> Look | str:
        async with gate:
            try:
                return await asyncio.wait_for(_look(one, opened, now_ms), limit_s)
            except TimeoutError:
                return f"no whole answer within {limit_s:g} s"
            except Exception as error:  # whatever one device does to its client must not silence the others
                return f"{type(error).__name__}: {error}"[:300]

    return list(await asyncio.gather(*map(one_of, known)))


async def _look(one: Asked, opened: Open, now_ms: int) -> Look:
    found: dict[str, Mapping[Index, Value]] = {}
    half: list[str] = []
    async with opened(one.target) as session:
        told = dict(await session.get(list(snmp_tables.SCALARS.values())))
        for columns in _due(one, now_ms):
            try:
                found |= await table(session, columns)
            except Unanswered as error:
                half.append(f"{next(iter(columns))}: {error}")
    scalars = {word: told.get(oid) for word, oid in snmp_tables.SCALARS.items()}
    return Look(scalars, found, "; ".join(half))


def _due(one: Asked, now_ms: int) -> list[Mapping[str, Oid]]:
    """The tables whose time has come."""
    tables: list[tuple[Mapping[str, Oid], int]] = [(snmp_tables.SENSORS, SENSORS_MS), (snmp_tables.ENTITIES, SLOW_MS)]
    if one.switch is not None:
        always = [(snmp_tables.INTERFACES, 0), (snmp_tables.ETHERNET, 0)]
        tables = [*always, *tables, (snmp_tables.NEIGHBOURS, SLOW_MS)]
    due = []
    for columns, every_ms in tables:
        first = next(iter(columns))
        if not 0 <= now_ms - one.read_ms.get(first, -every_ms) < every_ms or one.read_ms.get(first) is None:
            one.read_ms[first] = now_ms
            due.append(columns)
    return due


def _taken(one: Asked, answer: Look | str, now_ms: int) -> list[Samples]:
    if isinstance(answer, str):
        one.read_ms.clear()
        if one.switch is None:
            return rows.samples("pdu", {_power_unit(one): {"up": 0.0}}, now_ms)
        one.switch.reached(False, now_ms, answer)
        return list(one.switch.samples(now_ms))
    one.tables.update({column: dict(values) for column, values in answer.tables.items()})
    if one.switch is None:
        one.clocks = Clocks(now_ms)
        row = snmp_sensors.power_unit(one.tables) if "entPhySensorValue" in answer.tables else {}
        return rows.samples("pdu", {_power_unit(one): {"up": 1.0, **row}}, now_ms)
    _switch(one, one.switch, answer, now_ms)
    return list(one.switch.samples(now_ms))


def _switch(one: Asked, switch: Switch, answer: Look, now_ms: int) -> None:
    """All that a switch told, into its state."""
    switch.reached(True, now_ms)
    if answer.half and answer.half != one.half:
        switch.notice("monitor.blind", "half an answer", answer.half, now_ms)
    one.half = answer.half
    uptime_ms = _ms(answer.scalars.get("sysUpTime")) or 0
    if "ifOperStatus" in answer.tables:
        facts = list(snmp_tables.ports({**one.tables, **answer.tables}, uptime_ms, now_ms, one.wide))
        _restart(one, switch, answer, facts, now_ms)
        switch.begun(Part.PORT)
        switch.take(facts, now_ms, now_ms)
        switch.told_all(Part.PORT, now_ms)
    if "entPhySensorValue" in answer.tables:
        switch.take(snmp_sensors.environment(one.tables), now_ms, now_ms)
    if "lldpRemPortId" in answer.tables:
        switch.take(snmp_tables.neighbours(one.tables), now_ms, now_ms)
    words = {"system": "sysName", "software": "sysDescr"}
    told = [(word, snmp_tables.written(answer.scalars.get(scalar))) for word, scalar in words.items()]
    switch.take((Fact(Part.CHASSIS, "", word, value) for word, value in told if value), now_ms, now_ms)


def _restart(one: Asked, switch: Switch, answer: Look, facts: Sequence[Fact], now_ms: int) -> None:
    system_ms = _ms(answer.scalars.get("hrSystemUptime"))
    starts, since_s = (answer.scalars.get(word) for word in ("snmpEngineBoots", "snmpEngineTime"))
    agent_ms = since_s * 1000 if isinstance(since_s, int) else _ms(answer.scalars.get("sysUpTime"))
    octets = {fact.key: float(fact.value or 0) for fact in facts if fact.field == "rx_bytes_total"}
    now = Clocks(now_ms, agent_ms, system_ms, starts if isinstance(starts, int) else None, octets)
    which = restarted(one.clocks, now)
    if which:
        one.wide.clear()
    if which == "system":
        switch.restarted(now_ms - (system_ms or agent_ms or 0), "uptime")
    elif which == "agent":
        switch.notice("monitor.notice", "agent restarted", "its SNMP agent started anew, not the switch", now_ms)
    one.clocks = now


def _ms(ticks: Value | None) -> int | None:
    return ticks * 10 if isinstance(ticks, int) else None


def _power_unit(one: Asked) -> str:
    return name(Kind.PDU, one.target.name.removeprefix(POWER))


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port` or `[address]:port`. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = text, str(PORT)
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(f"[snmp] targets: {text!r} must be host or host:port")
    return host.strip("[]"), int(port)


def _community(path: str) -> str:
    if not path:
        raise ConfigError("[snmp] community_file: name a file that holds the community; or a user (version 3)")
    try:
        with Path(path).open("rb") as file:
            told = file.read(256).decode(errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"[snmp] community_file {path}: {error.strerror or error}") from None
    if not told:
        raise ConfigError(f"[snmp] community_file {path}: empty")
    return told
