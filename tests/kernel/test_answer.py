"""The answer tells of a component what its name and its identity tell."""

from sickbay.answer import component_row
from sickbay.messages import Identity


def test_a_name_tells_address_identity_or_index() -> None:
    assert component_row("accelerator:h17/0000:3b:00").pci == "0000:3b:00"
    assert component_row("pcie:h17/0000:20:03.1").pci == "0000:20:03.1"
    uuid = "GPU-5d0c1a7e-0000-4000-8000-00000000a1b2"
    assert component_row(f"accelerator:h17/{uuid}").uuid == uuid
    assert component_row("accelerator:h17/3").index == "3"
    row = component_row("port:leaf-07/Ethernet12/1")
    assert (row.host, row.port, row.pci) == ("leaf-07", "Ethernet12/1", None)


def test_the_identity_comes_first() -> None:
    row = component_row("accelerator:h17/3", Identity(index="3", pci="0000:cb:00", serial="165"))
    assert (row.pci, row.serial, row.index, row.uuid) == ("0000:cb:00", "165", "3", None)
