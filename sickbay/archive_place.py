"""Where an archive lies: a folder, or a bucket of an S3-compatible store; and the names of its tables.

A store is asked with the credentials of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, ...); which one
it is says `[archive] endpoint` and `region`. Commits need a store that can put an object only where none is yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sickbay.schema import TABLES, WINDOWED

COARSE = "_1m"  # ends the name of a table of one-minute rows
FACTS = (  # few rows, needed as long as the cluster lives: never too old
    "edges", "identities", "placements", "changes", "control", "incidents", "actions", "outcomes", "gaps",
)  # fmt: skip
STREAMS = ("events", "steps", "progress", "evidence")


def telemetry(table: str) -> str:
    """The name of the archive's table of a telemetry table at full rate."""
    return f"telemetry_{table}"


def coarse(table: str) -> str:
    """The name of its table of one-minute rows."""
    return telemetry(table) + COARSE


NAMES: tuple[str, ...] = tuple(
    sorted((*FACTS, *STREAMS, *(f"features_{t}" for t in WINDOWED), *map(telemetry, TABLES), *map(coarse, TABLES)))
)


@dataclass(frozen=True, slots=True)
class Place:
    """The root of an archive. `options`: how a store is asked, by deltalake's own words; empty for a folder."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_folder(self) -> bool:
        """Whether it lies in the file system."""
        return is_folder(self.root)

    def table(self, name: str) -> str:
        """Where a table lies."""
        return str(Path(self.root, name)) if self.is_folder else f"{self.root.rstrip('/')}/{name}"

    def holds(self, name: str) -> bool:
        """Whether a table is there. Raises OSError where a store does not answer."""
        if self.is_folder:
            return Path(self.root, name, "_delta_log").is_dir()
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self.table(name), self.asked())

    def tables(self) -> tuple[str, ...]:
        """The names of the tables that are there."""
        if self.is_folder:
            return tuple(sorted(log.parent.name for log in Path(self.root).glob("*/_delta_log")))
        return tuple(name for name in NAMES if self.holds(name))

    def is_there(self) -> bool:
        """Whether there is an archive."""
        return bool(self.tables()) if self.is_folder else self.holds("gaps") or bool(self.tables())

    def asked(self) -> dict[str, str] | None:
        """The options as deltalake takes them."""
        return dict(self.options) or None


def is_folder(root: str) -> bool:
    """Whether a root is a path, not an address."""
    return "://" not in root


def place(root: "Place | Path | str", endpoint: str = "", region: str = "") -> Place:
    """The place that `[archive]` names; `endpoint` and `region` count for a store only."""
    if isinstance(root, Place):
        return root
    text = str(root)
    if is_folder(text):
        return Place(text)
    options = {"aws_conditional_put": "etag"}
    if endpoint:
        options |= {"aws_endpoint_url": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}
    if region or endpoint:
        options["aws_region"] = region or "us-east-1"  # what stores that know no regions expect
    return Place(text, options)
