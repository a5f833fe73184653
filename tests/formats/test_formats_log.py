"""The log reader: every sample of every grammar in every envelope, the fast path against a plain one, hostile input."""

import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
import pytest

from collectors.formats import log
from collectors.formats.bodies import CATALOGUE, Sample
from collectors.formats.prefilter import ENCODED, Wanted, finder
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import Block, blocks
from sickbay.components import kind_of
from sickbay.messages import MAX_MESSAGE, Event
from sickbay.vocabulary import event_kinds

SPOKEN_BY_KERNEL = frozenset(
    [
        "accelerator_metax",
        "accelerator_mthreads",
        "accelerator_nvidia",
        "accelerator_nvidia_text",
        "disk",
        "filesystem",
        "lifecycle",
        "lockup",
        "machine_check",
        "memory_pressure",
        "nic",
        "pcie",
        "segfault",
    ]
)
SAMPLES: list[tuple[str, Sample]] = [
    (name, sample) for name, module in log.modules().items() for sample in module.SAMPLES
]
IDS = [f"{name}-{number}" for number, (name, _) in enumerate(SAMPLES)]
Wrap = Callable[[str], bytes]


def each(form: str) -> Wrap:
    """A wrapper of every line of a text in the same envelope."""
    return lambda text: "".join(form.replace("{}", line) + "\n" for line in text.split("\n")).encode()


def objects(make: Callable[[str], dict[str, object]], **options: Any) -> Wrap:
    return lambda text: "".join(json.dumps(make(line), **options) + "\n" for line in text.split("\n")).encode()


def journal(message: object) -> dict[str, object]:
    return {
        "__REALTIME_TIMESTAMP": "1746540429123456",
        "_HOSTNAME": "node-7",
        "_TRANSPORT": "kernel",
        "PRIORITY": "4",
        "MESSAGE": message,
    }


def docker(line: str) -> dict[str, object]:
    return {"log": line + "\n", "stream": "stdout", "time": "2025-05-06T14:07:09.123456789Z"}


def coloured(text: str) -> bytes:
    """Colour codes in the middle of every word, as a pager or a journal writes them."""
    return "".join("\x1b[1m" + line.replace("e", "\x1b[31me\x1b[0m") + "\x1b[m\n" for line in text.split("\n")).encode()


ANY_SPEAKER: dict[str, Wrap] = {
    "plain": lambda text: text.encode(),
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode() + b"\r\n",
    "utf-16": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "colours": coloured,
    "container runtime": each("2025-05-06T14:07:09.123456789Z stdout F {}"),
    "parts": lambda text: "".join(
        f"2025-05-06T14:07:09.1Z stdout P {line[: len(line) // 2]}\n2025-05-06T14:07:09.2Z stdout F "
        f"{line[len(line) // 2 :]}\n"
        for line in text.split("\n")
    ).encode(),
    "container engine": objects(docker),
    "escaped": objects(docker, ensure_ascii=True),
}
KERNEL: dict[str, Wrap] = {
    "dmesg": each("[ 8100.321000] {}"),
    "dmesg with callers": each("[ 8100.321000][  T4821] {}"),
    "dmesg -T": each("[Tue May  6 14:07:09 2025] {}"),
    "dmesg iso": each("2025-05-06T14:07:09,123000+00:00 {}"),
    "dmesg -x": each("kern  :warn  : [ 8100.321000] {}"),
    "kmsg": each("4,91827,8100321000,-;{}"),
    "syslog": each("May  6 14:07:09 node-7 kernel: [ 8100.321000] {}"),
    "syslog with priority": each("<4>May  6 14:07:09 node-7 kernel: {}"),
    "rsyslog": each("2025-05-06T14:07:09.123456+00:00 node-7 kernel: {}"),
    "syslog 5424": each("<4>1 2025-05-06T14:07:09.123Z node-7 kernel - - - {}"),
    "journal full": each("Tue 2025-05-06 14:07:09 UTC node-7 kernel: {}"),
    "kernel only": each("kernel: [8100.321] {}"),
    "journal": objects(journal),
    "journal as bytes": objects(lambda line: journal([*line.encode()]), separators=(",", ":")),
    "nested": objects(lambda line: docker(f"May  6 14:07:09 node-7 kernel: [ 8100.321000] {line}")),
}  # fmt: skip


