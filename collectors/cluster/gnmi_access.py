"""How a switch is reached over gNMI: the connection, which is encrypted always, and what is asked on it."""

import os
import re
from dataclasses import dataclass

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when it is loaded: else it writes lines of its own, one a try

import grpc
import grpc.aio
from pygnmi.spec.v080 import gnmi_pb2

from collectors.cluster.asking import Target
from collectors.formats.gnmi_openconfig import Subscribed

MOST_BYTES = 16 << 20  # of one notification
KEEPALIVE_MS = 30_000  # of a silent connection: one that is cut on the way is found out
_ELEMENT = re.compile(r"([^/\[\]]+)(?:\[([^=\]]+)=([^\]]*)\])?")


@dataclass(frozen=True, slots=True)
class Access:
    """How switches are asked. PEM texts, None for what there is not."""

    sample_s: float = 10.0
    timeout_s: float = 10.0
    user: str = ""
    password: str = ""
    roots: bytes | None = None
    certificate: bytes | None = None
    private_key: bytes | None = None
    certificate_name: str = ""

    def channel(self, target: Target) -> grpc.aio.Channel:
        """A connection, encrypted always."""
        wanted = self.certificate_name.replace("{name}", target.name)
        credentials = grpc.ssl_channel_credentials(self.roots, self.private_key, self.certificate)
        return grpc.aio.secure_channel(
            target.address,
            credentials,
            options=(
                *((("grpc.ssl_target_name_override", wanted),) if wanted else ()),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_receive_message_length", MOST_BYTES),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", round(self.timeout_s * 1000)),
                ("grpc.initial_reconnect_backoff_ms", 1_000),
                ("grpc.enable_retries", 0),
            ),
        )

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """User and password, as gNMI has them: over the encrypted connection only."""
        return (("username", self.user), ("password", self.password)) if self.user else ()


def request(question: Subscribed, encoding: int, sampled: bool, every_s: float) -> gnmi_pb2.SubscribeRequest:
    """The subscription of one question: as it changes, or sampled."""
    mode = gnmi_pb2.SAMPLE if sampled else gnmi_pb2.ON_CHANGE
    interval = round(every_s * 1e9) if sampled else 0
    wanted = [gnmi_pb2.Subscription(path=path_of(path), mode=mode, sample_interval=interval) for path in question.paths]
    told = gnmi_pb2.SubscriptionList(
        prefix=gnmi_pb2.Path(target=question.target) if question.target else None,
        subscription=wanted,
        mode=gnmi_pb2.SubscriptionList.STREAM,
        encoding=encoding,
        allow_aggregation=True,
    )
    return gnmi_pb2.SubscribeRequest(subscribe=told)


def path_of(text: str) -> gnmi_pb2.Path:
    """A path as it is written: `/interfaces/interface[name=*]/state`."""
    path = gnmi_pb2.Path()
    for word, key, value in _ELEMENT.findall(text):
        elem = path.elem.add(name=word)
        if key:
            elem.key[key] = value
    return path
