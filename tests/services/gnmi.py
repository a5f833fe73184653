"""Switches that speak gNMI, for tests: a server on the public protocol with TLS on, whose words the test says.

    with gnmi.running(folder) as switch:
        switch.state = {"/interfaces/interface[name=Ethernet1]/state/oper-status": "UP"}
        ...
        switch.tell({"/interfaces/interface[name=Ethernet1]/state/oper-status": "DOWN"})

A subscription is first told all of `state` below its paths, then a sync_response, then what `tell` and `delete` say.
"""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from collectors.cluster.gnmi_access import path_of
from tests.services.process import found

_CERTIFICATE = (
    "req", "-x509", "-newkey", "ec",
    "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=switch",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "switch.key", "-out", "switch.crt",
)  # fmt: skip
Tree = Mapping[str, object]


@dataclass(slots=True)
class Asked:
    """A subscription that stands."""

    target: str
    paths: tuple[str, ...]
    told: "queue.Queue[gnmi_pb2.SubscribeResponse | None]" = field(default_factory=queue.Queue)


class Switch(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """One switch. `half`: no answer has an end. `refuses`: words of paths that it does not know."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: dict[str, object] = {}
        self.models: tuple[str, ...] = ("openconfig-interfaces",)
        self.half, self.refuses, self.calls = False, tuple[str, ...](), list[str]()
        self.users: set[tuple[str, ...]] = set()
        self.behind_s = 0.0  # of its clock
        self.address = ""
        self._asked: list[Asked] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self, port: int = 0) -> None:
        """Serve on loopback, on a free port, or on this one."""
        key, certificate = ((self.folder / name).read_bytes() for name in ("switch.key", "switch.crt"))
        self._server = grpc.server(ThreadPoolExecutor(64), options=(("grpc.so_reuseport", 0),))
        gnmi_pb2_grpc.add_gNMIServicer_to_server(self, self._server)
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        bound = self._server.add_secure_port(f"127.0.0.1:{port}", credentials)
        self.address = f"127.0.0.1:{bound}"
        self._server.start()

    def stop(self) -> None:
        """End all streams and the server."""
        with self._lock:
            for asked in self._asked:
                asked.told.put(None)
        if self._server is not None:
            self._server.stop(0.2).wait(5.0)

    def restart(self) -> None:
        """Away and back at the same address."""
        self.stop()
        self.start(int(self.address.rpartition(":")[2]))

    @property
    def streams(self) -> int:
        """Subscriptions that stand."""
        with self._lock:
            return len(self._asked)

    def tell(self, tree: Tree, *, target: str = "") -> None:
        """Updates, to every subscription that asked for them; they stay in the state."""
        self.state |= tree
        self.say(gnmi_pb2.Notification(timestamp=self._now(), update=_updates(tree)), target=target)

    def delete(self, *paths: str, target: str = "") -> None:
        """Deletions, to every subscription of that target."""
        self.state = {path: value for path, value in self.state.items() if not path.startswith(paths)}
        self.say(gnmi_pb2.Notification(timestamp=self._now(), delete=[path_of(path) for path in paths]), target=target)

    def say(self, told: gnmi_pb2.Notification, *, target: str = "") -> None:
        """One notification as it stands, to every subscription that asked for its first path."""
        first = next(iter([*told.delete, *(update.path for update in told.update)]))
        with self._lock:
            for asked in self._asked:
                if asked.target == target and any(_below(first, path_of(path)) for path in asked.paths):
                    asked.told.put(gnmi_pb2.SubscribeResponse(update=told))

    def Capabilities(self, request: Any, context: Any) -> gnmi_pb2.CapabilityResponse:
        self.calls.append("Capabilities")
        self.users.add(tuple(value for key, value in context.invocation_metadata() if key in ("username", "password")))
        models = [gnmi_pb2.ModelData(name=name) for name in self.models]
        encodings = [gnmi_pb2.JSON_IETF, gnmi_pb2.PROTO]
        return gnmi_pb2.CapabilityResponse(supported_models=models, supported_encodings=encodings)

    def Set(self, request: Any, context: Any) -> Any:
        self.calls.append("Set")
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "nobody may")

    def Subscribe(self, requests: Any, context: Any) -> Iterator[gnmi_pb2.SubscribeResponse]:
        self.calls.append("Subscribe")
        wanted = next(requests).subscribe
        asked = Asked(wanted.prefix.target, tuple(_text(one.path) for one in wanted.subscription))
        if any(word in path for word in self.refuses for path in asked.paths):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unknown path")
        with self._lock:
            self._asked.append(asked)
            state = dict(self.state)
        try:
            yield from self._first(asked, state)
            while (told := asked.told.get()) is not None and context.is_active():
                yield told
        finally:
            with self._lock:
                self._asked.remove(asked)

    def _first(self, asked: Asked, state: Tree) -> Iterator[gnmi_pb2.SubscribeResponse]:
        paths = [path_of(path) for path in asked.paths]
        tree = {path: value for path, value in state.items() if any(_below(path_of(path), one) for one in paths)}
        for path, value in tree.items():
            told = gnmi_pb2.Notification(timestamp=self._now(), update=_updates({path: value}))
            told.prefix.target = asked.target
            yield gnmi_pb2.SubscribeResponse(update=told)
        if not self.half:
            yield gnmi_pb2.SubscribeResponse(sync_response=True)

    def _now(self) -> int:
        return time.time_ns() - round(self.behind_s * 1e9)


@contextmanager
def running(folder: Path) -> Iterator[Switch]:
    """A switch that serves; stopped at the end. Its certificate is `switch.crt` in the folder."""
    (tool,) = found("openssl")
    subprocess.run([tool, *_CERTIFICATE], cwd=folder, check=True, capture_output=True, timeout=30)
    switch = Switch(folder)
    switch.start()
    try:
        yield switch
    finally:
        switch.stop()


def _updates(tree: Tree) -> list[gnmi_pb2.Update]:
    return [gnmi_pb2.Update(path=path_of(path), val=typed(value)) for path, value in tree.items()]


def typed(value: object) -> gnmi_pb2.TypedValue:
    """A value as devices send it: trees as JSON, whole numbers as such, all else as text."""
    if isinstance(value, gnmi_pb2.TypedValue):
        return value
    if isinstance(value, dict | list):
        return gnmi_pb2.TypedValue(json_ietf_val=json.dumps(value).encode())
    if isinstance(value, float):
        return gnmi_pb2.TypedValue(double_val=value)
    return gnmi_pb2.TypedValue(uint_val=value) if isinstance(value, int) else gnmi_pb2.TypedValue(string_val=str(value))


def _text(path: gnmi_pb2.Path) -> str:
    words = ("".join([elem.name, *(f"[{key}={value}]" for key, value in elem.key.items())]) for elem in path.elem)
    return "/" + "/".join(words)


def _below(path: gnmi_pb2.Path, wanted: gnmi_pb2.Path) -> bool:
    """Whether a path lies in, or above, what was asked for."""
    return all(
        own.name.rstrip("*") == one.name.rstrip("*") or one.name.endswith("*")
        for own, one in zip(path.elem, wanted.elem, strict=False)
    )