def fields(record: object) -> dict[str, object]:
    if not isinstance(record, msgspec.Struct):
        return {"type": "samples"}
    return {"type": record.__struct_config__.tag, **{key: getattr(record, key) for key in record.__struct_fields__}}


def readings(raw: bytes, tally: Tally | None = None) -> list[Reading]:
    tally = tally or Tally()
    found = list(log.read([raw], tally))
    assert tally.notes == []
    return found


def assert_gives(found: list[Reading], sample: Sample) -> None:
    told = [fields(reading.record) for reading in found]
    assert len(told) == len(sample.records), told
    for got, expected in zip(told, sample.records, strict=True):
        assert {key: got.get(key) for key in expected} == expected


# --- the catalogue ---


def test_every_grammar_of_the_catalogue_loads_and_keeps_the_rules() -> None:
    assert list(log.modules()) == sorted(CATALOGUE)
    for name, module in log.modules().items():
        assert module.LITERALS, name
        assert len(module.SAMPLES) >= 3, name
        for literal in module.LITERALS:
            assert len(literal) >= 3, (name, literal)
            assert literal.isascii(), f"{name}: an encoder would hide {literal!r}"
            assert not set(literal) & set('\n\r"\\<>&'), f"{name}: an encoder would hide {literal!r}"


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=IDS)
def test_a_sample_gives_its_records_and_no_other_grammar_takes_it(name: str, sample: Sample) -> None:
    assert_gives(readings(sample.text.encode()), sample)


@pytest.mark.slow
@pytest.mark.parametrize("envelope", ANY_SPEAKER)
def test_every_sample_survives_every_envelope(envelope: str) -> None:
    for _, sample in SAMPLES:
        assert_gives(readings(ANY_SPEAKER[envelope](sample.text)), sample)


@pytest.mark.parametrize("envelope", KERNEL)
def test_every_sample_of_the_kernel_survives_its_envelopes(envelope: str) -> None:
    for name, sample in SAMPLES:
        if name in SPOKEN_BY_KERNEL and not sample.text.startswith("systemd-networkd"):
            assert_gives(readings(KERNEL[envelope](sample.text)), sample)


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=IDS)
def test_events_are_of_known_kinds_and_components(name: str, sample: Sample) -> None:
    for reading in readings(sample.text.encode()):
        if isinstance(reading.record, Event):
            assert kind_of(reading.record.component) is event_kinds()[reading.record.kind].component


# --- what the reader fills in ---


def test_an_event_carries_its_text_line_stamp_and_host() -> None:
    text = "NETDEV WATCHDOG: ens7f0np0 (mlx5_core): transmit queue 7 timed out"
    raw = b"quiet\n" * 5 + f"May  6 14:07:09 node-7 kernel: [ 8100.321000] {text}\n".encode()
    (reading,) = readings(raw)
    assert isinstance(reading.record, Event)
    assert (reading.line, reading.host, reading.boot_s) == (6, "node-7", 8100.321)
    assert (reading.record.message, reading.record.line) == (text, 6)


def test_repeats_multiply_counts() -> None:
    (reading,) = readings(b"message repeated 7 times: [ EDAC MC2: 3 CE memory read error on DIMM_A1 (channel:1)]")
    assert isinstance(reading.record, Event)
    assert reading.record.count == 21


def test_a_long_message_is_cut() -> None:
    (reading,) = readings(b"Kernel panic - not syncing: " + b"why " * 10_000)
    assert isinstance(reading.record, Event)
    assert len(reading.record.message) == MAX_MESSAGE


