"""Whatever a night's case is, detectors say the same of it where they see only the rows of interest."""

from collections.abc import Iterable, Mapping

import pytest

from diagnosis import engine
from diagnosis.case import Case, Detector
from sickbay.messages import Evidence
from tests.diagnosis.screen_kit import screened, unscreened


@pytest.fixture(autouse=True)
def _with_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = engine.evidence_of

    def checked(case: Case, using: Mapping[str, Detector] | None = None) -> Iterable[Evidence]:
        if case.features and case.wide is None:
            assert plain(screened(case), using) == plain(unscreened(case), using)
        return plain(case, using)

    monkeypatch.setattr(engine, "evidence_of", checked)
