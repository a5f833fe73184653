"""`sickbay diagnose` beside a saved reservation: what falls into declared work is nobody's fault, what follows is."""

from datetime import UTC
from pathlib import Path

import pytest

from sickbay.app.answering.offline import Options, run
from sickbay.messages import Action, Verdict
from tests.formats.test_formats_slurm_show import RESERVATION

LOST = "2025-03-{at}+00:00 gx-n02 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "flags", "verdict"),
    [
        ("11T03:00:00", "MAINT", Verdict.MAINTENANCE),
        ("11T09:30:00", "MAINT", Verdict.COMPONENT),
        ("11T03:00:00", "SPEC_NODES", Verdict.COMPONENT),  # a user's own reservation excuses nothing
    ],
)
def test_declared_work_excuses_its_hosts_while_it_lasts(tmp_path: Path, at: str, flags: str, verdict: Verdict) -> None:
    (tmp_path / "reservations.txt").write_text(RESERVATION.format(flags=flags))
    (tmp_path / "kern.log").write_text(LOST.format(at=at))
    (incident,) = run([tmp_path], Options(zone=UTC)).answer.incidents
    assert incident.verdict is verdict
    assert (incident.action is Action.IGNORE) == (verdict is Verdict.MAINTENANCE)


def test_work_without_an_end_excuses_nothing(tmp_path: Path) -> None:
    text = RESERVATION.format(flags="MAINT").replace("EndTime=2025-03-11", "EndTime=2026-03-11")
    (tmp_path / "reservations.txt").write_text(text)
    (tmp_path / "kern.log").write_text(LOST.format(at="11T03:00:00"))
    (incident,) = run([tmp_path], Options(zone=UTC)).answer.incidents
    assert incident.verdict is Verdict.COMPONENT
