"""Envelopes: each shape that operators have, what it tells, and what it must not."""

import base64
import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import stamps
from collectors.formats.envelope_layers import MAX_REPEATS
from collectors.formats.envelopes import MAX_PARTS, Envelopes, known, peel
from collectors.formats.reading import Line
from collectors.formats.text import MAX_LINE
from sickbay.clock import NO_STAMP, Clock, Stamp

AT = stamps.utc(2025, 5, 6, 14, 7, 9)
ABSOLUTE = Stamp(Clock.ABSOLUTE, AT)
ABSOLUTE_MS = Stamp(Clock.ABSOLUTE, AT + 123)
NO_ZONE = Stamp(Clock.NO_ZONE, AT)
NO_ZONE_MS = Stamp(Clock.NO_ZONE, AT + 123)
NO_YEAR = Stamp(Clock.NO_YEAR, stamps.utc(2000, 5, 6, 14, 7, 9) - stamps.utc(2000, 1, 1))
NO_YEAR_MS = Stamp(Clock.NO_YEAR, NO_YEAR.ms + 123)
BOOT = Stamp(Clock.SINCE_BOOT, 8_100_321)
KERNEL = {"origin": "kernel", "boot_s": 8100.321}
TEXT = "NVRM: Xid (PCI:0000:9a:00): 79, fell"


def journal(**fields: object) -> str:
    return json.dumps(
        {"__REALTIME_TIMESTAMP": str(AT * 1000 + 123_000), "_HOSTNAME": "node-7", "_BOOT_ID": "ab12", **fields}
    )


