"""From settings to what the two clients want to be told: addresses, trust, users, time limits."""

import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka.net.compat import KafkaNetClient

from sickbay.addresses import is_loopback
from sickbay.log import LogError
from sickbay.log.kafka_errors import explained
from sickbay.settings import LogSettings
from sickbay.topics import KIB, MIB

CALL_S = (
    4.0  # no question waits longer for the brokers: a stage that fails in time tries again, one that hangs is ended
)
SETUP_S = 20.0  # for what is done once, before any stage works: making topics, the first look at the cluster
CLIENT = "sickbay"
FETCH_WAIT_MS = 100  # a broker without news answers after so long; news are answered at once
AHEAD_KBYTES = 32 * KIB  # fetched ahead of a processor: two answers, so that one is under way while one is read
AGAIN_MS = 10  # until it is looked whether that was read; the client's own second let 16 MB/s through and no more
FETCH_BYTES, LEAST_BYTES = 16 * MIB, 128 * KIB  # of one answer, and of one partition in it
BULK_BYTES = MIB  # for which an answer waits, up to FETCH_WAIT_MS, where records come in bulk
OVERHEAD = 512  # bytes that a record may take beside key and value: batch header, lengths, time, offset

log = logging.getLogger("sickbay.log.kafka")
log.addHandler(logging.NullHandler())


def confluent() -> Any:
    """The package confluent_kafka. Raises LogError where it is not installed: appending goes without it."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise LogError("reading a Kafka log needs confluent-kafka: pip install 'sickbay[kafka]'") from None
    return confluent_kafka


def checked(settings: LogSettings) -> None:
    """Raises LogError where the settings cannot lead to a broker."""
    if not settings.brokers:
        raise LogError("[log] brokers is empty: name some brokers as host:port,host:port")
    if settings.sasl and not (settings.user and settings.password_file):
        raise LogError(f'[log] sasl = "{settings.sasl}" needs user and password_file')
    if settings.sasl == "PLAIN" and not (settings.tls or all(map(_own, settings.brokers.split(",")))):
        raise LogError('[log] sasl = "PLAIN" would send the password unencrypted: set tls = true, or use SCRAM')
    if bool(settings.certificate_file) != bool(settings.private_key_file):
        raise LogError("[log] certificate_file and private_key_file belong together")
    for key in ("ca_file", "certificate_file", "private_key_file"):
        path = getattr(settings, key)
        if path and not settings.tls:
            raise LogError(f"[log] {key} is set but tls is not true")
        if path:
            _text(key, path)


def _own(broker: str) -> bool:
    return is_loopback(broker.rpartition(":")[0].strip("[]"))


def password(settings: LogSettings) -> str:
    """What password_file holds, without the line's end. Raises LogError."""
    return _text("password_file", settings.password_file).rstrip("\r\n")


def _text(key: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"[log] {key} = {path!r}: {getattr(error, 'strerror', None) or error}") from None


def protocol(settings: LogSettings) -> str:
    """What both clients call the kind of connection."""
    return ("SASL_" if settings.sasl else "") + ("SSL" if settings.tls else "PLAINTEXT")


def properties(settings: LogSettings, **more: object) -> dict[str, object]:
    """What confluent-kafka is told; `more` with underscores for dots."""
    checked(settings)
    found: dict[str, object] = {
        "bootstrap.servers": settings.brokers,
        "client.id": CLIENT,
        "security.protocol": protocol(settings),
        "socket.timeout.ms": int(CALL_S * 1000),
        "socket.connection.setup.timeout.ms": 5000,
        "socket.keepalive.enable": True,
        "reconnect.backoff.max.ms": 2000,  # the default of 10 s is longer than a restarted broker needs
        "allow.auto.create.topics": False,
        "logger": log,
        "log_level": 0,  # every failed connection is a line otherwise; what matters is told by our errors
    }
    if settings.tls:
        files = (
            ("ca", settings.ca_file),
            ("certificate", settings.certificate_file),
            ("key", settings.private_key_file),
        )
        found |= {f"ssl.{name}.location": path for name, path in files if path}
    if settings.sasl:
        found |= {"sasl.mechanism": settings.sasl, "sasl.username": settings.user, "sasl.password": password(settings)}
    return found | {name.replace("_", "."): value for name, value in more.items()}


