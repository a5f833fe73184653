"""Settings of what is asked from one place for the whole cluster, and of what listens: a class a section."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

URL = r"^(https?://[^\s?#]+)?$"
LISTEN = r"^([^\s]*:\d+)?$"


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. Each field is annotated with what is right for it: errors and docs say it."""


class Fabric(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[fabric]`: the fabric, as its own tools or its fabric manager tell it."""

    bin: Annotated[str, Meta(description="the folder of the fabric's tools; empty: as found on PATH")] = ""
    device: Annotated[str, Meta(description="the adapter to ask through, as the tools name it; empty: no sweeps")] = ""
    port: Annotated[int, Meta(ge=0, le=255, description="the adapter's port; 0: the first that is up")] = 0
    sweep_s: Annotated[float, Meta(ge=5, le=3600, description="seconds between sweeps of the topology")] = 60.0
    counters_s: Annotated[float, Meta(ge=1, le=600, description="seconds between readings of the counters")] = 10.0
    timeout_s: Annotated[float, Meta(ge=1, le=300, description="seconds a sweep may take")] = 60.0
    manager_url: Annotated[str, Meta(pattern=URL, description="the fabric manager's REST address; empty: none")] = ""
    manager_token_file: Annotated[str, Meta(description="a file that holds its token, or user:password")] = ""
    telemetry_url: Annotated[
        str,
        Meta(pattern=URL, description="the fabric manager's telemetry, as http://10.3.0.1:9001/metrics; empty: none"),
    ] = ""
    ca_file: Annotated[str, Meta(description="certificates to trust; empty: the system's")] = ""


class Gnmi(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[gnmi]`: switches that stream their state."""

    targets: Annotated[
        tuple[str, ...], Meta(description="name=host:port of each switch, such as leaf1=10.0.0.1:9339")
    ] = ()
    user: Annotated[str, Meta(description="user name")] = ""
    password_file: Annotated[str, Meta(description="a file that holds the password")] = ""
    ca_file: Annotated[str, Meta(description="certificates to trust; empty: the system's")] = ""
    certificate_file: Annotated[str, Meta(description="the client's certificate, where switches want one")] = ""
    private_key_file: Annotated[str, Meta(description="the client's private key")] = ""
    certificate_name: Annotated[
        str, Meta(description="the name in the switches' certificates, {name} for the target's; empty: the address")
    ] = ""
    sample_s: Annotated[float, Meta(ge=1, le=600, description="seconds between samples of counters")] = 10.0
    timeout_s: Annotated[float, Meta(ge=1, le=60, description="seconds a switch may take to answer")] = 10.0


class Snmp(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[snmp]`: switches and facility devices that are asked over SNMP."""

    targets: Annotated[tuple[str, ...], Meta(description="name=host or name=host:port of each device")] = ()
    community_file: Annotated[str, Meta(description="a file that holds the community, for version 2c")] = ""
    user: Annotated[str, Meta(max_length=32, description="the user, for version 3; empty: version 2c")] = ""
    auth_key_file: Annotated[str, Meta(description="a file that holds the user's authentication pass phrase")] = ""
    auth_protocol: Annotated[
        Literal["sha", "sha256", "sha384", "sha512"], Meta(description="how the user is authenticated")
    ] = "sha256"
    privacy_key_file: Annotated[
        str, Meta(description="a file that holds the user's encryption pass phrase; by AES-128")
    ] = ""
    poll_s: Annotated[float, Meta(ge=1, le=600, description="seconds between readings")] = 30.0
    timeout_s: Annotated[float, Meta(ge=1, le=60, description="seconds a device may take for all it is asked")] = 10.0


class Syslog(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[syslog]`: receives the logs of switches."""

    listen: Annotated[str, Meta(pattern=LISTEN, description="host:port, over UDP and TCP; empty: nowhere")] = ""
    senders: Annotated[
        tuple[str, ...],
        Meta(description="name=address of each switch that may send; anybody else is counted and dropped"),
    ] = ()


class Kubernetes(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[kubernetes]`: the cluster to watch."""

    kubeconfig: Annotated[str, Meta(description="how to reach it; empty: as a pod of the cluster")] = ""
    in_pod: Annotated[
        bool,
        Meta(description="true: `sickbay up` watches the cluster of its own pod; with a kubeconfig it watches anyway"),
    ] = False
    context: Annotated[str, Meta(description="the context in that file; empty: the current one")] = ""
    namespaces: Annotated[tuple[str, ...], Meta(description="namespaces of jobs; empty: all")] = ()
    timeout_s: Annotated[float, Meta(ge=1, le=60, description="seconds an answer may take")] = 10.0


class Inventory(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[inventory]`: what stands where, and hangs on which power, cooling and switch."""

    files: Annotated[tuple[str, ...], Meta(description="CSV or JSON files")] = ()
    netbox_url: Annotated[str, Meta(pattern=URL, description="NetBox, such as https://netbox.example; empty: none")] = (
        ""
    )
    token_file: Annotated[str, Meta(description="a file that holds NetBox's token")] = ""
    ca_file: Annotated[str, Meta(description="certificates to trust; empty: the system's")] = ""
    poll_s: Annotated[float, Meta(ge=10, le=86_400, description="seconds between readings")] = 300.0
    timeout_s: Annotated[float, Meta(ge=1, le=120, description="seconds an answer may take")] = 30.0


class Facility(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[facility]`: power and cooling, asked over Redfish."""

    redfish: Annotated[
        tuple[str, ...],
        Meta(description="component=address, such as cdu:c1=https://10.0.0.9 or host:h1=https://10.1.0.1"),
    ] = ()
    user: Annotated[str, Meta(description="user name")] = ""
    password_file: Annotated[str, Meta(description="a file that holds the password")] = ""
    ca_file: Annotated[str, Meta(description="certificates to trust; empty: the system's")] = ""
    poll_s: Annotated[float, Meta(ge=1, le=600, description="seconds between readings")] = 10.0
    timeout_s: Annotated[float, Meta(ge=1, le=60, description="seconds a device may take for all it is asked")] = 10.0


class Listen(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[listen]`: takes in over HTTPS what others send: frames, metrics, logs, conditions, changes."""

    address: Annotated[str, Meta(pattern=LISTEN, description="host:port; empty: nowhere")] = ""
    certificate_file: Annotated[str, Meta(description="the certificate to show")] = ""
    private_key_file: Annotated[str, Meta(description="its private key")] = ""
    tokens_file: Annotated[str, Meta(description="a TOML file of tokens, and of the hosts that each may write for")] = (
        ""
    )
    max_bytes: Annotated[int, Meta(ge=1 << 10, le=64 << 20, description="the greatest size of a request, unpacked")] = (
        16 << 20
    )
    max_series: Annotated[int, Meta(ge=1, description="series that one token may tell")] = 200_000
    requests_per_s: Annotated[
        float, Meta(ge=0.1, le=100_000, description="requests of one token in a second, where its own row says nothing")
    ] = 100.0
    pod: Annotated[
        str,
        Meta(
            max_length=240,
            description="the rack or pod that a relay packs frames of; relays that stand in for each other name one; "
            "empty: its host's name",
        ),
    ] = ""


SOURCE_PATHS = {
    "fabric": ("manager_token_file", "ca_file"),
    "gnmi": ("password_file", "ca_file", "certificate_file", "private_key_file"),
    "snmp": ("community_file", "auth_key_file", "privacy_key_file"),
    "kubernetes": ("kubeconfig",),
    "inventory": ("token_file", "ca_file"),
    "facility": ("password_file", "ca_file"),
    "listen": ("certificate_file", "private_key_file", "tokens_file"),
}
