"""Questions over SNMP, version 3: the same as of version 2c, by a user, authenticated and encrypted.

One engine serves all devices of a round, as making one takes a tenth of a second: it lives while any of them is open,
and asks each anew who it is and how long it runs, so that one that started again is heard. Nothing weaker than
authenticated and encrypted is asked.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from pysnmp.entity.rfc3413.cmdgen import BulkCommandGenerator, GetCommandGenerator
from pysnmp.hlapi.v3arch.asyncio import (
    SnmpEngine,
    UdpTransportTarget,
    UsmUserData,
    usmAesCfb128Protocol,
    usmHMAC192SHA256AuthProtocol,
    usmHMAC256SHA384AuthProtocol,
    usmHMAC384SHA512AuthProtocol,
    usmHMACSHAAuthProtocol,
)
from pysnmp.hlapi.v3arch.asyncio.lcd import CommandGeneratorLcdConfigurator

from collectors.cluster.snmp_walk import RETRIES, Value, asked, told
from collectors.formats.snmp_tables import Oid
from sickbay.config import ConfigError
from sickbay.source_settings import Snmp

LEAST_KEY = 8  # characters (RFC 3414 11.2)
_AUTHENTICATION: Mapping[str, Any] = {
    "sha": usmHMACSHAAuthProtocol,
    "sha256": usmHMAC192SHA256AuthProtocol,
    "sha384": usmHMAC256SHA384AuthProtocol,
    "sha512": usmHMAC384SHA512AuthProtocol,
}


@dataclass(slots=True)
class Secure:
    """A user, and the engine that asks for it while a device is open."""

    user: UsmUserData
    engine: SnmpEngine | None = None
    names: CommandGeneratorLcdConfigurator = field(default_factory=CommandGeneratorLcdConfigurator)
    open: int = 0

    def opened(self) -> SnmpEngine:
        """One more device is asked."""
        self.engine = self.engine or SnmpEngine()
        self.open += 1
        return self.engine

    def closed(self) -> None:
        """One less; the last takes the engine with it."""
        self.open -= 1
        if self.open == 0 and self.engine is not None:
            self.engine.close_dispatcher()
            self.engine = None


class SecureDevice:
    """The session to one device: `async with SecureDevice(...)`."""

    def __init__(self, host: str, port: int, secure: Secure, timeout_s: float) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._secure = secure

    async def __aenter__(self) -> "SecureDevice":
        transport = await UdpTransportTarget.create((self._host, self._port), timeout=self._timeout_s, retries=RETRIES)
        self._engine = self._secure.opened()
        try:
            self._name, _ = self._secure.names.configure(self._engine, self._secure.user, transport, b"")
        except BaseException:
            self._secure.closed()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._secure.closed()

    async def get(self, oids: Sequence[Oid]) -> list[tuple[Oid, Value | None]]:
        """Values, None where it has none. Raises Unanswered."""
        return await self._answer(GetCommandGenerator().send_varbinds, (), oids)

    async def bulk(self, oids: Sequence[Oid], most: int) -> list[tuple[Oid, Value | None]]:
        """What follows each, `most` times in turn. Raises Unanswered; an empty list: too big, ask for less."""
        return await self._answer(BulkCommandGenerator().send_varbinds, (0, most), oids)

    async def _answer(
        self, send: Callable[..., Any], more: tuple[int, ...], oids: Sequence[Oid]
    ) -> list[tuple[Oid, Value | None]]:
        came: asyncio.Future[tuple[Any, Any, Any, Sequence[Any]]] = asyncio.get_running_loop().create_future()

        def take(engine: Any, handle: Any, failure: Any, status: Any, index: Any, pairs: Any, context: Any) -> None:
            if not came.done():
                came.set_result((failure, status, index, pairs))

        send(self._engine, self._name, None, b"", *more, [asked(oid) for oid in oids], take, None)
        return told(await came)


def secure(settings: Snmp) -> Secure:
    """The user that the settings name. Raises ConfigError."""
    if not _can_encrypt():
        raise ConfigError("[snmp] user needs a newer cryptography: pip install 'cryptography>=50.0.1'")
    if settings.community_file:
        raise ConfigError(
            "[snmp] community_file: with a user (version 3) there is no community: take one of the two out"
        )
    return Secure(
        UsmUserData(
            settings.user,
            authKey=_key("auth_key_file", settings.auth_key_file),
            privKey=_key("privacy_key_file", settings.privacy_key_file),
            authProtocol=_AUTHENTICATION[settings.auth_protocol],
            privProtocol=usmAesCfb128Protocol,
        )
    )


def _can_encrypt() -> bool:
    """Whether what pysnmp encrypts with is here; it says nothing of it before it asks."""
    try:
        return find_spec("cryptography.hazmat.decrepit.ciphers.modes") is not None
    except ModuleNotFoundError:
        return False


def _key(setting: str, path: str) -> str:
    if not path:
        raise ConfigError(f"[snmp] {setting}: name a file that holds the pass phrase of the user")
    try:
        with Path(path).open("rb") as file:
            key = file.read(256).decode(errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"[snmp] {setting} {path}: {error.strerror or error}") from None
    if len(key) < LEAST_KEY:
        raise ConfigError(f"[snmp] {setting} {path}: a pass phrase has at least {LEAST_KEY} characters")
    return key
