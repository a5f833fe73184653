"""Host lists: widths, dimensions, refusals, and the way back."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.formats.hostlist import compress, expand, names
from collectors.formats.reading import Tally


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[0008-0011,0040],login1", ["gpu0008", "gpu0009", "gpu0010", "gpu0011", "gpu0040", "login1"]),
        ("dgx-[1-2]-n[09-10]", ["dgx-1-n09", "dgx-1-n10", "dgx-2-n09", "dgx-2-n10"]),
        ("n[8-10]-ib0", ["n8-ib0", "n9-ib0", "n10-ib0"]),
        ("a,b , c", ["a", "b", "c"]),
        ("n[1, 3]", ["n1", "n3"]),
        ("[7-8]", ["7", "8"]),
        ("(null)", []),
        ("None assigned", []),
        ("", []),
        ("a,,b", ["a", "b"]),
        (" [1-2] , n ", ["1", "2", "n"]),
    ],
)
def test_known_answers(text: str, hosts: list[str]) -> None:
    assert list(expand(text)) == hosts


@pytest.mark.parametrize(
    "text",
    ["n[", "n]", "n[]", "n[1-", "a b", "n[2-1]", "n[a-c]", "n[1,[2]]", "n[1-999999999]", "a[1-9999][1-9999]" * 9],
)
def test_what_cannot_be_read_is_counted_and_refused(text: str) -> None:
    tally = Tally()
    assert names(text, tally) == ()
    assert tally.unparsed == 1
    assert tally.notes
    with pytest.raises(ValueError, match="host list"):
        expand(text)


def test_many_small_lists_do_not_pass_the_limit_together() -> None:
    with pytest.raises(ValueError, match="more than 10 names"):
        expand("a[1-6],b[1-5]", limit=10)


def test_the_way_back_is_short() -> None:
    hosts = [f"gpu{n:04d}" for n in range(1, 33)] + [
        "gpu0040",
        "login1",
        *(f"r{r}-n{n}" for r in (1, 2) for n in (1, 2)),
    ]
    assert compress(hosts) == "gpu[0001-0032,0040],login1,r1-n[1-2],r2-n[1-2]"
    assert compress([]) == ""


letters = st.text("abx-._", max_size=4)
hosts = st.builds(
    lambda prefix, number, width, suffix: f"{prefix}{str(number).zfill(width)}{suffix}",
    st.sampled_from(["n", "gpu", "r1-n", ""]),
    st.integers(0, 120),
    st.integers(0, 4),
    letters,
) | st.text("abcn019-._", min_size=1, max_size=8)


@settings(deadline=None)
@given(st.lists(hosts, max_size=40))
def test_compress_then_expand_gives_the_same_names(given_hosts: list[str]) -> None:
    found = expand(compress(given_hosts))
    if "none" not in given_hosts:
        assert sorted(found) == sorted(set(given_hosts))


@settings(deadline=None)
@given(st.text("n01[],- x", max_size=20))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    tally = Tally()
    assert len(names(text, tally)) <= 200_000


def test_hostile_lists_are_refused_in_bounded_memory() -> None:
    rng = random.Random(7)
    for _ in range(5_000):
        text = bytearray(b"gpu[0001-0032,0040],login1,dgx-[1-2]-n[01-04]")
        for _ in range(rng.randrange(1, 6)):
            text[rng.randrange(len(text))] = rng.choice(b"0123456789[],-\x00\xff 9n")
        tally = Tally()
        found = names(text.decode("latin-1"), tally)
        assert bool(found) or tally.unparsed == 1
