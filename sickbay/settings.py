"""Every setting with its default and what is right for it: one class a section of the settings file (see `config`)."""

from typing import Annotated, Literal

from msgspec import Meta

from sickbay.source_settings import (
    SOURCE_PATHS,
    Fabric,
    Facility,
    Gnmi,
    Inventory,
    Kubernetes,
    Listen,
    Section,
    Snmp,
    Syslog,
)


class Cluster(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cluster]`: one cluster is one namespace of topics, archive and metrics."""

    name: Annotated[
        str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$", description="1 to 63 lower-case letters, digits and hyphens")
    ] = "cluster"
    timezone: Annotated[
        str, Meta(description="an IANA zone such as Asia/Shanghai, for stamps without zone; empty: each host's own")
    ] = ""


class LogSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[log]`: where the spine lies. A relative path counts from the settings file's folder."""

    engine: Annotated[
        Literal["memory", "sqlite", "kafka", "https"],
        Meta(description='"memory", "sqlite" (one machine), "kafka", or "https" (agents only: to a listener or relay)'),
    ] = "sqlite"
    path: Annotated[str, Meta(min_length=1, description="a directory on a local disk, for sqlite")] = "sickbay-log"
    max_bytes: (
        Annotated[int, Meta(ge=1 << 20, description="the greatest size of the log's file, at least 1048576")] | None
    ) = None
    brokers: Annotated[
        str,
        Meta(
            pattern=r"^([^\s,:]+:\d+(,[^\s,:]+:\d+)*)?$", description="host:port,host:port of some brokers, for kafka"
        ),
    ] = ""
    url: Annotated[
        str, Meta(pattern=r"^(https://[^\s?#]+)?$", description="https://host:port of a listener or relay, for https")
    ] = ""
    token_file: Annotated[str, Meta(description="a file that holds the token to show there")] = ""
    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{0,63}$", description="goes before every topic and group name on a shared broker"
        ),
    ] = ""
    replication: Annotated[int, Meta(ge=1, le=9, description="copies of each partition on Kafka, 1 to 9")] = 3
    session_s: Annotated[
        float, Meta(ge=0.5, le=300, description="seconds of silence after which Kafka gives a process's tasks away")
    ] = 10.0
    lead_session_s: Annotated[
        float,
        Meta(ge=0.5, le=300, description="the same for the one active diagnosis; brokers refuse less than they allow"),
    ] = 3.0
    tls: Annotated[bool, Meta(description="true: TLS to the brokers")] = False
    ca_file: Annotated[str, Meta(description="certificates to trust; empty: the system's")] = ""
    certificate_file: Annotated[str, Meta(description="the client's certificate, where brokers want one")] = ""
    private_key_file: Annotated[str, Meta(description="the client's private key")] = ""
    sasl: Annotated[
        Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        Meta(description='"", "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512"'),
    ] = ""
    user: Annotated[str, Meta(description="user name for SASL")] = ""
    password_file: Annotated[str, Meta(description="a file that holds the SASL password")] = ""


