"""Docs and code agree."""

import importlib.util
import re
from pathlib import Path

from sickbay.cli import COMMANDS
from simulator.faults import FAULTS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "deploy" / "README.md"]
OURS = [page for page in PAGES if page.name != "faults.md"]  # that one shows what programs print


def test_the_reference_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == module.build(), "run: make docs"


def code(page: Path) -> str:
    """What a page shows as code: its blocks, fenced or indented, and what stands in back quotes."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?^```|^    [^\n]*|`[^`\n]+`", text, re.MULTILINE | re.DOTALL)
    return "\n".join(blocks)


def test_links_in_the_docs_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_makefile_has_the_promised_targets() -> None:
    text = (ROOT / "Makefile").read_text()
    said = {name for page in OURS for name in re.findall(r"\bmake ([a-z]+)\b(?=[`\s]|$)", code(page))}
    assert said >= {"setup", "demo", "thread", "check", "test", "docs"}
    for target in said | {"help", "services", "bench", "fuzz"}:
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target


def test_commands_in_the_docs_exist() -> None:
    said = {name for page in OURS for name in re.findall(r"(?<![\w/-])(?:\.venv/bin/)?sickbay ([a-z]+)\b", code(page))}
    assert said - set(COMMANDS) == set()


def test_the_readme_lists_every_command() -> None:
    text = code(ROOT / "README.md")
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", text)] == []


def test_every_fault_of_the_simulator_is_drawn() -> None:
    """`python docs/gallery.py` draws them all."""
    sections = re.findall(r"^### (\S+)$", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"), re.MULTILINE)
    pictures = {path.stem for path in (ROOT / "docs" / "pictures" / "faults").glob("*.svg")}
    assert sorted(sections) == sorted(FAULTS) == sorted(pictures)
