"""Many devices asked side by side: one that hangs holds up no other, and is not asked again until it ended."""

import threading

import pytest

from collectors.asking import Asker, Target, targets


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