class Security(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[security]`: who may speak for a host."""

    key_file: Annotated[
        str, Meta(description="a file with a secret in hex: the host's own for an agent, the cluster's for all else")
    ] = ""
    require_signed: Annotated[
        bool, Meta(description="true: unsigned frames and events of agents go to the dead letters")
    ] = False
    controllers: Annotated[
        tuple[str, ...],
        Meta(description="hosts whose agents read a scheduler's own log, which speaks of all its hosts"),
    ] = ()


class Agent(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agent]`: what runs on every host."""

    host: Annotated[str, Meta(max_length=240, description="the host's name; empty: what the system calls itself")] = ""
    root: Annotated[str, Meta(min_length=1, description="every path is read below it")] = "/"
    collectors: Annotated[
        tuple[str, ...], Meta(description="names of the collectors to run, such as kernel_log; empty: all")
    ] = ()
    kernel_log: Annotated[
        str, Meta(description="the kernel's messages below the root: a device or a file; empty: none")
    ] = "dev/kmsg"
    exporters: Annotated[
        tuple[str, ...], Meta(description="addresses to scrape, such as http://127.0.0.1:9400/metrics")
    ] = ()
    job_logs: Annotated[
        tuple[str, ...], Meta(description="patterns of training logs below the root, such as scratch/slurm-*.out")
    ] = ()
    system_logs: Annotated[
        tuple[str, ...], Meta(description="patterns of further logs of daemons below the root; usual ones are known")
    ] = ()
    journal: Annotated[bool, Meta(description="false: what daemons write into the system's journal is not read")] = True
    steps_socket: Annotated[
        str, Meta(description="where training jobs tell their steps, such as run/sickbay/steps.sock; empty: nowhere")
    ] = ""
    driver_calls: Annotated[
        bool, Meta(description="false: nothing that asks a device's driver is run: only files, logs and exporters")
    ] = True
    collective_status: Annotated[
        tuple[str, ...], Meta(description="addresses of collective libraries' status service, such as 127.0.0.1:28028")
    ] = ()
    flight_recorders: Annotated[
        tuple[str, ...], Meta(description="patterns of flight-recorder dumps below the root, such as scratch/dumps/*")
    ] = ()
    evidence_max_bytes: Annotated[
        int, Meta(ge=0, description="the greatest size of what is kept of hard events, beside the spool; 0: nothing")
    ] = 64 << 20
    alerts: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^\s?#]+)?$",
            description="Alertmanager, told hardware codes directly while the log is away; empty: nobody",
        ),
    ] = ""
    alerts_after_s: Annotated[float, Meta(ge=1, le=3600, description="seconds without the log until then")] = 60.0
    sample_s: Annotated[float, Meta(ge=0.1, le=60, description="seconds between samples, 0.1 to 60")] = 1.0
    frame_s: Annotated[float, Meta(ge=0.5, le=60, description="seconds between frames, 0.5 to 60")] = 5.0
    timeout_s: Annotated[float, Meta(ge=0.1, le=60, description="seconds a collection may take, 0.1 to 60")] = 3.0
    spool: Annotated[str, Meta(min_length=1, description="a directory of its own on a local disk")] = "sickbay-spool"
    spool_max_bytes: Annotated[int, Meta(ge=1 << 20, description="the greatest size of the spool")] = 512 << 20


class Slurm(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[slurm]`: how to ask and tell the scheduler."""

    bin: Annotated[str, Meta(description="the folder of scontrol and squeue; empty: as found on PATH")] = ""
    conf: Annotated[str, Meta(description="slurm.conf, where it is not at its usual place")] = ""
    topology_conf: Annotated[str, Meta(description="topology.conf or topology.yaml to publish; empty: none")] = ""
    poll_s: Annotated[float, Meta(ge=0.5, le=300, description="seconds between polls, 0.5 to 300")] = 5.0
    timeout_s: Annotated[float, Meta(ge=0.5, le=60, description="seconds a command may take, 0.5 to 60")] = 5.0


class Remediation(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[remediation]`: how far it may go. The defaults touch nothing."""

    mode: Annotated[
        Literal["observe", "advise", "act"],
        Meta(description='"observe" (shows), "advise" (waits for approval) or "act"'),
    ] = "observe"
    scheduler: Annotated[Literal["none", "slurm", "simulated"], Meta(description='"none", "slurm" or "simulated"')] = (
        "none"
    )
    faults: Annotated[
        tuple[str, ...], Meta(description="fault classes that it may act on; all others are shown only")
    ] = ("accelerator_off_bus",)
    fresh_s: Annotated[float, Meta(ge=1, le=600, description="greatest age of what a verdict rests on, in s")] = 15.0
    holds_per_hour: Annotated[int, Meta(ge=0, le=1000, description="new holds in any hour, 0 to 1000")] = 4
    held_at_once: Annotated[int, Meta(ge=0, le=10_000, description="nodes held at the same time, 0 to 10000")] = 8
    approval_s: Annotated[float, Meta(ge=10, le=86_400, description="seconds an approval is waited for")] = 3600.0
    test_command: Annotated[
        tuple[str, ...],
        Meta(description="the test that ends a hold, run with the node's name as last argument; 0: passed"),
    ] = ()
    test_sensitivity: Annotated[
        float,
        Meta(ge=0, le=1, description="share of such faults that the test finds; below 0.9 a pass settles nothing"),
    ] = 0.0
    test_timeout_s: Annotated[float, Meta(ge=1, le=86_400, description="seconds a test may take")] = 3600.0
    test_again_s: Annotated[
        float, Meta(ge=1, le=86_400, description="seconds until a test that was not passed is run again; later longer")
    ] = 15.0
    evidence: Annotated[
        str, Meta(description="a folder for what is saved before a job is stopped; empty: bundles in the archive's")
    ] = ""
    kill_switch: Annotated[
        str, Meta(description="a file: while it exists, or cannot be looked at, nothing is touched; empty: none")
    ] = ""


class Alerts(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[alerts]`: one alert per open incident, kept alive and resolved."""

    url: Annotated[
        str,
        Meta(pattern=r"^(https?://[^\s?#]+)?$", description="Alertmanager, such as http://127.0.0.1:9093; empty: none"),
    ] = ""
    every_s: Annotated[float, Meta(ge=1, le=300, description="seconds between repeats, 1 to 300")] = 30.0


class Archive(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[archive]`: Delta tables of what the log held."""

    path: Annotated[
        str, Meta(description="a folder, or s3://bucket/prefix (credentials: AWS_* variables); empty: no archive")
    ] = ""
    every_s: Annotated[float, Meta(ge=0.5, le=3600, description="seconds between writes, 0.5 to 3600")] = 60.0
    endpoint: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^\s?#]+)?$",
            description="an S3-compatible store of your own, such as http://127.0.0.1:9000; empty: the region's",
        ),
    ] = ""
    region: Annotated[str, Meta(description="of the bucket; empty: us-east-1, or AWS_REGION")] = ""
    telemetry: Annotated[bool, Meta(description="true: keep telemetry at full rate too")] = True
    full_rate_hours: Annotated[
        int, Meta(ge=24, le=87_600, description="hours, from 24: older telemetry becomes one-minute rows")
    ] = 48
    keep_days: Annotated[
        int, Meta(ge=0, le=36_500, description="days before rows are removed, facts and the ledger never; 0: for ever")
    ] = 365
    replaced_hours: Annotated[
        int, Meta(ge=1, le=8760, description="hours that replaced files stay for who reads them, 1 to 8760")
    ] = 168


