"""A disk's saved health log."""

import json

import pytest

from collectors.formats import disk_log
from collectors.formats.reading import Tally
from collectors.inputs.sniff import sniff
from sickbay.messages import Action, Event

WELL = {"critical_warning": 0, "temperature": 334, "avail_spare": 100, "percent_used": 101, "media_errors": 12}


def read(told: object, name: str = "h1/nvme2.json") -> list[Event]:
    raw, tally = json.dumps(told).encode(), Tally()
    assert sniff(raw, name).kind == "disk_log"
    found = [one.record for one in disk_log.read([raw], tally, name)]
    assert not tally.unparsed
    return [one for one in found if isinstance(one, Event)]


def test_old_errors_and_wear_prove_nothing_about_now() -> None:
    assert read(WELL) == []


@pytest.mark.parametrize(
    ("warning", "kind", "advice"),
    [(4, "disk.warning", None), (8, "disk.failed", None), (2, "disk.warning", Action.WATCH)],
)
def test_the_disks_own_warning(warning: int | dict[str, int], kind: str, advice: Action | None) -> None:
    for told in (warning, {"value": warning}):
        (event,) = read(WELL | {"critical_warning": told})
        assert (event.kind, event.component, event.advice) == (kind, "disk:?/nvme2", advice)


@pytest.mark.parametrize(
    ("name", "disk"),
    [("smart-nvme0n1.json", "nvme0"), ("x/nvme11/log.json", "?"), ("log.json", "?"), ("subnvme3x.json", "?")],
)
def test_the_disk_is_the_one_in_the_files_name(name: str, disk: str) -> None:
    (event,) = read(WELL | {"critical_warning": 4}, name)
    assert event.component == f"disk:?/{disk}"


def test_half_a_log_is_counted() -> None:
    tally = Tally()
    assert not list(disk_log.read([json.dumps(WELL).encode()[:40]], tally))
    assert tally.unparsed == 1