ENVELOPES: list[tuple[str, dict[str, object]]] = [
    (TEXT, {}),
    # the kernel's ring
    (f"[ 8100.321000] {TEXT}", {**KERNEL, "stamp": BOOT}),
    (f"[ 8100.321000][  T4821] {TEXT}", {**KERNEL, "stamp": BOOT}),
    (f"[ 8100.321000] [   C17] {TEXT}", {**KERNEL, "stamp": BOOT}),
    (f"[Tue May  6 14:07:09 2025] {TEXT}", {"origin": "kernel", "stamp": NO_ZONE}),
    (f"[Tue May  6 14:07:09 2025] [  T12] {TEXT}", {"origin": "kernel", "stamp": NO_ZONE}),
    (f"2025-05-06T14:07:09,123000+00:00 {TEXT}", {"origin": "kernel", "stamp": ABSOLUTE_MS}),
    (f"2025-05-06T16:07:09,123000+02:00 {TEXT}", {"origin": "kernel", "stamp": ABSOLUTE_MS}),
    (f"kern  :warn  : [ 8100.321000] {TEXT}", {**KERNEL, "level": "warn", "stamp": BOOT}),
    (f"kern  :err   : [Tue May  6 14:07:09 2025] {TEXT}", {"origin": "kernel", "level": "err", "stamp": NO_ZONE}),
    (
        f"kern  :warn  : 2025-05-06T14:07:09,123000+00:00 {TEXT}",
        {"origin": "kernel", "level": "warn", "stamp": ABSOLUTE_MS},
    ),
    (f"daemon:info  : [ 8100.321000] {TEXT}", {**KERNEL, "origin": "daemon", "level": "info", "stamp": BOOT}),
    (f"4,91827,8100321000,-;{TEXT}", {**KERNEL, "level": "warning", "stamp": BOOT}),
    (f"30,91827,8100321000,-;{TEXT}", {**KERNEL, "origin": "user", "level": "info", "stamp": BOOT}),
    (f"30,91827,8100321000,-;systemd[1]: {TEXT}", {**KERNEL, "origin": "systemd", "level": "info", "stamp": BOOT}),
    (f"4,91827,8100321000,-,caller=T12;{TEXT}", {**KERNEL, "level": "warning", "stamp": BOOT}),
    (f"<4>[ 8100.321000] {TEXT}", {**KERNEL, "level": "warning", "stamp": BOOT}),
    (f"[  +0.000012] {TEXT}", {"origin": "kernel", "stamp": NO_STAMP}),
    (f"[May 6 14:07] {TEXT}", {"origin": "kernel", "stamp": NO_STAMP}),
    (f"    MESSAGE={TEXT}", {"origin": "", "stamp": NO_STAMP}),
    (f"[1746540429.123456] {TEXT}", {"origin": "", "boot_s": None, "stamp": ABSOLUTE_MS}),
    (f"[8100.3] {TEXT}", {"origin": "kernel", "boot_s": 8100.3}),
    (f"May  6 14:07:09 node-7 kernel: [8100.3] {TEXT}", {"origin": "kernel", "boot_s": 8100.3, "stamp": NO_YEAR}),
    (f"kernel: {TEXT}", {"origin": "kernel"}),
    (f"kernel: [8100.321] {TEXT}", {**KERNEL, "stamp": BOOT}),
    (f"[ 8100.321000] node-7 kernel: {TEXT}", {**KERNEL, "host": "node-7", "stamp": BOOT}),
    (
        "[ 8100.321000] systemd[1]: " + TEXT,
        {"origin": "systemd", "pid": "1", "boot_s": 8100.321, "stream": "systemd[1]"},
    ),
    # syslog and the journal
    (f"May  6 14:07:09 node-7 kernel: [ 8100.321000] {TEXT}", {**KERNEL, "host": "node-7", "stamp": NO_YEAR}),
    (f"May  6 14:07:09 node-7 kernel: [ 8100.321000] [  T12] {TEXT}", {**KERNEL, "host": "node-7"}),
    (f"May  6 14:07:09.123456 node-7 kernel: {TEXT}", {"origin": "kernel", "host": "node-7", "stamp": NO_YEAR_MS}),
    (
        f"<4>May  6 14:07:09 node-7 kernel: {TEXT}",
        {"origin": "kernel", "host": "node-7", "level": "warning", "stamp": NO_YEAR},
    ),
    (f"<4>May  6 14:07:09 kernel: {TEXT}", {"origin": "kernel", "level": "warning", "stamp": NO_YEAR}),
    (
        f"May 06 2025 14:07:09 node-7 slurmd[77]: {TEXT}",
        {"origin": "slurmd", "pid": "77", "host": "node-7", "stamp": NO_ZONE},
    ),
    (
        f"2025-05-06T14:07:09.123456+00:00 node-7 kernel: {TEXT}",
        {"origin": "kernel", "host": "node-7", "stamp": ABSOLUTE_MS},
    ),
    (f"2025-05-06T14:07:09+0000 node-7 kernel: {TEXT}", {"origin": "kernel", "host": "node-7", "stamp": ABSOLUTE}),
    (
        f"2025-05-06T07:07:09-0700 10.20.30.40 app[9]: {TEXT}",
        {"origin": "app", "pid": "9", "host": "10.20.30.40", "stamp": ABSOLUTE},
    ),
    (f"Tue 2025-05-06 14:07:09 UTC node-7 kernel: {TEXT}", {"origin": "kernel", "host": "node-7", "stamp": ABSOLUTE}),
    (
        f"Tue 2025-05-06 14:07:09.123456 CEST node-7 kernel: {TEXT}",
        {"origin": "kernel", "host": "node-7", "stamp": NO_ZONE_MS},
    ),
    (f"1746540429.123456 node-7 kernel: {TEXT}", {"origin": "kernel", "host": "node-7", "stamp": ABSOLUTE_MS}),
    (
        f'<165>1 2025-05-06T14:07:09.123Z node-7 app 4711 ID47 [ex@1 note="a]b\\"c"][two@2 x="1"] {TEXT}',
        {"origin": "app", "pid": "4711", "host": "node-7", "level": "notice", "stamp": ABSOLUTE_MS},
    ),
    (
        f"<4>1 2025-05-06T14:07:09.123Z node-7 kernel - - - {TEXT}",
        {"origin": "kernel", "host": "node-7", "stamp": ABSOLUTE_MS},
    ),
    (f"<4>1 - - - - - - {TEXT}", {"origin": "kernel", "host": ""}),
    (
        f"May  6 14:07:09.123456 leaf2 ERR swss#orchagent: {TEXT}",
        {"origin": "swss#orchagent", "host": "leaf2", "level": "err", "stamp": NO_YEAR_MS},
    ),
    (
        f"2025 May  6 14:07:09.123456 leaf2 NOTICE kernel: {TEXT}",
        {"origin": "kernel", "host": "leaf2", "level": "notice", "stamp": NO_ZONE_MS},
    ),
    (f"message repeated 5 times: [ {TEXT}]", {"repeats": 5}),
    (
        f"May  6 14:07:09 node-7 kernel: message repeated 3 times: [ [ 8100.321000] {TEXT}]",
        {**KERNEL, "host": "node-7", "repeats": 3},
    ),
    (
        journal(MESSAGE=TEXT, PRIORITY="4", _TRANSPORT="kernel", _SOURCE_MONOTONIC_TIMESTAMP="8100321000"),
        {**KERNEL, "host": "node-7", "level": "warning", "boot_id": "ab12", "stamp": ABSOLUTE_MS},
    ),
    (journal(MESSAGE=[*f"\x1b[31m{TEXT}".encode()], _TRANSPORT="kernel"), {"origin": "kernel", "stamp": ABSOLUTE_MS}),
    (
        journal(MESSAGE=TEXT, _TRANSPORT="stdout", SYSLOG_IDENTIFIER="train", _PID="42"),
        {"origin": "train", "pid": "42"},
    ),
    # containers
    (f"2025-05-06T14:07:09.123456789Z stdout F {TEXT}", {"stamp": ABSOLUTE_MS, "stream": "stdout"}),
    (
        json.dumps({"log": TEXT + "\n", "stream": "stderr", "time": "2025-05-06T14:07:09.123456789Z"}),
        {"stamp": ABSOLUTE_MS, "stream": "stderr"},
    ),
    (
        json.dumps(
            {
                "log": TEXT,
                "time": "2025-05-06T14:07:09.123Z",
                "kubernetes": {"pod_name": "w-3", "container_name": "c", "host": "node-7"},
            }
        ),
        {"stamp": ABSOLUTE_MS, "stream": "w-3/c", "host": "node-7"},
    ),
    (json.dumps({"ts": 1746540429.123, "level": "error", "msg": TEXT}), {"stamp": ABSOLUTE_MS, "level": "error"}),
    (
        json.dumps(
            {
                "log": f"May  6 14:07:09 node-7 kernel: [ 8100.321000] {TEXT}\n",
                "stream": "stdout",
                "time": "2025-05-06T14:07:09Z",
            }
        ),
        {**KERNEL, "host": "node-7", "stamp": ABSOLUTE},
    ),
    # prefixes of launchers and tools
    (f"node-7: [ 8100.321000] {TEXT}", {**KERNEL, "host": "node-7"}),
    (
        f"/var/log/messages-2:May  6 14:07:09 node-7 kernel: {TEXT}",
        {"origin": "kernel", "host": "node-7", "stamp": NO_YEAR},
    ),
    (f"[1,37]<stderr>:{TEXT}", {"stream": "1,37"}),
    (f"[default3]:{TEXT}", {"stream": "3"}),
    (f" 37: {TEXT}", {"stream": "37"}),
    (f"[pod/worker-3/main] {TEXT}", {"stream": "worker-3/main"}),
    # programs
    (f"2025-05-06 14:07:09,123 {TEXT}", {"origin": "", "stamp": NO_ZONE_MS}),
    (f"[2025-05-06 14:07:09,123] {TEXT}", {"origin": "", "stamp": NO_ZONE_MS}),
    (f" [2025-05-06 14:07:09] {TEXT}", {"stamp": NO_ZONE}),
    (f"[2025-05-06T14:07:09.123] {TEXT}", {"stamp": NO_ZONE_MS}),
    (f"2025/05/06 14:07:09 {TEXT}", {"stamp": NO_ZONE}),
    (f"2025-05-06 14:07:09 +0000 {TEXT}", {"stamp": ABSOLUTE}),
    (f"[May 06 2025 14:07:09] {TEXT}", {"stamp": NO_ZONE}),
    (f"2025-05-06_14:07:09.123+0000: {TEXT}", {"stamp": ABSOLUTE_MS}),
]


