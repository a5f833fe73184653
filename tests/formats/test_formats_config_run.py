"""Runs of configuration tools: one change a run, whoever else uses their words."""

from collections.abc import Iterator

from collectors.formats.bodies.config_run import AGAIN_MS, GRAMMAR
from collectors.formats.reading import Line
from sickbay.clock import Clock, Stamp
from sickbay.messages import Change

T = 1_773_200_000_000


def read(*told: tuple[int, str, str]) -> Iterator[tuple[str, str]]:
    grammar = GRAMMAR()
    for at_ms, origin, body in told:
        for one in grammar.read(Line(body, 1, Stamp(Clock.ABSOLUTE, at_ms), host="n1", origin=origin)):
            assert isinstance(one, Change)
            yield one.who, one.new


def test_many_modules_are_one_run_and_a_later_one_is_another() -> None:
    lines = [(T + at * 1000, "ansible-ansible.builtin.copy", "Invoked with src=a dest=b") for at in range(500)]
    later = (T + 499_000 + AGAIN_MS, "python3", "ansible-systemd Invoked with name=x state=restarted")
    assert list(read(*lines, later)) == [("ansible", "ansible.builtin.copy"), ("ansible", "systemd")]


def test_words_of_others_are_no_run() -> None:
    assert list(read((T, "trainer", "Invoked with lr=1"), (T, "trainer", "Applied catalog in 3 seconds"))) == []
