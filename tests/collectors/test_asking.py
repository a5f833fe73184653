"""Many devices asked side by side: one that hangs holds up no other, and is not asked again until it ended."""

import threading

import pytest

from collectors.cluster.asking import Asker, Target, some_of, targets


def test_a_hanging_device_costs_the_others_nothing() -> None:
    release = threading.Event()
    asked: list[str] = []

    def ask(target: Target) -> str:
        asked.append(target.name)
        if target.name == "stuck":
            release.wait(30)
        if target.name == "broken":
            raise ValueError("half an answer")
        return target.address

    asker = Asker(ask, 0.2)
    devices = [Target("stuck", "x"), Target("broken", "y"), Target("well", "z")]
    first = asker.round(devices)
    assert first.told == {"well": "z"}
    assert first.failed == {"stuck": "no answer within 0.2 s", "broken": "ValueError: half an answer"}
    second = asker.round(devices)
    assert "still hangs" in second.failed["stuck"]
    assert asked.count("stuck") == 1
    release.set()


def test_targets_are_named_once() -> None:
    assert targets(["leaf1=10.0.0.1:9339"], "[gnmi] targets") == [Target("leaf1", "10.0.0.1:9339")]
    for wrong in (["leaf1"], ["=x"], ["a="], ["a=x", "a=y"]):
        with pytest.raises(ValueError, match=r"\[gnmi\] targets"):
            targets(wrong, "[gnmi] targets")


def test_who_did_not_answer_is_told_by_a_few_names_their_reasons_and_a_number() -> None:
    assert some_of({}) == ""
    assert some_of({"a": "refused"}) == "a: refused"
    assert some_of({"a": "a: refused", "b": "b: refused", "c": "late"}) == "a, b: refused; c: late"
    many = {f"u{n}": "no route" for n in range(12)} | {"x": "late"}
    assert some_of(many) == "u0, u1, u2: no route; x: late; and 9 more of 13"
    each = {f"u{n}": f"reason {n}" for n in range(5)}
    assert some_of(each) == "u0: reason 0; u1: reason 1; u2: reason 2; and 2 more of 5"
