"""Laws of the grammars that read a job's own logs: samples, prefilter words, hostile input."""

import importlib
import random
import re
from collections.abc import Callable, Iterable
from types import ModuleType

import msgspec
import pytest

from collectors.formats.bodies import CATALOGUE, Sample
from collectors.formats.reading import Body, Line, Record
from sickbay.actions import Control
from sickbay.components import kind_of
from sickbay.messages import Event, decode, encode
from sickbay.schema import Samples
from sickbay.vocabulary import event_kinds

GRAMMARS = (
    "actors", "ascend_collective", "collective", "collective_report", "elastic", "monitor", "rendezvous",
    "scheduler", "straggler", "training",
    "transport", "watchdog",
)  # fmt: skip
MUTATIONS = 5000


def grammar(name: str) -> ModuleType:
    return importlib.import_module(CATALOGUE[name])


def records(body: Body, text: str, host: str = "") -> list[Record]:
    found: list[Record] = []
    for number, line in enumerate(text.split("\n"), 1):
        told = body.read(Line(body=line.rstrip(), number=number, host=host))
        found += [each[0] if isinstance(each, tuple) else each for each in told]
    return found + [record for record, _ in body.end()]


def fits(record: Record, wanted: dict[str, object]) -> bool:
    told = {"type": type(record).__name__.lower()} | {
        key: getattr(record, key, None) for key in wanted if key != "type"
    }
    return told == wanted


CASES = [(name, sample) for name in GRAMMARS for sample in grammar(name).SAMPLES]


@pytest.mark.parametrize(("name", "sample"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_sample_gives_exactly_its_records(name: str, sample: Sample) -> None:
    found = records(grammar(name).GRAMMAR(), sample.text)
    assert len(found) == len(sample.records), found
    for record, wanted in zip(found, sample.records, strict=True):
        assert fits(record, wanted), (record, wanted)


@pytest.mark.parametrize("name", GRAMMARS)
def test_each_sample_passes_the_prefilter_line_by_line(name: str) -> None:
    module = grammar(name)
    for sample in module.SAMPLES:
        kept = [line for line in sample.text.split("\n") if any(word in line for word in module.LITERALS)]
        found = records(module.GRAMMAR(), "\n".join(kept))
        assert len(found) == len(sample.records), sample.text


@pytest.mark.parametrize(("name", "sample"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_no_other_grammar_of_the_family_takes_a_sample(name: str, sample: Sample) -> None:
    for other in GRAMMARS:
        if other != name:
            assert records(grammar(other).GRAMMAR(), sample.text) == [], other


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize(
    "prefix", ["17: ", "[80746] ", "[default3]:", "(RayTrainWorker pid=911, ip=192.0.2.9) ", "h-07: "]
)
def test_a_launcher_prefix_does_not_hide_records(name: str, prefix: str) -> None:
    module = grammar(name)
    for sample in module.SAMPLES:
        prefixed = "\n".join(prefix + line for line in sample.text.split("\n"))
        assert len(records(module.GRAMMAR(), prefixed)) == len(sample.records), sample.text


@pytest.mark.parametrize("name", GRAMMARS)
def test_records_are_valid_messages_of_known_kinds(name: str) -> None:
    for sample in grammar(name).SAMPLES:
        check(records(grammar(name).GRAMMAR(), sample.text))


def check(found: Iterable[Record]) -> None:
    for record in found:
        assert not isinstance(record, Samples | Control)
        assert decode(encode(record)) == record
        if isinstance(record, Event):
            assert kind_of(record.component) is event_kinds()[record.kind].component


def mutate(text: str, dice: random.Random) -> str:
    """One of: cut, doubled, bytes swapped, a digit run blown up, a piece of another place spliced in."""
    at, to = sorted((dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)))
    choices: list[Callable[[], str]] = [
        lambda: text[:at],
        lambda: text[at:],
        lambda: text[:at] + text[to:],
        lambda: text[:to] + text[at:],
        lambda: text[:at] + dice.choice("[](){}|=:,<>'\"\t\ufffdé-.") + text[at:],
        lambda: re.sub(r"\d+", "9" * dice.randrange(1, 40), text, count=dice.randrange(1, 4)),
        lambda: re.sub(r"\d+", lambda _: dice.choice(["", "-1", "nan", "1e999", "0"]), text, count=3),
        lambda: text.replace(" ", "  "),
    ]
    return dice.choice(choices)()


@pytest.mark.parametrize("name", GRAMMARS)
def test_mutated_lines_give_valid_records_or_none(name: str) -> None:
    dice = random.Random(name)
    module = grammar(name)
    texts = [sample.text for sample in module.SAMPLES]
    body = module.GRAMMAR()
    for number in range(MUTATIONS):
        text = mutate(dice.choice(texts), dice)
        for line in text.split("\n"):
            check(each for each in body.read(Line(body=line, number=number)) if not isinstance(each, tuple))
    check([record for record, _ in module.GRAMMAR().end()])


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAMMARS)
def test_long_hostile_lines_are_read_in_linear_time(name: str) -> None:
    module = grammar(name)
    body = module.GRAMMAR()
    for unit in ("a", "1", "[", "(", "| 1 ", "a:1:", "rank 1 ", "1, ", " ", "=", "x.y-"):
        for word in module.LITERALS[:12]:
            for text in (word + unit * (60_000 // len(unit)), unit * (60_000 // len(unit)) + word):
                list(body.read(Line(body=text)))


def test_decoding_errors_are_not_hidden() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b"{}")
