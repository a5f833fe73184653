"""Writes each notebook from the Python file of the same name, whose cells begin with `# %%` or `# %% [markdown]`.

`python notebooks/build.py` writes them, without outputs; tests/notebooks fails where a notebook and its file differ.
"""

from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).parent
FORMAT: Any = nbformat  # has no types
MARKDOWN = " [markdown]"


def notebook(source: str) -> Any:
    """The notebook of a source text. Cells are numbered, so that the same text gives the same file."""
    cells = [cell(number, text) for number, text in enumerate(source.split("# %%")[1:])]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return FORMAT.v4.new_notebook(cells=cells, metadata=kernel)


def cell(number: int, text: str) -> Any:
    """One cell of the text after `# %%`."""
    name = f"cell-{number}"
    if text.startswith(MARKDOWN):
        lines = [line.removeprefix("#").removeprefix(" ") for line in text.splitlines()[1:]]
        return FORMAT.v4.new_markdown_cell("\n".join(lines).strip(), id=name)
    return FORMAT.v4.new_code_cell(text.strip(), id=name)


def written(path: Path) -> str:
    """The notebook file of the Python file at `path`."""
    return str(FORMAT.writes(notebook(path.read_text(encoding="utf-8")), version=4)) + "\n"


def sources() -> list[Path]:
    """The Python files that are notebooks."""
    return [path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]


if __name__ == "__main__":
    for path in sources():
        path.with_suffix(".ipynb").write_text(written(path), encoding="utf-8")
