"""Numbers of senders, against a twin that keeps every number."""

from hypothesis import given
from hypothesis import strategies as st

from sickbay.sequences import REMEMBERED, Sequences

numbers = st.lists(st.integers(0, 12) | st.integers(0, 40) | st.integers(0, 5 * REMEMBERED), max_size=60)


@given(numbers, numbers)
def test_what_was_there_among_the_newest_numbers_is_known_again(some: list[int], others: list[int]) -> None:
    sequences = Sequences()
    for host, told in (("a", some), ("b", others)):
        heard, lost = set[int](), set[int]()
        for number in told:
            place = sequences.place("t", host, 1, number)
            newest = max(heard, default=number)
            known = number in heard and number > newest - REMEMBERED
            assert place.fresh is not known
            if known:
                continue
            assert place.missed == (max(0, number - newest - 1) if heard else 0)
            lost |= set(range(newest + 1, number))
            assert place.found is (number in lost)
            lost.discard(number)
            heard.add(number)


def test_a_number_far_ahead_costs_nothing() -> None:
    sequences = Sequences()
    assert sequences.place("t", "h", 1, 5) == (True, 0, False)
    assert sequences.place("t", "h", 1, 2**64 - 1) == (True, 2**64 - 7, False)
    assert sequences.place("t", "h", 1, 2**64 - 1) == (False, 0, False)
    assert sequences.place("t", "h", 1, 6) == (True, 0, True)