class Metrics(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[metrics]`: what Sickbay tells of itself."""

    listen: Annotated[
        str, Meta(pattern=r"^([^\s]*:\d+)?$", description="host:port to serve /metrics and /ready on; empty: nowhere")
    ] = ""
    behind_s: Annotated[
        float,
        Meta(ge=10, le=3600, description="a group or transaction that stands still for so many seconds is an incident"),
    ] = 30.0


class Windows(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[windows]`: how telemetry is cut in time."""

    width_s: Annotated[int, Meta(ge=1, le=600, description="seconds of a window, 1 to 600")] = 10
    lateness_s: Annotated[int, Meta(ge=0, le=600, description="seconds a window waits for late data, 0 to 600")] = 10


class Report(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[report]`: how it speaks to people."""

    lang: Annotated[Literal["en", "zh"], Meta(description='"en" or "zh"')] = "en"


class Config(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    cluster: Cluster = Cluster()
    log: LogSettings = LogSettings()
    security: Security = Security()
    agent: Agent = Agent()
    slurm: Slurm = Slurm()
    kubernetes: Kubernetes = Kubernetes()
    fabric: Fabric = Fabric()
    gnmi: Gnmi = Gnmi()
    snmp: Snmp = Snmp()
    syslog: Syslog = Syslog()
    inventory: Inventory = Inventory()
    facility: Facility = Facility()
    listen: Listen = Listen()
    windows: Windows = Windows()
    remediation: Remediation = Remediation()
    alerts: Alerts = Alerts()
    archive: Archive = Archive()
    metrics: Metrics = Metrics()
    report: Report = Report()


# Settings that name a file or folder: a relative one counts from the settings file's folder.
PATHS = {
    "log": ("path", "ca_file", "certificate_file", "private_key_file", "password_file", "token_file"),
    "security": ("key_file",),
    "agent": ("spool",),
    "slurm": ("conf", "topology_conf"),
    "remediation": ("kill_switch", "evidence"),
    "archive": ("path",),
    **SOURCE_PATHS,
}