def test_a_cut_record_of_a_json_log_is_counted() -> None:
    tally = Tally()
    whole = json.dumps(journal("nfs: server filer2 OK"))
    assert len(readings((whole + "\n" + whole[: len(whole) // 2] + ' "MESSAGE":"nfs: server fil').encode(), tally)) == 1
    assert tally.unparsed == 1


def test_a_failing_grammar_is_noted_and_does_not_silence_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        LITERALS = ("nfs: server ",)

        class GRAMMAR:
            def read(self, line: object) -> Iterable[object]:
                raise ZeroDivisionError("oh")

            def end(self) -> Iterable[object]:
                raise ZeroDivisionError("oh")

    everything = {"broken": Broken, **log.modules()}
    monkeypatch.setattr(log, "modules", lambda: everything)
    tally = Tally()
    assert len(list(log.read([b"nfs: server filer2 OK"], tally))) == 1
    assert tally.unparsed == 2
    assert "broken" in tally.notes[0]


# --- confidence ---


@pytest.mark.parametrize("envelope", [*ANY_SPEAKER, *KERNEL])
def test_logs_are_taken_for_logs(envelope: str) -> None:
    wrap = (ANY_SPEAKER | KERNEL)[envelope]
    raw = b"".join(wrap(sample.text) for name, sample in SAMPLES if name in SPOKEN_BY_KERNEL and envelope != "utf-16")
    assert log.confidence((raw or wrap(SAMPLES[0][1].text))[: 1 << 16], "input") > 0.4


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n\n",
        b"just a letter\nwithout anything\n",
        b"\x00\x01\x02\x03" * 100,
        b"JobID|State|Node\n1|FAILED|n1\n",
        b'{"a": [1, 2]}',
        b'[{"name": "Link is Down", "description": "Link went down: leaf-3 17, nfs: server filer2 not responding"}]',
        b"# HELP up metric\nup 1\n",
        b"timestamp, index, name\n2025/05/06 14:07:09.123, 0, card\n",
    ],
)
def test_other_things_are_not_taken_for_logs(raw: bytes) -> None:
    assert log.confidence(raw, "input") <= 0.1
    assert log.confidence(raw, "input.log") <= 0.3


# --- the fast path against a plain one ---


ORDINARY = (
    "May  6 14:07:09 node-7 systemd[1]: Started Session 4412 of user root.",
    "May  6 14:07:09 node-7 sshd[4412]: Accepted publickey for root from 198.51.100.7 port 41022 ssh2",
    "[ 8100.321000] usb 1-1: new high-speed USB device number 2 using xhci_hcd",
    "[ 8100.321000]  indented text of nobody",
    "    more of it",
    "",
    "2025-05-06T14:07:09.123456789Z stdout F epoch 3 loss",
    "2025-05-06T14:07:09.123456789Z stdout P first part, ",
    '{"log": "plain \\u003cb\\u003e text\\n", "stream": "stdout", "time": "2025-05-06T14:07:09Z"}',
    "progress 10%\rprogress 20%",
)


@cache
def wrapped() -> tuple[bytes, ...]:
    wraps = [*ANY_SPEAKER.items(), *KERNEL.items()]
    return tuple(
        wrap(sample.text)
        for number, (name, sample) in enumerate(SAMPLES)
        for kind, wrap in (wraps[number % len(wraps)], wraps[(number * 7 + 3) % len(wraps)])
        if kind != "utf-16" and (kind in ANY_SPEAKER or name in SPOKEN_BY_KERNEL)
    )


def mixture(rng: random.Random, pieces: int) -> bytes:
    parts: list[bytes] = []
    for _ in range(pieces):
        if rng.random() < 0.5:
            parts.append(rng.choice(wrapped()).rstrip(b"\n") + b"\n")
        parts.extend(rng.choice(ORDINARY).encode() + b"\n" for _ in range(rng.randrange(6)))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(25))
def test_the_fast_path_reads_what_the_plain_one_reads(seed: int) -> None:
    raw = mixture(random.Random(seed), 60)
    raw = raw if seed % 2 else raw.rstrip(b"\n")
    fast, plain = list(log.read([raw], Tally())), list(log.read_plainly([raw], Tally()))
    assert len(fast) > 10
    assert sorted(fast, key=repr) == sorted(plain, key=repr)  # a held record may come out some lines earlier


@pytest.mark.parametrize("seed", range(5))
def test_chunks_do_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    raw = mixture(rng, 40)
    cuts = sorted(rng.randrange(len(raw)) for _ in range(30))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert list(log.read(chunks, Tally())) == list(log.read([raw], Tally()))


@pytest.mark.parametrize("size", [200, 1000])
def test_blocks_do_not_matter(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = mixture(random.Random(size), 40)
    whole = list(log.read([raw], Tally()))
    monkeypatch.setattr(log, "blocks", lambda chunks, tally: blocks(chunks, tally, size))
    assert list(log.read([raw], Tally())) == whole


def test_polars_and_the_search_without_it_find_the_same_lines() -> None:
    from collectors.formats.prefilter import plain_finder

    literals = [literal for module in log.modules().values() for literal in module.LITERALS] + list(ENCODED)
    raw = mixture(random.Random(1), 200).decode("utf-8", "replace").encode()
    fast, plain = (
        [number for number, _, hit in Wanted(find).lines(Block(raw, 1)) if hit]
        for find in (finder(literals), plain_finder(literals))
    )
    assert fast == plain
    assert len(fast) > 100


# --- hostile input ---


def mutated(rng: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0:
            data[at : at + rng.randrange(20)] = b""
        elif how == 1:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif how == 2:
            data[at:at] = rng.choice(
                (
                    b"9" * 30,
                    b"\n",
                    b"\x00",
                    b"[" * 50,
                    b"(" * 50,
                    b"  ",
                    b"\xff\xfe",
                    b"-1",
                    b"e999",
                    b"0x",
                    b"}",
                    b"\r",
                )
            )
        elif how == 3:
            del data[at:]
        elif how == 4:
            data[at:at] = bytes(data[: rng.randrange(80)])
        else:
            data[at : at + 1] = rng.choice((b"0", b":", b",", b" ", b"="))
        if not data:
            return b"x"
    return bytes(data)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_logs_give_no_failure_and_no_more_than_they_hold(seed: int) -> None:
    rng = random.Random(seed)
    raw = b"\n".join(mutated(rng, rng.choice(wrapped())) for _ in range(800))
    tally = Tally()
    found = list(log.read([raw], tally))
    assert [note for note in tally.notes if "failed" in note] == []
    assert len(found) <= 4 * raw.count(b"\n") + 1000
    for reading in found:
        assert 0 <= reading.line <= raw.count(b"\n") + 1
        if isinstance(reading.record, Event):
            assert len(reading.record.message) <= MAX_MESSAGE
            assert len(msgspec.json.encode(reading.record)) < 60_000


@pytest.mark.parametrize("seed", range(3))
def test_noise_gives_nothing(seed: int) -> None:
    rng = random.Random(seed)
    raw = rng.randbytes(400_000)
    tally = Tally()
    assert list(log.read([raw], tally)) == []
    assert tally.notes == []


def test_a_device_code_in_an_unknown_envelope_is_told_and_not_silence() -> None:
    tally = Tally()
    code = "NVRM: Xid (PCI:0000:52:00): 48, an error"
    rows = [f"<<vendor-x|{number}>> {code}" for number in range(3)]
    quoted = f"Mar 11 04:17:22 h17 python3[812]: {code}"
    assert list(log.read(["\n".join([*rows, quoted]).encode()], tally)) == []
    assert tally.unparsed == 3
    assert tally.notes == ["device codes in an envelope that is not known, first in line 1"]
