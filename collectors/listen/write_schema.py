"""The two messages of Prometheus remote_write, as descriptors: what protoc would make of the published files.

Only fields that are read are declared; a parser passes over the others. Sources: prometheus/prometheus
prompb/remote.proto and prompb/types.proto (1.0), prompb/io/prometheus/write/v2/types.proto (2.0).
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_KINDS = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "double": _KINDS.TYPE_DOUBLE,
    "int64": _KINDS.TYPE_INT64,
    "uint32": _KINDS.TYPE_UINT32,
    "string": _KINDS.TYPE_STRING,
    "bytes": _KINDS.TYPE_BYTES,
}


class _Field(NamedTuple):
    number: int
    type: str  # a scalar, or the name of a message of the same file
    repeated: bool = False


_Messages = Mapping[str, Mapping[str, _Field]]

_V1: _Messages = {
    "Label": {"name": _Field(1, "string"), "value": _Field(2, "string")},
    "Sample": {"value": _Field(1, "double"), "timestamp": _Field(2, "int64")},
    "TimeSeries": {
        "labels": _Field(1, "Label", True),
        "samples": _Field(2, "Sample", True),
        "exemplars": _Field(3, "bytes", True),
        "histograms": _Field(4, "bytes", True),  # native ones: counted, not read
    },
    "WriteRequest": {"timeseries": _Field(1, "TimeSeries", True), "metadata": _Field(3, "bytes", True)},
}
_V2: _Messages = {
    "Sample": {"value": _Field(1, "double"), "timestamp": _Field(2, "int64")},
    "TimeSeries": {
        "labels_refs": _Field(1, "uint32", True),
        "samples": _Field(2, "Sample", True),
        "histograms": _Field(3, "bytes", True),
        "exemplars": _Field(4, "bytes", True),
        "created_timestamp": _Field(6, "int64"),
    },
    "Request": {"symbols": _Field(4, "string", True), "timeseries": _Field(5, "TimeSeries", True)},
}


@cache
def write_request() -> Any:
    """The class of `prometheus.WriteRequest`."""
    return _made("prometheus", _V1, "WriteRequest")


@cache
def request() -> Any:
    """The class of `io.prometheus.write.v2.Request`."""
    return _made("io.prometheus.write.v2", _V2, "Request")


def _made(package: str, messages: _Messages, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()  # of its own: another package may bring the same names
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for message, fields in messages.items():
        _describe(file.message_type.add(name=message), package, fields)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def _describe(message: Any, package: str, fields: Mapping[str, _Field]) -> None:
    for name, (number, type_, repeated) in fields.items():
        label = _KINDS.LABEL_REPEATED if repeated else _KINDS.LABEL_OPTIONAL
        told = message.field.add(name=name, number=number, label=label)
        if type_ in _TYPES:
            told.type = _TYPES[type_]
        else:
            told.type, told.type_name = _KINDS.TYPE_MESSAGE, f".{package}.{type_}"
