"""Prometheus remote_write 1.0 and 2.0: the series of a request, under the same mapping as a scrape.

Sources: prometheus.io/docs/specs/prw/remote_write_spec and remote_write_spec_2_0. A staleness marker ends a series and
is no value. Native histograms and exemplars are counted and left out: no column takes one. Samples may come out of
order and twice: windows take them by their own time.
"""

import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from collectors.formats.metric_names import HOST_INFO, NIC_INFO, UP, is_known
from collectors.formats.series_matrix import Series
from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.memory import SeriesMemory
from collectors.listen.series import told_of
from collectors.listen.write_schema import request as v2
from collectors.listen.write_schema import write_request as v1

MAX_SERIES = 50_000  # of one request: Prometheus sends 2,000 samples at once
MAX_SAMPLES = 200_000
MAX_LABELS = 128  # of one series
STALE = 0x7FF0000000000002  # the bits of the marker, a NaN of its own (prometheus/model/value)
QUIET = 1 << 51  # a processor may set this bit of a NaN that passes through it
SCRAPED = frozenset({UP, HOST_INFO, NIC_INFO})  # read for what they tell of others
PROTO_V1, PROTO_V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"
WRITTEN = "X-Prometheus-Remote-Write-{}-Written"


def read(request: Request, memory: SeriesMemory, allowed: Allowed) -> Told:
    """What the series tell. The answer says how many samples were taken, as 2.0 wants."""
    version = _version(request)
    message = _parsed(request.body, version)
    told = Told(status=0)
    series = list(_series_v2(message, told) if version == PROTO_V2 else _series_v1(message, told))
    told_of(series, request, memory, allowed, told)
    told.headers = {WRITTEN.format("Samples"): str(told.written)}
    told.headers |= {WRITTEN.format(what): "0" for what in ("Histograms", "Exemplars")}
    return told


def _version(request: Request) -> str:
    """Which message the body is, by its content type. Raises Unfit (415) for another."""
    if request.media_type != "application/x-protobuf":
        raise Unfit(f"Content-Type must be application/x-protobuf, not {request.media_type[:80]!r}", 415, "type")
    pieces = request.headers.get("content-type", "").split(";")[1:]
    told = dict(piece.strip().split("=", 1) for piece in pieces if "=" in piece)
    proto = told.get("proto", PROTO_V1).strip('"')
    if proto not in (PROTO_V1, PROTO_V2):
        raise Unfit(f"proto={proto[:80]!r} is not read: {PROTO_V1} or {PROTO_V2}", 415, "type")
    return proto


def _parsed(body: bytes, version: str) -> Any:
    message = (v2 if version == PROTO_V2 else v1)()()
    try:
        message.ParseFromString(body)
    except (DecodeError, RecursionError, ValueError) as error:
        raise Unfit(f"not a {version}: {str(error)[:200]}") from None
    if len(message.timeseries) > MAX_SERIES:
        raise Unfit(f"{len(message.timeseries)} series, one request holds {MAX_SERIES}", 413, "too_large")
    if sum(len(one.samples) for one in message.timeseries) > MAX_SAMPLES:
        raise Unfit(f"more samples than the {MAX_SAMPLES} that one request holds", 413, "too_large")
    return message


def _series_v1(message: Any, told: Told) -> Iterator[Series]:
    for one in message.timeseries:
        if len(one.labels) > MAX_LABELS:
            told.refuse("labels", len(one.samples), f"a series of {len(one.labels)} labels", 400)
            continue
        yield from _series({label.name: label.value for label in one.labels}, one, told)


def _series_v2(message: Any, told: Told) -> Iterator[Series]:
    symbols = list(message.symbols)
    if symbols and symbols[0]:
        raise Unfit("the table of symbols must begin with an empty one")
    for one in message.timeseries:
        refs = list(one.labels_refs)
        if len(refs) % 2 or len(refs) > 2 * MAX_LABELS or any(ref >= len(symbols) for ref in refs):
            told.refuse("labels", len(one.samples), "labels that are not in the table of symbols", 400)
            continue
        names = (symbols[ref] for ref in refs)
        yield from _series(dict(zip(names, names, strict=True)), one, told)


def _series(labels: dict[str, str], one: Any, told: Told) -> Iterator[Series]:
    """A series with its samples; its staleness markers are left out, as missing rows say the same."""
    if one.histograms:
        told.refuse("native_histogram", len(one.histograms))
    name, samples = labels.get("__name__", ""), one.samples
    if not is_known(name):
        told.written += len(samples)  # read and of no use here: nothing that the sender could mend
        return
    at_ms, values = [sample.timestamp for sample in samples], [sample.value for sample in samples]
    if any(value != value and is_stale(value) for value in values):
        there = [place for place, value in enumerate(values) if value == value or not is_stale(value)]
        told.written += len(values) - len(there)
        at_ms, values = [at_ms[place] for place in there], [values[place] for place in there]
    if name in SCRAPED:
        told.written += len(values)
    if values:
        yield Series(labels, (at_ms, values))


def is_stale(value: float) -> bool:
    """Whether a NaN is the marker that ends a series."""
    return int.from_bytes(struct.pack("<d", value), "little") & ~QUIET == STALE
