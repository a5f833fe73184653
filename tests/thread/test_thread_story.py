"""The whole thread, on Kafka with every stage a process of its own, and in one process on the embedded log."""

from pathlib import Path

import pytest

from tests.thread import aftermath
from tests.thread.conftest import Placing
from tests.thread.place import Way
from tests.thread.story import HOLD_S, whole

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.thread]


@pytest.mark.parametrize("way", ["spread", "single"])
def test_a_card_falls_off_the_bus_and_all_follows(place: Placing, alerts: str, way: Way, tmp_path: Path) -> None:
    (tmp_path / "prometheus").mkdir()
    with place(way, alertmanager=alerts) as one, aftermath.scraped(one, tmp_path / "prometheus") as url:
        story = whole(one)
        times = {what: at for at, what, _ in story.rows}
        assert times["hold"] - times["onset"] <= HOLD_S * 1000
        order = ("onset", "event appended", "incident", "hold", "requeue", "running again", "test passed", "release",
                 "alert resolved")  # fmt: skip
        assert sorted(order, key=lambda what: times[what]) == list(order)
        aftermath.keep(story, tmp_path / "out", url)
