"""The frozen settings of the benchmark, and the digest that guards the test split."""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "accuracy.toml"
FROZEN = "\n[frozen]\n"


class Unfrozen(ValueError):
    """The settings are not those that were frozen."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The file's tables. `digest` is that of its text above `[frozen]`."""

    table: Mapping[str, Any]
    digest: str

    def __getitem__(self, key: str) -> Any:
        return self.table[key]

    def chosen(self, baseline: str) -> int | None:
        """The number of a baseline's setting that did best on the tune split, None where none was chosen."""
        number = self.table.get("frozen", {}).get("baselines", {}).get(baseline)
        return None if number is None else int(number)

    def check(self) -> None:
        """Raises Unfrozen where something above `[frozen]` has changed since it was written."""
        frozen = self.table.get("frozen", {}).get("digest")
        if frozen != self.digest:
            raise Unfrozen(f"accuracy.toml is {self.digest}, frozen is {frozen}: run --freeze, on the tune split")


def load(path: Path = FILE) -> Settings:
    """The settings of a file."""
    text = path.read_text(encoding="utf-8")
    return Settings(tomllib.loads(text), digest(text))


def digest(text: str) -> str:
    """Of everything above the table `[frozen]`."""
    return hashlib.sha256(text.partition(FROZEN)[0].rstrip().encode()).hexdigest()[:16]


def freeze(chosen: Mapping[str, int], note: str, path: Path = FILE) -> str:
    """Writes digest and choices. Returns the digest."""
    text = path.read_text(encoding="utf-8")
    head = text.partition(FROZEN)[0].rstrip() + "\n"
    mine = digest(head)
    rows = "\n".join(f"{name} = {number}" for name, number in sorted(chosen.items()))
    tail = f'{FROZEN}digest = "{mine}"\nnote = "{note}"\n\n[frozen.baselines]\n{rows}\n'
    path.write_text(head + tail, encoding="utf-8")
    return mine
