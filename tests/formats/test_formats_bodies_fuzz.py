"""Every body grammar under damaged, random and endless input: no failure, bounded records, bounded memory."""

import random
import tracemalloc
from collections.abc import Iterable

import msgspec
import pytest

from collectors.formats import log
from collectors.formats.reading import Body, Line
from sickbay.messages import Event

NAMES = sorted(log.modules())
ALPHABET = "0123456789abcdefxXPCI:.,;()[]{}<>=#%@/\\|-_ \t'\"\u00e9\u4e2d\ufffd\u202e"
LONG = (
    "9" * 40,
    "[" * 300,
    "(" * 300,
    " " * 300,
    "a=" * 200,
    "1," * 300,
    "-1",
    "0x",
    "1e999",
    "\U0001f4a5",
    "None",
    "nan",
)


def damaged(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 7)):
        at = rng.randrange(len(text) + 1)
        text = rng.choice(
            (
                text[:at] + rng.choice(ALPHABET) + text[at:],
                text[:at] + text[at + 1 :],
                text[:at] + rng.choice(LONG) + text[at:],
                text[at:] + text[:at],
                text[: at + 1],
                text[:at] + text[at + rng.randrange(1, 30) :],
            )
        )
    return text


def texts(name: str) -> list[str]:
    return [line for sample in log.modules()[name].SAMPLES for line in sample.text.split("\n")]


def records(grammar: Body, lines: Iterable[Line]) -> list[object]:
    found: list[object] = []
    for line in lines:
        found.extend(told[0] if isinstance(told, tuple) else told for told in grammar.read(line))
    return found + [record for record, _ in grammar.end()]


def line(rng: random.Random, body: str, number: int) -> Line:
    return Line(
        body[:65_536],
        number,
        origin=rng.choice(("", "kernel", "python3", "systemd")),
        pid=rng.choice(("", "1", "77")),
        host=rng.choice(("", "node-7")),
        stream=rng.choice(("", "rank1", "rank2")),
    )


@pytest.mark.parametrize("name", NAMES)
def test_five_thousand_damaged_lines_give_no_failure_and_bounded_records(name: str) -> None:
    rng = random.Random(name)
    known = texts(name)
    grammar = log.modules()[name].GRAMMAR()
    lines = (line(rng, damaged(rng, rng.choice(known)), number) for number in range(1, 5001))
    found = records(grammar, (each for each in lines if each.body.strip()))
    assert len(found) <= 4 * 5000
    for record in found:
        if isinstance(record, Event):
            assert record.count >= 1
            assert len(msgspec.json.encode(record)) < 20_000


@pytest.mark.parametrize("name", NAMES)
def test_random_text_is_nobodys(name: str) -> None:
    rng = random.Random(name)
    grammar = log.modules()[name].GRAMMAR()
    lines = (line(rng, "x" + "".join(rng.choices(ALPHABET, k=rng.randrange(120))), number) for number in range(1, 2000))
    assert records(grammar, lines) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_state_stays_small_over_many_different_lines(name: str) -> None:
    rng = random.Random(name)
    known = texts(name)
    grammar = log.modules()[name].GRAMMAR()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, 4001):
        body = rng.choice(known).replace("1", str(rng.randrange(10_000)))
        for _ in grammar.read(Line(body, number, stream=f"rank{rng.randrange(5000)}")):
            pass
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 12 << 20


@pytest.mark.parametrize("name", NAMES)
def test_the_end_may_come_at_any_time_and_more_than_once(name: str) -> None:
    grammar = log.modules()[name].GRAMMAR()
    once = len(records(grammar, (Line(text, number) for number, text in enumerate(texts(name), 1) if text.strip())))
    assert [record for record, _ in grammar.end() if isinstance(record, Event)] == []
    assert once >= 1
