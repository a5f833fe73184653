"""The layout holds: packages of the wheel, layers' vocabulary, no leftovers of any machine."""

import ast
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay import config, selfmetrics
from sickbay.settings import Config

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sickbay", "collectors", "streams", "diagnosis", "remediation", "dashboards", "simulator")
NEUTRAL = ("sickbay", "streams", "diagnosis", "dashboards")
VENDOR_WORDS = (
    "gpu", "cuda", "nvlink", "nvswitch", "nccl", "rccl", "hccl", "xid", "sxid", "npu", "mlx5", "dcgm", "nvidia",
    "ascend", "amd", "rocm", "mtgpu", "mellanox", "infiniband",
)  # fmt: skip
SECTIONS = {name: type(getattr(Config(), name)).__name__ for name in Config.__struct_fields__}
WORD = re.compile(r"(?<![a-z])(" + "|".join(VENDOR_WORDS) + r")(?![a-z])", re.IGNORECASE)


def python_files(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers and literals, docstrings left out: prose may name a vendor, code may not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in docstrings:
            yield node.lineno, str(node.value)
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


@pytest.mark.slow
@pytest.mark.parametrize("package", NEUTRAL)
def test_neutral_packages_name_no_vendor(package: str) -> None:
    strays = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]}"
        for path in python_files(package)
        for line, text in words_of(path)
        if WORD.search(text)
    ]
    assert strays == []


def test_neutral_data_names_no_vendor() -> None:
    data = [path for package in NEUTRAL for path in (ROOT / package).rglob("*.toml")]
    assert data, "faults.toml and kinds.toml are data of the kernel"
    strays = [f"{path.relative_to(ROOT)}: {found}" for path in data for found in WORD.findall(path.read_text("utf-8"))]
    assert strays == []


def names_in(path: Path) -> set[str]:
    return {text for _, text in words_of(path)}


@pytest.mark.slow
def test_every_metric_is_told_somewhere() -> None:
    own = {name for name, value in vars(selfmetrics).items() if isinstance(value, selfmetrics.Metric)}
    tellers = [
        path for path in python_files(*PACKAGES) if path.name != "selfmetrics.py" and "dashboards" not in path.parts
    ]
    assert own - set().union(*map(names_in, tellers)) == set()


@pytest.mark.slow
def test_every_setting_is_read_somewhere() -> None:
    files = [
        names_in(path)
        for path in python_files(*PACKAGES)
        if path.name not in ("settings.py", "source_settings.py", "config.py")
    ]
    unread = [
        f"[{row.section}] {row.key}"
        for row in config.settings()
        if not any(row.key in names and {row.section, SECTIONS[row.section], "settings"} & names for names in files)
    ]
    assert unread == []


@pytest.mark.slow
def test_the_wheel_holds_the_seven_packages_and_their_data(tmp_path: Path) -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert tuple(listed["packages"]) == PACKAGES
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(iter(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(ROOT)) in names


def test_no_file_names_a_registry_host_or_a_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    stray = re.compile(r"--(?:extra-)?index-url|files\.pythonhosted|(?<![\w/])/(?:work|root|farm)/")
    found = [
        name
        for name in tracked
        if name != "tests/test_layout.py" and stray.search((ROOT / name).read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_tests_have_no_packages_and_unique_names() -> None:
    files = [path for path in (ROOT / "tests").rglob("*.py") if "__pycache__" not in path.parts]
    assert not [path for path in files if path.name == "__init__.py"]
    names = [path.name for path in files if path.name.startswith("test_")]
    assert len(names) == len(set(names))


APP = sorted({path.parent for path in python_files("sickbay/app")})


@pytest.mark.parametrize("folder", APP, ids=[path.name for path in APP])
def test_a_folder_of_the_composition_root_names_all_that_is_in_it(folder: Path) -> None:
    told = set(re.findall(r"`(\w+)`", (folder / "__init__.py").read_text(encoding="utf-8")))
    inside = {path.stem for path in folder.glob("*.py")} | {path.name for path in APP if path.parent == folder}
    assert inside - {"__init__"} <= told, f"{folder}/__init__.py"


def test_every_module_of_the_kernel_keeps_the_kernels_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    held = next(one["source_modules"] for one in contracts if one["name"] == "The kernel imports nothing above it")
    root = {"__init__", "__main__", "app", "commands", "cli", "doctor"}
    modules = {path.relative_to(ROOT / "sickbay").parts[0].removesuffix(".py") for path in python_files("sickbay")}
    assert {f"sickbay.{name}" for name in modules - root} == set(held), "pyproject.toml"
