"""The sender of the throughput benchmark, a process of its own: agents or relays of a whole cluster at a steady pace.

`python -m benchmarks.throughput_load` with a JSON of `Load` as its argument. It says "ready", waits for a line, and
then sends until a second line or the end of its input; `stats` is a file that it rewrites every second.
"""

import json
import os
import select
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.kafka_requests import Connection, request, seal_batch, value_at
from sickbay import packs, wire
from sickbay.topics import TELEMETRY, TOPICS, partition_of
from simulator.telemetry import Fleet
from simulator.telemetry_frames import Frames, growth, seal, values_in

SLOT_S = 0.05  # frames that are due so close together are changed together
INCARNATION = 1
TOTALS = ("sent", "acknowledged", "refused", "lost", "open")


class Load(Struct, frozen=True, kw_only=True):
    """What is sent. `relayed`: hosts a record, 0 = one record a host. `pace`: rows and frames come so much faster."""

    address: str
    stats: str
    hosts: int
    seed: int = 1
    relayed: int = 0
    pace: float = 1.0
    interval_s: int = 5
    connections: int = 64
    topic: str = TELEMETRY


class Sender:
    """All requests of a cluster, changed in place interval by interval."""

    def __init__(self, load: Load) -> None:
        self.load, self.fleet = load, Fleet(load.seed, load.hosts)
        self.every_s = load.interval_s / load.pace
        self.group = load.relayed or 1
        self._buffer, self._batch, self._value = self._requests()
        self.count, self.request_size = (int(one) for one in self._buffer.shape)
        self.slots: int = max(1, min(round(self.every_s / SLOT_S), self.count))
        self._ends = [self.count * slot // self.slots for slot in range(self.slots + 1)]
        frames = self._frames_in(self._buffer)
        self._frames = Frames(frames)
        together = -(-self.count // self.slots) * self.group
        self._growth = growth(self.fleet, load.interval_s, load.interval_s, together)
        before = self._frames.times[(0,) * (self._frames.times.ndim - 1)]
        self._times = np.round((before - before.max()) / load.pace).astype(np.int64)  # the newest row is of now
        host, port = load.address.split(",")[0].rsplit(":", 1)
        self.connections = [Connection(host, int(port)) for _ in range(min(load.connections, self.count))]
        self._flat = self._buffer.data.cast("B")

    def _requests(self) -> tuple[NDArray[np.uint8], int, int]:
        """Every request, uint8 [requests, size]; where in each the batch and the value begin."""
        load, group, found = self.load, list[bytes](), list[bytes]()
        batch = at = 0
        hosts = load.hosts // self.group * self.group
        encode = partial(wire.encode, sequence=0, incarnation=INCARNATION, sent_ms=0)
        for host, tables in self.fleet.matrices(range(hosts), int(time.time()), load.interval_s):
            group.append(encode(host, tables))
            if len(group) == self.group:
                key = f"pod{len(found):06d}" if load.relayed else host
                value = packs.pack(group) if load.relayed else group[0]
                where = partition_of(key.encode(), TOPICS[TELEMETRY].partitions)
                whole, batch = request(load.topic, where, key.encode(), value)
                at = value_at(whole, value)
                found.append(whole)
                self.frame_size = len(group[0])
                group.clear()
        return np.frombuffer(bytearray(b"".join(found)), np.uint8).reshape(len(found), -1), batch, at

    @property
    def first_frame(self) -> int:
        """Where the first frame of a request begins."""
        return self._value + (16 + 4 * self.group if self.load.relayed else 0)

    def _frames_in(self, buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """All frames as a view, uint8 [frames, size]: those of a request follow each other."""
        if not self.load.relayed:
            return buffer[:, self.first_frame : self.first_frame + self.frame_size]
        inside = buffer[:, self.first_frame : self.first_frame + self.group * self.frame_size]
        shape = (len(buffer), self.group, self.frame_size)
        return np.lib.stride_tricks.as_strided(inside, shape, (inside.strides[0], self.frame_size, 1))

    def send(self, slot: int, interval: int, due_ms: int) -> int:
        """The requests of one slot, brought to `due_ms`. Returns how many frames."""
        first, end = self._ends[slot], self._ends[slot + 1]
        self._change(slice(first, end), interval, due_ms)
        size, frame, step = self.request_size, self.first_frame, self.frame_size
        for number in range(first, end):
            whole = self._flat[number * size : (number + 1) * size]
            for at in range(frame, frame + self.group * step, step):
                seal(whole[at : at + step])
            if self.load.relayed:
                seal(whole[self._value : -1])
            seal_batch(whole, self._batch)
            self.connections[number % len(self.connections)].send(whole)
        return (end - first) * self.group

    def _change(self, which: slice, interval: int, due_ms: int) -> None:
        frames = self._frames
        self._growth.apply(frames, which, interval)
        frames.times[which] = self._times + due_ms
        frames.sequence[which] = interval + 1
        frames.sent_ms[which] = due_ms

    def serve(self) -> None:
        """Hand over what waits and take the answers."""
        for connection in self.connections:
            connection.serve()

    def totals(self) -> dict[str, int]:
        """Requests sent, and what became of them."""
        return {what: sum(getattr(one, what) for one in self.connections) for what in TOTALS}


def run(sender: Sender, asked_to_end: Any) -> None:
    """Sends at its pace until asked to end. What the broker does not take in time is sent late, never left out."""
    every_s, slots = sender.every_s, sender.slots
    began, frames, told_s, late_s = time.time(), 0, 0.0, 0.0
    for number in range(sys.maxsize):
        due = began + number * every_s / slots
        while (left := due - time.time()) > 0 or _blocked(sender):
            sender.serve()
            time.sleep(min(max(left, 0.002), SLOT_S / 2))
            if asked_to_end():
                return
        late_s = max(late_s, -left)
        sender.serve()
        interval, slot = divmod(number, slots)
        frames += sender.send(slot, interval, int(time.time() * 1000))
        if (now := time.monotonic()) - told_s >= 1:
            told_s = now
            if asked_to_end():
                return
            _tell(sender, frames, -left, late_s)


def _blocked(sender: Sender) -> bool:
    """Whether the requests of the interval before are still under way: their bytes must not be changed yet."""
    return sender.totals()["open"] > sender.count - 2 * (sender.count // sender.slots + 1)


def _tell(sender: Sender, frames: int, late_s: float, latest_s: float) -> None:
    told = {"frames": frames, "late_s": round(late_s, 2), "latest_s": round(latest_s, 2)}
    path = Path(sender.load.stats)
    path.with_suffix(".new").write_text(json.dumps(told | sender.totals()))
    os.replace(path.with_suffix(".new"), path)


def main() -> None:
    """The process."""
    load = msgspec.json.decode(sys.argv[1], type=Load)
    sender = Sender(load)
    facts = {
        "values_per_frame": values_in(load.interval_s),
        "frame_bytes": sender.frame_size,
        "request_bytes": sender.request_size,
        "requests": sender.count,  # in `every_s`
        "frames_per_request": sender.group,
        "every_s": sender.every_s,
    }
    print(json.dumps(facts), flush=True)
    sys.stdin.readline()
    run(sender, lambda: bool(select.select([sys.stdin], [], [], 0)[0]))
    for connection in sender.connections:
        connection.close()


if __name__ == "__main__":
    main()
