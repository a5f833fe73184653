"""Messages cross every seam unchanged, and nothing else crosses."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.messages import (
    ALLOWED_ACTIONS,
    Action,
    Affected,
    AnyMessage,
    Change,
    Cite,
    Edge,
    Event,
    Evidence,
    Identity,
    Incident,
    Placement,
    PlanStep,
    Progress,
    RankPlace,
    Relation,
    Step,
    Suspect,
    Verdict,
    decode,
    encode,
    replace,
    strength,
)

EVENT = Event(component="host:a", kind="host.reboot")
EVIDENCE = Evidence(
    id="e", detector="d", version="1", component="host:a", fault="host_down", llr=2.5, cites=(Cite(line=3),)
)

EXAMPLES: list[AnyMessage] = [
    EVENT,
    Event(component="nic:a/1", kind="nic.down", at_ms=-5, at_boot_s=1.25, attributes={"链路": "0"}, message="'\"\\"),
    Identity(host="a", pci="0000:cb:00"),
    Edge(child="accelerator:a/0", parent="host:a", relation=Relation.PART_OF, from_ms=3),
    Placement(job="7", hosts=("a", "b"), ranks=(RankPlace(rank=0, host="a"),)),
    Progress(rank=3, group_ranks=(0, 1)),
    Step(step=10, duration_ms=3.5),
    Change(target="host:a", what="driver"),
    EVIDENCE,
    Incident(
        id="e", verdict=Verdict.COMPONENT, component="host:a", fault="host_down", severity="error",  # type: ignore[arg-type]
        probability=0.9, action=Action.DRAIN_HOST, suspects=(Suspect(component="host:a", probability=0.9),),
        plan=(PlanStep(do="drain_host", target="host:a", phase="contain"),), evidence=(EVIDENCE,),
        affected=Affected(jobs=("7",)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: AnyMessage) -> None:
    assert decode(encode(message)) == message


@given(st.builds(Event, component=st.text(max_size=20), kind=st.just("x.y"), message=st.text(max_size=500),
                 attributes=st.dictionaries(st.text(max_size=5), st.text(max_size=5)), count=st.integers(1, 2**63 - 1),
                 at_boot_s=st.none() | st.floats(allow_nan=False, allow_infinity=False)))  # fmt: skip
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    assert decode(encode(event)) == event


@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_no_bytes_do_more_than_a_validation_error(payload: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(payload)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": None}, r"\$\.kind"),
        ({"type": "nothing"}, "nothing"),
        ({"colour": "red"}, "colour"),
        ({"count": 0}, r"\$\.count"),
        ({"count": True}, r"\$\.count"),
        ({"at_ms": "5"}, r"\$\.at_ms"),
        ({"at_ms": 1.5}, r"\$\.at_ms"),
        ({"at_ms": 2**63}, "at_ms does not fit"),
        ({"severity": "awful"}, r"\$\.severity"),
        ({"message": "x" * 501}, r"\$\.message"),
        ({"code": "x" * 4001}, r"\$\.code"),
    ],
)
def test_a_refusal_says_where(change: dict[str, object], says: str) -> None:
    payload = msgspec.json.encode(msgspec.to_builtins(EVENT) | change)
    with pytest.raises(msgspec.ValidationError, match=says):
        decode(payload)


@pytest.mark.parametrize(
    "payload", [b"[" * 100_000, b'{"type":' * 50_000, b'{"type":"event","component":"\xff","kind":"x"}']
)
def test_hostile_json_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(payload)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused_when_the_message_is_made(value: float) -> None:
    with pytest.raises(ValueError, match="llr"):
        replace(EVIDENCE, llr=value)
    with pytest.raises(ValueError, match="duration_ms"):
        Step(step=1, duration_ms=value)
    with pytest.raises(ValueError, match="probability"):
        Suspect(component="host:a", probability=value)


def test_half_characters_do_not_stop_an_event() -> None:
    broken = replace(EVENT, message="caf\udce9", attributes={"k\ud800": "v"})
    assert decode(encode(broken)) == replace(EVENT, message="caf?", attributes={"k?": "v"})


def test_a_changed_copy_leaves_the_first_alone() -> None:
    assert replace(EVENT, count=3).count == 3
    assert EVENT.count == 1
    with pytest.raises(AttributeError):
        EVENT.count = 5  # type: ignore[misc]


def test_actions_are_ordered_from_weak_to_strong() -> None:
    assert [strength(action) for action in Action] == list(range(len(Action)))
    assert strength(Action.WATCH) < strength(Action.DRAIN_HOST) < strength(Action.REPLACE_PART)


def test_each_verdict_allows_what_the_design_says() -> None:
    assert set(ALLOWED_ACTIONS) == set(Verdict)
    assert ALLOWED_ACTIONS[Verdict.MAINTENANCE] == {Action.IGNORE}
    assert Action.DRAIN_HOST not in ALLOWED_ACTIONS[Verdict.UNKNOWN] | ALLOWED_ACTIONS[Verdict.JOB]
    assert not {Action.DRAIN_HOST, Action.REBOOT_HOST, Action.RESET_DEVICE} & ALLOWED_ACTIONS[Verdict.SHARED]
