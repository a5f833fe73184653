"""What exporters on this host say of its accelerators (and of ports and the host itself), scraped like Prometheus does.

That it answers is a measurement too: a device that hangs often takes its exporter with it. One that dates its values
and goes on answering with old ones no longer asks the device: it is as good as silent.
"""

import math
import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from collectors.agent.source import Collected, Host, Seen
from collectors.formats import prometheus_text
from collectors.formats.reading import Reading, Tally
from collectors.http_get import HttpError, address_of, get
from collectors.lines import AHEAD_MS
from sickbay.components import HOST_SCOPED, UNKNOWN, Kind, Name, name
from sickbay.messages import Event, Identity
from sickbay.schema import TABLES, Samples

LATE_MS = 60_000  # a value that its exporter dates older is none of now: caches are of seconds
MAX_NAMES = 20_000  # remembered
_LOOPBACK = re.compile(r"localhost$|127\.|::1$")


class AcceleratorExporter:
    """The collector `accelerator_exporter`, one for each address."""

    asks_driver = False

    def __init__(self, host: Host, url: str, place: int) -> None:
        self.name = "accelerator_exporter" + (f"_{place}" if place else "")
        self.interval_s = host.settings.sample_s
        self._host, self._url, self._address = host, url, address_of(url)
        self._here = bool(_LOOPBACK.match(self._address.host))
        self._exporter = prometheus_text.Exporter(Tally())  # what it teaches stays known
        self._names: dict[Name, tuple[Name, str]] = {}  # as told -> our name, and the other host it speaks of
        self._stranger = ""
        self._oldest_ms = 0  # of the values of one answer that are too old
        self._of_accelerators = False  # known once it has told of one

    def collect(self, now_ms: int) -> Collected:
        """One scrape."""
        try:
            body = get(self._address, self._host.settings.timeout_s)
        except HttpError as error:
            return Collected(self._silent(now_ms), problem=f"{self._url}: {error}")
        self._stranger, self._oldest_ms = "", 0
        seen = [one for reading in self._exporter.scrape(body, now_ms) for one in self._seen(reading, now_ms)]
        if self._stranger:
            return Collected(problem=f"{self._url} speaks of host {self._stranger}, not of {self._host.name}")
        tables = {one.record.table for one in seen if isinstance(one.record, Samples)}
        if self._oldest_ms and "accelerator" not in tables:
            age_s = (now_ms - self._oldest_ms) // 1000
            problem = f"{self._url}: answers with values of {age_s} s ago, so it no longer asks its devices"
            return Collected([*seen, *self._silent(now_ms)], problem=problem)
        if not tables:
            why = "with values that name no device" if self._exporter.nameless else "without any series that is known"
            return Collected(self._silent(now_ms), problem=f"{self._url}: answers {why}")
        self._of_accelerators = self._of_accelerators or "accelerator" in tables
        if "accelerator" in tables:
            self._host.shared.measured_ms = now_ms
        return Collected(seen if "host" in tables else [*seen, *self._up(now_ms, 1.0)])

    def close(self) -> None:
        """Nothing is held open."""

    def _silent(self, now_ms: int) -> list[Seen]:
        return self._up(now_ms, 0.0) if self._of_accelerators else []

    def _up(self, now_ms: int, answered: float) -> list[Seen]:
        """Whether it answered; the host itself is up, or nobody would ask."""
        host = [name(Kind.HOST, self._host.name)]
        record = Samples("host", host, np.array([now_ms], np.int64), self._ups(1, answered))
        return [Seen(record, now_ms, self._url, host=self._host.name)]

    def _ups(self, rows: int, answered: float) -> dict[str, NDArray[np.float64]]:
        return {
            "up": np.ones(rows),
            **({"accelerator_source_up": np.full(rows, answered)} if self._of_accelerators else {}),
        }

    def _seen(self, reading: Reading, now_ms: int) -> Iterator[Seen]:
        record = reading.record
        if isinstance(record, Samples):
            fresh = self._samples(record, now_ms)
            if fresh is None:
                return
            record = fresh
        elif isinstance(record, Event):
            record = msgspec.structs.replace(record, component=self._named(record.component))
        elif isinstance(record, Identity) and record.kind != Kind.HOST:
            self._named(name(Kind.HOST, record.host))
            record = msgspec.structs.replace(record, host=self._host.name)
        else:
            return
        yield Seen(record, now_ms, self._url, host=self._host.name)

    def _samples(self, samples: Samples, now_ms: int) -> Samples | None:
        """The rows that are of now; None where none is. A clock that runs ahead is not the exporter's word of age."""
        times = np.asarray(samples.at_ms, np.int64)
        kept = times > now_ms - LATE_MS
        if not kept.all():
            self._of_accelerators = self._of_accelerators or samples.table == "accelerator"
            self._oldest_ms = self._oldest_ms or int(times[~kept].max())
        if not kept.any():
            return None
        component = [self._named(one) for one, stays in zip(samples.component, kept, strict=True) if stays]
        values = {name: column[kept] for name, column in samples.values.items()}
        if len(self._host.settings.exporters) > 1:
            values |= self._own_counters(samples.table, component, values, now_ms)
        values |= self._ups(len(component), 1.0) if samples.table == "host" else {}
        times = times[kept]
        return Samples(samples.table, component, np.where(times <= now_ms + AHEAD_MS, times, now_ms), values)

    def _own_counters(
        self, table: str, component: Sequence[Name], values: dict[str, NDArray[np.float64]], now_ms: int
    ) -> dict[str, NDArray[np.float64]]:
        """Counters without those that another exporter of this host tells already."""
        counters = [one.name for one in TABLES[table].columns if one.type == "counter" and one.name in values]
        return {
            column: np.array(
                [
                    value if math.isnan(value) or self._counts(one, column, now_ms) else math.nan
                    for one, value in zip(component, values[column].tolist(), strict=True)
                ]
            )
            for column in counters
        }

    def _counts(self, component: Name, column: str, now_ms: int) -> bool:
        counted = self._host.shared.counted
        owner, at_ms = counted.get((component, column), (self.name, now_ms))
        if owner != self.name and 0 <= now_ms - at_ms < LATE_MS:
            return False
        if len(counted) < MAX_NAMES or (component, column) in counted:
            counted[component, column] = (self.name, now_ms)
        return True

    def _named(self, component: Name) -> Name:
        """The component under this host's own name, whatever the exporter takes for it (a pod, an alias)."""
        known = self._names.get(component)
        if known is None:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            known = self._names[component] = self._placed(component)
        own, stranger = known
        self._stranger = self._stranger or stranger
        return own

    def _placed(self, component: Name) -> tuple[Name, str]:
        kind, _, rest = component.partition(":")
        told, slash, tail = rest.partition("/")
        if kind not in HOST_SCOPED:
            return component, ""
        ours = self._here or told in ("", UNKNOWN, self._address.host) or self._host.is_self(told)
        # An address elsewhere that tells of another host's devices: never ours to blame.
        return f"{kind}:{self._host.name}{slash}{tail}", "" if ours else told


def collectors(host: Host) -> Sequence[AcceleratorExporter]:
    """One for each address in the settings."""
    return [AcceleratorExporter(host, url, place) for place, url in enumerate(host.settings.exporters)]
