"""What requests of OTLP/HTTP have in common: protobuf or JSON in, the sender's host, and the answers of the protocol.

Sources: opentelemetry.io/docs/specs/otlp, opentelemetry.io/docs/specs/semconv/resource/host.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from collectors.listen import Request, Told, Unfit

MAX_ATTRIBUTES = 128  # of one resource, point or record
MAX_RESOURCES = 10_000  # of one request, and so many scopes
MAX_OBJECTS = 200_000  # of a request in JSON: they are what its reading takes its time for
MAX_TEXT = 4096  # characters of a value
HOST_KEYS = ("host.name", "k8s.node.name")
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def parsed(request: Request, kind: type[Any]) -> Any:
    """The message in a request. Raises Unfit."""
    message = kind()
    try:
        if request.media_type == PROTOBUF:
            message.ParseFromString(request.body)
        elif request.media_type == JSON:
            if request.body.count(b"{") > MAX_OBJECTS:
                raise Unfit(f"more than {MAX_OBJECTS} objects: send less at once, or protobuf", 413, "too_large")
            json_format.Parse(request.body, message, ignore_unknown_fields=True, max_recursion_depth=20)
        else:
            raise Unfit(f"Content-Type must be {PROTOBUF} or {JSON}", 415, "type")
    except (DecodeError, json_format.ParseError, RecursionError, ValueError) as error:
        if isinstance(error, Unfit):
            raise
        raise Unfit(f"not a request of OTLP: {str(error)[:200]}") from None
    return message


def within(resources: Any, scopes: str) -> Any:
    """The resources of a request. Raises Unfit for too many of them, or of their scopes."""
    if len(resources) > MAX_RESOURCES or sum(len(getattr(one, scopes)) for one in resources) > MAX_RESOURCES:
        raise Unfit(f"more than {MAX_RESOURCES} resources or scopes: send less at once", 413, "too_large")
    return resources


def answered(request: Request, told: Told, answer: Any, rejected: str) -> None:
    """The protocol's own answer: a part that was left out is told in it, and is no failure of the request."""
    told.status = 0
    if told.note:
        setattr(answer.partial_success, rejected, sum(told.left_out.values()))
        answer.partial_success.error_message = told.note
    if request.media_type == JSON:
        told.body, told.content_type = json_format.MessageToJson(answer).encode(), JSON
    else:
        told.body, told.content_type = answer.SerializeToString(), PROTOBUF


def attributes(pairs: Iterable[Any]) -> dict[str, str]:
    """Attributes as texts; nested ones are left out."""
    found: dict[str, str] = {}
    for pair in pairs:
        if len(found) >= MAX_ATTRIBUTES:
            break
        if (text := text_of(pair.value)) and len(pair.key) <= MAX_TEXT:
            found[pair.key] = text
    return found


def text_of(value: Any) -> str:
    """A value as a text, "" where it is a list, a map or bytes."""
    match value.WhichOneof("value"):
        case "string_value":
            return str(value.string_value)[:MAX_TEXT]
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value" | "double_value" as which:
            return f"{getattr(value, which):.15g}"
    return ""


def host_of(resource: Mapping[str, str]) -> str:
    """The host that a resource names, "" where it names none."""
    return next((resource[key] for key in HOST_KEYS if resource.get(key)), "")
