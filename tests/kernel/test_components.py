"""Names: one spelling per thing, whatever the source's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import components
from sickbay.components import MAX_NAME, Kind, host_of, kind_of, link, name, part, parts_of, path, pci_address, placed

any_text = st.text(st.characters(codec=None), max_size=40) | st.text("\ud800\u202e\n\x1b /:~?é主", max_size=20)


@given(any_text)
def test_a_part_is_clean_and_stays_as_it_is(text: str) -> None:
    once = part(text)
    assert part(once) == once
    assert len(once) <= MAX_NAME
    assert not any(character.isspace() or not character.isprintable() for character in once if character <= "\xa0")
    once.encode()  # no half characters


@given(st.sampled_from(Kind), st.lists(any_text, min_size=1, max_size=4))
def test_a_name_tells_its_kind_and_never_grows_without_bound(kind: Kind, parts: list[str]) -> None:
    made = name(kind, *parts)
    assert kind_of(made) is kind
    assert len(made) <= MAX_NAME
    assert parts_of(made) == made.removeprefix(f"{kind}:").split("/")


def test_parts_keep_the_sources_own_spelling() -> None:
    assert name(Kind.PORT, "Leaf 07", "Ethernet1/1") == "port:Leaf_07/Ethernet1/1"
    assert part("  two   blanks\tand\x00more ") == "two_blanks_and_more"


@given(any_text, any_text)
def test_a_link_has_no_direction(one: str, other: str) -> None:
    assert link(one, other) == link(other, one)
    assert path(one, other) == path(other, one)
    assert path(one, other).startswith("path:")


def test_an_unknown_end_stands_last() -> None:
    assert link("zeta/1") == "link:zeta/1~?"
    assert link("?", "a") == "link:a~?"
    assert path("10.0.0.2", "10.0.0.1") == "path:10.0.0.1~10.0.0.2"


@pytest.mark.parametrize(
    ("component", "host"),
    [
        ("accelerator:node-1/0000:cb:00", "node-1"),
        ("port:leaf-07/Ethernet12", "leaf-07"),
        ("switch:leaf-07", "leaf-07"),
        ("host:node-1", "node-1"),
        ("host:?", None),
        ("accelerator:?/3", None),
        ("host:", None),
        ("rank:job-9/12", None),
        ("rack:r7", None),
        ("link:a/1~b/2", None),
    ],
)
def test_the_host_of_a_name(component: str, host: str | None) -> None:
    assert host_of(component) == host


@pytest.mark.parametrize("text", ["", "node-1", "thing:a", "Host:a", ":a"])
def test_a_string_that_is_no_name_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid Kind"):
        kind_of(text)


@pytest.mark.parametrize(
    ("component", "filled"),
    [
        ("accelerator:?/0000:cb:00", "accelerator:n1/0000:cb:00"),
        ("host:?", "host:n1"),
        ("rank:?/12", "rank:j9/12"),
        ("job:?", "job:j9"),
        ("accelerator:n2/3", "accelerator:n2/3"),
        ("switch:?", "switch:?"),  # no host is a switch
        ("link:?~?", "link:?~?"),
        ("thing:?", "thing:?"),
    ],
)
def test_filling_in_touches_only_what_is_unknown(component: str, filled: str) -> None:
    assert placed(component, "n1", "j9") == filled
    assert placed(filled, "n1", "j9") == filled


@given(any_text, any_text)
def test_a_filled_name_is_bounded_too(host: str, tail: str) -> None:
    assert len(placed(name(Kind.NIC, "?", tail * 20), host * 20)) <= MAX_NAME


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("0000:CB:00.0", "0000:cb:00", "0000:cb:00.0"),
        ("00000000:CB:00.0", "0000:cb:00", "0000:cb:00.0"),
        ("cb:00.1", "0000:cb:00", "0000:cb:00.1"),
        ("cb:00", "0000:cb:00", "0000:cb:00.0"),
        ("10000:01:00.0", "10000:01:00", "10000:01:00.0"),
        (" 0009:01:1f.7\n", "0009:01:1f", "0009:01:1f.7"),
    ],
)
def test_an_address_has_one_spelling(text: str, short: str, long: str) -> None:
    assert pci_address(text) == short
    assert pci_address(text, function=True) == long
    assert pci_address(short) == short


@pytest.mark.parametrize(
    "text",
    ["", "cb", "cb:00.8", "cb:20", "12:30", "0000:cb:00.0.0", "0x00:cb:00", "g0:00.0", "0000:cb:00 x", "٠٠:00"],
)
def test_what_is_no_address_is_none(text: str) -> None:
    assert pci_address(text) is None


@given(st.text(max_size=30))
def test_addresses_are_never_invented(text: str) -> None:
    address = pci_address(text)
    assert address is None or (pci_address(address) == address and len(address) <= 14)


def test_every_scoped_kind_is_a_kind() -> None:
    assert set(Kind) >= components.HOST_SCOPED | components.JOB_SCOPED
    assert not components.HOST_SCOPED & components.JOB_SCOPED
