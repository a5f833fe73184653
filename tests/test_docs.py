"""Docs and code agree."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_reference_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == module.build(), "run: make docs"


def test_links_in_the_docs_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_makefile_has_the_promised_targets() -> None:
    text = (ROOT / "Makefile").read_text()
    for target in ["help", "setup", "services", "demo", "check", "test", "bench", "fuzz", "docs"]:
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target
