"""The broker's and both clients' errors in our words, which say what to do. By name: no client is imported here."""

import re

from sickbay.log import LogBusy, LogError, LogFull, TooLarge
from sickbay.settings import LogSettings

# Names as librdkafka spells them; a leading underscore is an error of the client itself. `name_of` brings the classes
# of kafka-python to the same spelling.
UNREACHABLE = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "KAFKA_CONNECTION", "NO_BROKERS_AVAILABLE"})
SLOW = frozenset(
    {
        "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "KAFKA_TIMEOUT", "_WAIT_COORD",
        "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS",
        "NOT_LEADER_FOR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "UNSTABLE_OFFSET_COMMIT",
        "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH",
        "_QUEUE_FULL", "_WAIT_CACHE", "_DESTROY_BROKER", "NODE_NOT_READY", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_STATE",
    }
)  # fmt: skip
FEW_COPIES = frozenset({"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"})
TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "MESSAGE_SIZE_TOO_LARGE", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
WRONG_PASSWORD = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"})
MISTRUST = frozenset({"_SSL"})
DISK = frozenset({"KAFKA_STORAGE_ERROR", "KAFKA_STORAGE"})
TAKEN_OVER = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"})
MOVED = frozenset({"ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"})  # members came or went; this one may still be in
LOST = TAKEN_OVER | MOVED | {
    "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH",
    "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "TRANSACTION_ABORTABLE", "_ASSIGNMENT_LOST",
}  # fmt: skip


def name_of(error: BaseException) -> str:
    """The name of a kafka-python error as librdkafka would spell it: TopicAuthorizationFailedError → TOPIC_AUTH…"""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__.removesuffix("Error"))
    return words.upper()


def explained(name: str, text: str, settings: LogSettings, what: str = "") -> LogError:
    """The error of that `name` and the client's `text`; `what` is the topic or group it is about."""
    where = settings.brokers
    about = f"{what}: " if what else ""
    if name in TOO_LARGE:
        return TooLarge(f"{about}larger than the brokers take ({text}): raise max.message.bytes there, or split it")
    if name in MISSING:
        return missing(what, settings)
    if name in WRONG_PASSWORD:
        return LogError(
            f"{where} refused user {settings.user!r} ({text}): check [log] sasl, user and password_file, and that the "
            "user exists on the brokers"
        )
    if name in MISTRUST:
        return LogError(f"{where}: no TLS ({text}): check [log] tls and ca_file, and that the brokers' names match")
    if name.endswith("AUTHORIZATION_FAILED"):
        return LogError(
            f"{about}{where} does not allow it to user {settings.user or 'without a name'!r}: grant it there"
        )
    if name in FEW_COPIES:
        return LogBusy(f"{about}too few copies are in sync at {where}: start the brokers that are down")
    if name in DISK:
        return LogFull(f"{about}a broker at {where} cannot write its disk ({text}): free space or replace the disk")
    if name == "INVALID_SESSION_TIMEOUT":
        return LogError(
            f"{about}{where} allows no session so short or long ({text}): set group.min.session.timeout.ms=1000 at the "
            "brokers, or raise [log] session_s or lead_session_s to what they allow (6 s, where nothing was set there)"
        )
    if name == "UNSTABLE_OFFSET_COMMIT":
        return LogBusy(
            f"{about}a transaction at {where} is not ended yet: try again; where that lasts over a minute, the brokers "
            "lost its end when all of them died at once: kafka-transactions find-hanging, then abort"
        )
    if name in UNREACHABLE or name in SLOW:
        return LogBusy(f"{about}no answer from {where} ({text}): check that the brokers run and are reached from here")
    return LogError(f"{about}{where}: {name}: {text}")


def missing(topic: str, settings: LogSettings) -> LogError:
    """The error for a topic that the brokers do not have."""
    return LogError(
        f"topic {topic!r} is not at {settings.brokers}: run `sickbay process` there once, which creates all topics, or "
        "create it as deploy/topics says; or correct [log] prefix"
    )