def fetching(settings: LogSettings, largest: int, partitions: int = 4, *, in_bulk: bool = False) -> dict[str, object]:
    """What every consumer is told. One answer has room for all `partitions` that it reads: the client asks for them in
    turns that move on by one only, so that those which found no room in the last answer may wait for half a minute.
    `in_bulk`: nobody waits for a single record, so that many come at once.
    """
    most = max(FETCH_BYTES, largest + 4 * KIB)
    return properties(
        settings,
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",  # a removed offset is never passed over
        isolation_level="read_committed",
        enable_partition_eof=True,
        fetch_wait_max_ms=FETCH_WAIT_MS,
        # A larger record comes all the same: the broker sends the first one whole.
        max_partition_fetch_bytes=max(LEAST_BYTES, FETCH_BYTES // partitions),
        queued_max_messages_kbytes=AHEAD_KBYTES,
        fetch_queue_backoff_ms=AGAIN_MS,
        fetch_max_bytes=most,
        fetch_min_bytes=BULK_BYTES if in_bulk else 1,
    ) | {"receive.message.max.bytes": most + MIB}


def arguments(settings: LogSettings, **more: object) -> dict[str, object]:
    """What kafka-python is told."""
    checked(settings)
    found: dict[str, object] = {
        "bootstrap_servers": settings.brokers.split(","),
        "client_id": CLIENT,
        "security_protocol": protocol(settings),
        "bootstrap_timeout_ms": 5000,
        "request_timeout_ms": int(CALL_S * 1000),
        "reconnect_backoff_max_ms": 2000,
    }
    if settings.tls:
        found["ssl_context"] = trust(settings)
    if settings.sasl:
        found |= {
            "sasl_mechanism": settings.sasl,
            "sasl_plain_username": settings.user,
            "sasl_plain_password": password(settings),
        }
    return found | more


def connected(make: Callable[..., Any], told: Mapping[str, object]) -> Any:
    """A client of kafka-python; where it cannot be made, its sockets are closed, which it does not do itself."""
    nets: list[KafkaNetClient] = []

    def net(**configs: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**configs))
        return nets[-1]

    try:
        return make(**told, kafka_client=net)
    except BaseException:
        for one in nets:
            one.close()
        raise


def trust(settings: LogSettings) -> ssl.SSLContext:
    """Whom we believe and who we are. Raises LogError."""
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.certificate_file:
            context.load_cert_chain(settings.certificate_file, settings.private_key_file)
    except (ssl.SSLError, OSError) as error:
        raise LogError(f"[log] ca_file, certificate_file or private_key_file: {error}") from None
    return context


def why_unreachable(settings: LogSettings) -> LogError:
    """What keeps us from the brokers, found by trying each: no name, no connection, no TLS, or silence."""
    reasons = [(address, *_tried(settings, address)) for address in settings.brokers.split(",")]
    for _, name, text in reasons:
        if name == "_SSL":
            return explained(name, text, settings)
    return explained("_TRANSPORT", "; ".join(f"{address}: {text}" for address, _, text in reasons), settings)


def reached(settings: LogSettings) -> bool:
    """Whether any broker takes a connection now."""
    return any(_tried(settings, address)[0] == "" for address in settings.brokers.split(","))


def _tried(settings: LogSettings, address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as plain:
            if settings.tls:
                plain.settimeout(2)
                with trust(settings).wrap_socket(plain, server_hostname=host):
                    pass
    except ssl.SSLError as error:
        return "_SSL", str(error)
    except (OSError, OverflowError) as error:
        return "_TRANSPORT", str(error)
    doubts = ("" if settings.tls else "; does it want TLS?") + ("; is the password right?" if settings.sasl else "")
    return "", "it takes connections but does not answer" + doubts