def test_a_switch_that_puts_the_year_behind_its_milliseconds() -> None:
    line = peel("%May  6 14:07:09:123 2025 leaf-7 IFNET/3/PHY_UPDOWN: Physical state changed to down.")
    assert (line.stamp, line.host) == (NO_ZONE_MS, "leaf-7")
    assert line.body == "IFNET/3/PHY_UPDOWN: Physical state changed to down."


@pytest.mark.parametrize(("text", "told"), ENVELOPES, ids=[text[:40] for text, _ in ENVELOPES])
def test_an_envelope_comes_off_and_tells_what_it_knows(text: str, told: dict[str, object]) -> None:
    line = peel(text, 7)
    assert line.body == TEXT
    assert line.number == 7
    assert {key: getattr(line, key) for key in told} == told
    if "host" not in told:
        assert line.host in ("", "node-7")


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("[rank3]:[E506 14:07:09.123456789 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog", NO_YEAR_MS),
        ("E0506 14:07:09.123000 47990 torch/distributed/api.py:874] failed", NO_YEAR_MS),
        ("E20250506 14:07:09.123000 47990 api.py:874] failed", NO_ZONE_MS),
        ("[ERROR] HCCL(59420,python3):2025-05-06-14:07:09.123.424 [comm_base.cc:967] text", NO_ZONE_MS),
        ("node-7:984:1357 [4] 2025-05-06 14:07:09 NCCL WARN text", NO_ZONE),
        ("INFO 2025-05-06 14:07:09,123 trainer.py text", NO_ZONE_MS),
        ("05/06/2025 14:07:09", NO_STAMP),
        ("slurmstepd: error: *** JOB 4471 ON node-7 CANCELLED AT 2025-05-06T14:07:09 DUE TO TIME LIMIT ***", NO_ZONE),
        ("a line that speaks of 2025-05-06 14:07:09 in passing", NO_STAMP),
    ],
)
def test_a_date_inside_a_known_prefix_dates_the_line_and_stays_in_it(text: str, stamp: Stamp) -> None:
    assert peel(text) == Line(text, stamp=stamp, stream="rank3" if text.startswith("[rank3]") else "")


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-30T14:07:09Z stdout F text",
        "2025-13-01 14:07:09 text",
        "2025-05-06 25:07:09 text",
        "1969-12-31T14:07:09Z text",
        "2101-01-01T14:07:09Z text",
        "Feb 31 14:07:09 node-7 kernel: text",
        "[Tue May 36 14:07:09 2025] text",
        "E1306 14:07:09.123000 1 x.py:1] text",
        '{"log": "text", "stream": "stdout", "time": "2025-05-06T14:07:60Z"}',
        '{"log": "text", "stream": "stdout", "time": "yesterday"}',
        '{"MESSAGE": "text", "__REALTIME_TIMESTAMP": "99999999999999999999"}',
    ],
)
def test_an_impossible_date_is_no_date(text: str) -> None:
    line = peel(text)
    assert line.stamp == NO_STAMP
    assert line.body.endswith("text")


