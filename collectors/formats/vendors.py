"""Whose an accelerator is, and where each column of the telemetry schema comes from at every vendor.

A vendor is known by its id on the bus or its kernel module, and an exporter by its series' names: never by a port.
"""

from collections.abc import Iterator
from functools import cache

from collectors.formats.metric_names import Vendor, vendors
from sickbay.schema import TABLES

HOST = "host"  # the file of the host's own exporters


@cache
def makers() -> dict[str, Vendor]:
    """The files of vendors of accelerators, by their name."""
    return {name: vendor for name, vendor in vendors().items() if name != HOST}


def vendor_of(pci_vendor: str, driver: str = "") -> str:
    """The vendor of a device with this id on the bus ("0x1002") or this kernel module, "" for one that is not known."""
    return _known().get(pci_vendor.strip().lower().removeprefix("0x")) or _known().get(driver) or ""


@cache
def _known() -> dict[str, str]:
    return {word: vendor.name for vendor in makers().values() for word in (*vendor.pci, *vendor.drivers)}


def columns(table: str = "accelerator") -> Iterator[tuple[str, dict[str, str]]]:
    """Every column of a table, and for each vendor its series, or why it is not available."""
    for column in TABLES[table].names:
        yield column, {name: source_of(vendor, table, column) for name, vendor in makers().items()}


def source_of(vendor: Vendor, table: str, column: str) -> str:
    """The series (and paths of tools) that tell a column at a vendor; else "not available" and the reason."""
    told = [
        row + "_N" * len(exporter.numbered)
        for exporter in vendor.exporters.values()
        for row, metric in exporter.metrics.items()
        if exporter.table == table and metric.to == column
    ]
    told += [
        f"{row} ({tool.replace('_', '-')})"
        for tool, source in vendor.tools.items()
        for row, metric in source.metrics.items()
        if source.table == table and metric.to == column
    ]
    reason = next((why for why, names in vendor.absent.items() if column in names), vendor.rest)
    return ", ".join(told) or f"not available: {reason}"
