"""Polls of the nodes, folded into events: drained, down, back, and by whom."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster.host_slurm import Hosts, polled
from collectors.formats.reading import Tally
from collectors.formats.slurm_records import Node
from collectors.formats.slurm_show import shown_nodes
from sickbay.messages import Event

T = 1_773_203_400_000  # 2026-03-11T04:30:00Z
S = 1000
# Slurm 22.05.8, `scontrol show node -o`, TZ=UTC
NODE = (
    "NodeName={host} Arch=x86_64 CoresPerSocket=56  CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.31 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h100:8(S:0-1) NodeAddr={host} NodeHostName={host} "
    "Port=6818 Version=22.05.8 OS=Linux 5.15.0-105-generic #115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024  "
    "RealMemory=2063000 AllocMem=0 FreeMem=2001923 Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 "
    "Weight=1 Owner=N/A MCS_label=N/A Partitions=train  BootTime=2026-03-01T08:12:45 "
    "SlurmdStartTime=2026-03-01T08:20:49 LastBusyTime=2026-03-11T03:59:02 CfgTRES=cpu=224,mem=2063000M,billing=224 "
    "AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s{rest}"
)
# Slurm 24.05: other fields around the same ones
NEWER = (
    "NodeName={host} Arch=x86_64 CoresPerSocket=56  CPUAlloc=0 CPUEfctv=222 CPUTot=224 CPULoad=0.00 "
    "AvailableFeatures=ib ActiveFeatures=ib Gres=gpu:h100:8(S:0-1) NodeAddr={host} NodeHostName={host} Version=24.05.3 "
    "OS=Linux 6.8.0-45-generic #45~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC  RealMemory=2063000 AllocMem=0 FreeMem=2001923 "
    "Sockets=2 Boards=1 CoreSpecCount=1 CPUSpecList=111 State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A "
    "MCS_label=N/A Partitions=train  BootTime=2026-03-01T08:12:45 SlurmdStartTime=2026-03-01T08:20:49 "
    "LastBusyTime=2026-03-11T03:59:02 ResumeAfterTime=None CfgTRES=cpu=222 AllocTRES= CurrentWatts=0 AveWatts=0 {rest}"
)


def shown(host: str = "n1", state: str = "IDLE", rest: str = "", form: str = NODE) -> str:
    return form.format(host=host, state=state, rest=f" {rest}" if rest else "") + "\n"


def nodes(text: str) -> list[Node]:
    return list(shown_nodes(text, Tally()))


def short(events: tuple[Event, ...]) -> list[tuple[str, str, int | None]]:
    return [(one.component, one.kind.removeprefix("scheduler."), one.at_ms) for one in events]


def test_every_node_is_read_with_its_flags_and_who_holds_it() -> None:
    reason = "Reason=swap optic, ask Li [li@2026-03-11T04:31:07]"
    for form in (NODE, NEWER):
        healthy, held = nodes(shown(form=form) + shown("n2", "MIXED+DRAIN", reason, form))
        assert (healthy.host, healthy.states, healthy.reason) == ("n1", frozenset({"IDLE"}), "")
        assert (held.states, held.reason, held.user) == (frozenset({"MIXED", "DRAIN"}), "swap optic, ask Li", "li")


def test_a_reason_of_several_lines_or_like_fields_is_only_a_reason() -> None:
    (node,) = nodes(
        shown(
            state="IDLE+DRAIN", rest='Reason=a State=IDLE "b" [root@2026-03-11T04:31:07]        NodeName=n3 State=DOWN'
        )
    )
    assert (node.host, node.states, node.user) == ("n1", frozenset({"IDLE", "DRAIN"}), "root")
    assert node.reason == 'a State=IDLE "b"'


def test_a_drain_a_fault_and_the_return_are_told_once_each() -> None:
    #  0     5        10       15     20
    #  idle  drained  drained  down   idle
    held = shown(state="IDLE+DRAIN", rest="Reason=NHC: ecc errors [root@2026-03-11T04:30:04]")
    down = shown(state="DOWN+DRAIN", rest="Reason=NHC: ecc errors [root@2026-03-11T04:30:04]")
    hosts, told = Hosts(), []
    for after_s, text in ((0, shown()), (5, held), (10, held), (15, down), (20, shown())):
        hosts, events = polled(hosts, nodes(text), T + after_s * S)
        told += short(events)
    assert told == [
        ("host:n1", "host_drained", T + 4 * S),
        ("host:n1", "host_condition", T + 4 * S),
        ("host:n1", "host_down", T + 15 * S),  # the reason is older than the fall
        ("host:n1", "host_back", T + 20 * S),
    ]


def test_who_drained_it_is_told() -> None:
    text = shown(state="IDLE+DRAIN", rest="Reason=swap DIMM A2 [li@2026-03-11T04:30:04]")
    _, (event,) = polled(Hosts(), nodes(text), T + 60 * S)
    assert (event.attributes["user"], event.attributes["reason"]) == ("li", "swap DIMM A2")
    assert (event.at_ms, event.seen_ms) == (T + 4 * S, T + 60 * S)


def test_our_own_hold_is_told_and_is_no_evidence() -> None:
    rest = "Reason=sickbay 0123abcd g1 lost health missing [root@2026-03-11T04:30:04]"
    _, events = polled(Hosts(), nodes(shown(state="IDLE+DRAIN", rest=rest)), T + 5 * S)
    assert [one.kind for one in events] == ["scheduler.host_drained"]


def test_silence_of_one_poll_is_nothing() -> None:
    # a node that was just released is not heard of for about a second
    silent = nodes(shown(state="IDLE+NOT_RESPONDING"))
    hosts, events = polled(Hosts(), silent, T)
    assert events == ()
    _, events = polled(hosts, nodes(shown()), T + 5 * S)
    assert events == ()
    hosts, events = polled(hosts, silent, T + 5 * S)
    assert [(one.kind, one.severity) for one in events] == [("scheduler.host_down", "warning")]
    _, events = polled(hosts, nodes(shown(state="DOWN+NOT_RESPONDING")), T + 10 * S)
    assert [(one.kind, one.severity) for one in events] == [("scheduler.host_down", "error")]  # given up


def test_a_node_that_is_missing_from_an_answer_is_not_back() -> None:
    held = nodes(shown(state="IDLE+DRAIN", rest="Reason=x [li@2026-03-11T04:30:04]"))
    hosts, _ = polled(Hosts(), held, T)
    after, events = polled(hosts, nodes(shown("n2")), T + 5 * S)
    assert events == ()
    assert after.against == hosts.against


@given(st.text(max_size=300), st.sampled_from(["IDLE", "DOWN*+DRAIN", "", "IDLE+PLANNED", "\x00", "State=IDLE"]))
def test_any_text_never_crashes_and_no_reason_changes_the_state(reason: str, state: str) -> None:
    text = shown(state=state, rest=f"Reason={reason} [root@2026-03-11T04:30:04]")
    hosts = Hosts()
    for found in (nodes(text), nodes(reason)):
        hosts, events = polled(hosts, found, T)
        assert all(one.kind.startswith("scheduler.") and len(one.message) <= 500 for one in events)
    if state == "IDLE":
        assert all(node.states == {"IDLE"} for node in nodes(text) if node.host == "n1")