def test_a_date_in_american_order_is_one_only_with_its_logger_s_words() -> None:
    assert peel("05/06/2025 14:07:09 - INFO - __main__ - text").stamp == NO_ZONE
    assert peel("05/06/2025 14:07:09 text").stamp == NO_STAMP


def test_29_february_needs_no_year_to_be_possible() -> None:
    assert peel("Feb 29 10:00:00 node-7 kernel: a").stamp.clock is Clock.NO_YEAR


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("[80746] [rank0]:[E506 14:07:09.408 x.cpp:1] text", "[rank0]:[E506 14:07:09.408 x.cpp:1] text"),
        ("[80746] text", "[80746] text"),
        ("[12] [drm] text", "[drm] text"),
        ("[5] a count", "[5] a count"),
        ("12.345678 a number", "12.345678 a number"),
        ("{359}[Hardware Error]: text", "{359}[Hardware Error]: text"),
        ('{"message": "an error document"}', '{"message": "an error document"}'),
        ('{"loss": 2.1, "step": 7}', '{"loss": 2.1, "step": 7}'),
        ("2025/05/06 14:07:09.123, 00000000:3B:00.0, 71", "2025/05/06 14:07:09.123, 00000000:3B:00.0, 71"),
        ("INFO: task a:1 blocked", "INFO: task a:1 blocked"),
        ("worker main[12]: segfault at 0", "worker main[12]: segfault at 0"),
    ],
)
def test_what_looks_like_an_envelope_and_is_none_stays(text: str, body: str) -> None:
    line = peel(text)
    assert (line.body, line.boot_s, line.host) == (body, None, "")


@pytest.mark.parametrize(
    "text",
    [
        "2025-05-06T14:07:09.123Z ERROR main: text",
        "2025-05-06T14:07:09.123Z pod started: text",
        "2025-05-06 14:07:09 INFO worker[12]: text",
        "May  6 14:07:09 WARNING worker: text",
        "[ 8100.321000] io thread[77]: segfault text",
    ],
)
def test_a_word_is_not_taken_for_a_host(text: str) -> None:
    assert peel(text).host == ""


