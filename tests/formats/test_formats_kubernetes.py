"""`kubectl describe node`: pressure on a disk is no fault of an accelerator, a missing device is told with doubt."""

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.formats.kubernetes_describe import confidence, read
from collectors.formats.reading import Tally
from sickbay.messages import Action, Event

HEAD = (
    "Name:               gx-n11\nRoles:              <none>\nConditions:\n"
    "  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason    Message\n"
    "  ----             ------  -----------------                 ------------------                ------    -------\n"
)
AT = "Mon, 03 Nov 2025 10:22:37 +0000   Mon, 03 Nov 2025 08:00:00 +0000"


def node(*conditions: str, capacity: int = 8, free: int = 8, events: str = "<none>") -> str:
    rows = "".join(f"  {row}\n" for row in conditions)
    return (
        f"{HEAD}{rows}Capacity:\n  cpu:                128\n  nvidia.com/gpu:     {capacity}\n"
        f"Allocatable:\n  cpu:                128\n  nvidia.com/gpu:     {free}\nEvents:              {events}\n"
    )


def told(text: str) -> list[tuple[str, str, str, Action | None]]:
    found = [reading.record for reading in read([text.encode()], Tally())]
    return [(one.component, one.kind, one.code, one.advice) for one in found if isinstance(one, Event)]


def test_a_node_that_is_well_says_nothing() -> None:
    text = node(
        f"DiskPressure     False   {AT}   KubeletHasNoDiskPressure   ok", f"Ready  True  {AT}   KubeletReady   ok"
    )
    assert told(text) == []
    assert confidence(text.encode(), "x") >= 0.9


def test_pressure_is_a_condition_of_the_host() -> None:
    text = node(f"DiskPressure     True    {AT}   KubeletHasDiskPressure   kubelet has disk pressure")
    assert told(text) == [("host:gx-n11", "scheduler.host_condition", "DiskPressure", Action.WATCH)]


def test_a_node_that_is_not_ready_or_read_only() -> None:
    assert (
        told(node(f"Ready            Unknown   {AT}   NodeStatusUnknown   Kubelet stopped posting"))[0][1]
        == "scheduler.host_down"
    )
    assert (
        told(node(f"ReadonlyFilesystem  True   {AT}   FilesystemIsReadOnly   read-only"))[0][1]
        == "filesystem.read_only"
    )


def test_a_device_that_is_not_given_out_is_told_with_doubt() -> None:
    assert told(node(free=7)) == [("host:gx-n11", "scheduler.accelerators_fewer", "7 of 8 allocatable", Action.WATCH)]
    assert told(node(free=0))[0][3] is Action.FIX_SOFTWARE
    excerpt = "Capacity:\n  nvidia.com/gpu:     8\nAllocatable:\n  nvidia.com/gpu:     7    <== here\n"
    assert told(excerpt)[0][0] == "host:?"
    assert confidence(excerpt.encode(), "x") >= 0.9


def test_events_of_the_node_are_read() -> None:
    events = "\n  Warning  EvictionThresholdMet  4m   kubelet  Attempting to reclaim ephemeral-storage\n  Normal   "
    events += "NodeHasDiskPressure   4m   kubelet  Node gx-n11 status is now: NodeHasDiskPressure"
    assert ("host:gx-n11", "scheduler.host_condition", "DiskPressure", Action.WATCH) in told(node(events=events))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=400))
def test_any_bytes_are_read(tail: bytes) -> None:
    list(read([HEAD.encode() + tail], Tally()))
    assert 0.0 <= confidence(tail, "x") <= 1.0
