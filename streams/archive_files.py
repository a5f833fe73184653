"""How the archive's tables are made and their files packed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sickbay.archive_place import Place

if TYPE_CHECKING:
    from deltalake import DeltaTable, WriterProperties

GROUP_ROWS = 1 << 16  # of a row group: what one question about one host reads at least
KEPT_LOG = {"delta.logRetentionDuration": "interval 7 days"}  # a commit a minute makes many small files of it


def writing(types: Mapping[str, pl.DataType]) -> "WriterProperties":
    """How files are packed. A dictionary of measured numbers is larger than the numbers: without one, floats split by
    bytes and whole numbers as differences, telemetry takes 34 bytes a row of the widest table, not 54, and is packed
    four times as fast."""
    from deltalake import ColumnProperties, WriterProperties

    split = ColumnProperties(dictionary_enabled=False, encoding="BYTE_STREAM_SPLIT")
    steps = ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")
    whole = {name: steps for name, dtype in types.items() if dtype in (pl.Int64, pl.Datetime)}
    return WriterProperties(
        compression="ZSTD",
        compression_level=1 if "hour" in types else 3,
        max_row_group_size=GROUP_ROWS,
        column_properties=whole | {name: split for name, dtype in types.items() if dtype.is_float()},
    )


def types_of(table: "DeltaTable") -> dict[str, pl.DataType]:
    """The columns of a table."""
    return dict(pl.scan_delta(table).collect_schema())


def files_of(table: "DeltaTable") -> pl.DataFrame:
    """Size, rows, and what the table is cut by, of each file."""
    found = pl.DataFrame(table.get_add_actions(flatten=True))
    parts = {name: name.removeprefix("partition.") for name in found.columns if name.startswith("partition.")}
    return found.select("size_bytes", "num_records", *(pl.col(name).alias(part) for name, part in parts.items()))


def opened(place: Place, name: str, schema: pl.Schema, partitions: Sequence[str]) -> "DeltaTable":
    """The table, made where it is not there yet."""
    from arro3.core import RecordBatchReader
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    where, options = place.table(name), place.asked()
    if place.is_folder:
        Path(where).mkdir(parents=True, exist_ok=True)
    if not DeltaTable.is_deltatable(where, options):
        arrow = RecordBatchReader.from_arrow(pl.DataFrame(schema=schema)).schema
        try:
            return DeltaTable.create(
                where,
                arrow,
                mode="ignore",
                partition_by=list(partitions),
                configuration=KEPT_LOG,
                storage_options=options,
            )
        except DeltaError:  # another archiver made it in this moment
            if not DeltaTable.is_deltatable(where, options):
                raise
    return DeltaTable(where, storage_options=options)