def test_a_program_cannot_speak_as_the_kernel() -> None:
    assert peel(f"May  6 14:07:09 node-7 train[9]: [ 8100.321000] {TEXT}").origin == "train"
    assert peel(f"May  6 14:07:09 node-7 train[9]: kernel: {TEXT}").origin == "train"
    assert (
        peel(journal(MESSAGE=TEXT, _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel", _COMM="logger")).origin == "logger"
    )


def test_the_outer_host_and_the_better_clock_win() -> None:
    line = peel(
        json.dumps(
            {"log": f"May  6 01:02:03 inner kernel: {TEXT}", "hostname": "outer", "time": "2025-05-06T14:07:09Z"}
        )
    )
    assert (line.host, line.stamp) == ("outer", ABSOLUTE)


def test_at_most_four_layers_come_off() -> None:
    assert peel("kernel: " * 9 + "text").body == "kernel: " * 5 + "text"


def test_a_count_beyond_belief_is_not_believed() -> None:
    assert peel(f"message repeated 9999999 times: [ {TEXT}]").repeats == 1
    nested = "message repeated 90000 times: [ message repeated 90000 times: [ text]]"
    assert peel(nested).repeats == MAX_REPEATS


def lines(*texts: str) -> list[tuple[int, str]]:
    envelopes = Envelopes()
    found = [line for number, text in enumerate(texts, 1) for line in envelopes.lines(text, number)]
    return [(line.number, line.body) for line in (*found, *envelopes.end())]


def test_properties_of_a_kernel_record_are_no_lines() -> None:
    assert lines("4,1,2,-;text", " SUBSYSTEM=pci", " DEVICE=+pci:0000:9a:00.0", "4,2,3,-;more") == [
        (1, "text"),
        (4, "more"),
    ]


def test_parts_of_a_container_line_are_joined_per_stream() -> None:
    at = "2025-05-06T14:07:09.123456789Z"
    assert lines(
        f"{at} stdout P NVRM: X", f"{at} stderr F other", f"{at} stdout P id (PCI", f"{at} stdout F :0000)"
    ) == [
        (2, "other"),
        (1, "NVRM: Xid (PCI:0000)"),
    ]


def test_parts_that_never_end_are_given_out_and_stay_small() -> None:
    at = "2025-05-06T14:07:09.123456789Z"
    envelopes = Envelopes()
    longest = 0
    for number in range(1, 5 * MAX_PARTS):
        for line in envelopes.lines(f"{at} stdout P {'x' * 16_000}", number):
            longest = max(longest, len(line.body))
    assert 0 < longest <= MAX_LINE


def test_several_lines_in_one_record_are_several_lines() -> None:
    assert lines(journal(MESSAGE="NVRM: one\nNVRM: two\n")) == [(1, "NVRM: one"), (1, "NVRM: two")]
    assert lines("May  6 14:07:09 node-7 kernel: NVRM: one#012NVRM: two") == [(1, "NVRM: one"), (1, "NVRM: two")]
    assert lines("4,1,2,-;NVRM: one\\x0aNVRM: two") == [(1, "NVRM: one"), (1, "NVRM: two")]


def test_known_tells_envelopes_from_text() -> None:
    assert [known(text) for text, _ in ENVELOPES[1:]].count(False) == 0
    assert not known(TEXT)
    assert not known("")


@given(st.text(max_size=200))
def test_any_text_is_peeled_without_failing_and_never_grows(text: str) -> None:
    line = peel(text)
    assert len(line.body) <= max(len(text), 1)
    assert line.repeats >= 1


@pytest.mark.parametrize("seed", range(4))
def test_damaged_envelopes_never_fail(seed: int) -> None:
    rng = random.Random(seed)
    envelopes = Envelopes()
    for number in range(1500):
        text = rng.choice(ENVELOPES)[0]
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(text))
            text = (
                rng.choice(
                    (
                        text[:at],
                        text[:at] + rng.choice(string.printable) + text[at:],
                        text[:at] + text[at + 1 :],
                        text[at:],
                    )
                )
                or "x"
            )
        for line in envelopes.lines(text, number):
            assert len(line.body) <= len(text)
            assert line.stamp.clock is not Clock.ABSOLUTE or 0 <= line.stamp.ms < 4_200_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "<4>1 " + "[" * 50_000,
        '{"a":' * 20_000,
        "May  6 14:07:09 " + "a:" * 30_000,
        " " * 60_000 + "x",
        "message repeated 2 times: [ " * 4000,
    ],
    ids=["brackets", "structured", "nested", "colons", "blanks", "repeats"],
)
def test_hostile_lines_take_no_time(text: str) -> None:
    for _ in range(20):
        peel(text)


def test_a_message_in_base64_is_just_text() -> None:
    assert peel(journal(MESSAGE=base64.b64encode(b"x").decode())).body == "eA=="
