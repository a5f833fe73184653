"""The driver's library: every answer it can give, through a stand-in that raises the library's own errors."""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from collectors.agent.source import Collected, Host
from collectors.formats.nvml_answers import Cards, number_of
from collectors.host import nvml_calls
from collectors.host.accelerator_nvml import MISSING, AcceleratorNvml, child
from collectors.host.child import Child, ChildGone
from collectors.host.nvml_calls import Calls
from sickbay.messages import Action, Event, Identity, Severity
from sickbay.schema import Samples
from sickbay.settings import Agent
from tests.collectors.agent_kit import wait_for

PCI = ("00000000:1B:00.0", "00000000:2C:00.0")
PLAIN = {
    "nvmlDeviceGetPowerUsage": 512_345,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=99, memory=41),
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetClockInfo": 1755,
    "nvmlDeviceGetCurrentClocksEventReasons": 4,
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=70 << 30, total=80 << 30, free=10 << 30),
    "nvmlDeviceGetTotalEnergyConsumption": 123_456_789,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetPcieReplayCounter": 3,
    "nvmlDeviceGetViolationStatus": SimpleNamespace(violationTime=1_000_000_000, referenceTime=1),
    "nvmlDeviceGetTotalEccErrors": 2,
    "nvmlDeviceGetRemappedRows": (1, 2, 1, 0),
    "nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000001",
    "nvmlDeviceGetSerial": "1650000000001",
    "nvmlDeviceGetName": "H100",
}
FIELDS = {82: 66, 138: 1 << 20, 139: 1 << 21, 161: 5, 162: 6, 163: 7, 230: 0}


class Library:
    """Two cards. `answers` replaces what a call gives or raises, by (call, card) or by the call alone."""

    NVMLError = pynvml.NVMLError
    c_nvmlGpuFabricInfoV_t = pynvml.c_nvmlGpuFabricInfoV_t

    def __init__(self, answers: Mapping[Any, Any] | None = None, cards: int = 2) -> None:
        self.answers, self.cards, self.called = dict(answers or {}), cards, list[str]()

    def __getattr__(self, call: str) -> Callable[..., Any]:
        def told(handle: Any = 0, *more: Any) -> Any:
            self.called.append(call)
            answer = self.answers.get((call, handle), self.answers.get(call))
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
            return self._usual(call, handle, *more)

        return told

    def _usual(self, call: str, handle: Any, *more: Any) -> Any:
        if call in PLAIN:
            return PLAIN[call]
        if call == "nvmlDeviceGetCount":
            return self.cards
        if call == "nvmlDeviceGetHandleByIndex":
            return handle
        if call == "nvmlDeviceGetPciInfo":
            return SimpleNamespace(busId=PCI[handle].encode())
        if call == "nvmlDeviceGetGpuFabricInfoV":
            more[0].state = 3
            return 0
        if call == "nvmlDeviceGetFieldValues":
            return [self._field(field) for field, _ in more[0]]
        assert call == "nvmlInit", call
        return None

    def _field(self, field: int) -> Any:
        told = self.answers.get(field, FIELDS[field])
        value = pynvml.c_nvmlFieldValue_t()
        value.fieldId, value.valueType = field, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        value.nvmlReturn = told.value if isinstance(told, pynvml.NVMLError) else 0
        value.value.ullVal = 0 if isinstance(told, pynvml.NVMLError) else told
        return value


def lines(library: Library, *questions: str) -> list[dict[str, Any]]:
    """What the process would answer, as it is read from its pipe."""
    out = io.StringIO()
    nvml_calls.serve(Calls(library), io.StringIO("\n".join(questions) + "\n"), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def asked(calls: Calls, question: str) -> list[dict[str, Any]]:
    """One answer, as it is read from its pipe."""
    return [json.loads(json.dumps(line)) for line in calls.answer(question)]


def row(records: list[Any], card: str = "0000:1b:00") -> dict[str, float]:
    (samples,) = [one for one in records if isinstance(one, Samples)]
    at = samples.component.index(f"accelerator:?/{card}")
    return {key: float(values[at]) for key, values in samples.values.items() if values[at] == values[at]}


def events(records: list[Any]) -> list[Event]:
    return [one for one in records if isinstance(one, Event)]


def error(code: int) -> pynvml.NVMLError:
    """The library's own exception of that code: the class picks its subclass."""
    return pynvml.NVMLError(code)


def test_a_slow_answer_gives_every_column_that_the_driver_tells() -> None:
    cards = Cards()
    cards.read(lines(Library(), "names"), 1_000)
    records, trouble = cards.read(lines(Library({138: 3 << 20}), "slow"), 2_000)
    assert trouble == ""
    told = row(records)
    assert told == {
        "utilisation_ratio": 0.99, "memory_active_ratio": pytest.approx(0.41), "power_watts": 512.345,
        "power_limit_watts": 700.0,
        "temperature_celsius": 61.0, "memory_temperature_celsius": 66.0, "clock_megahertz": 1755.0,
        "memory_clock_megahertz": 1755.0, "throttle_mask": 4.0, "memory_used_bytes": float(70 << 30),
        "memory_total_bytes": float(80 << 30), "bus_width_lanes": 8.0, "bus_width_max_lanes": 16.0,
        "bus_generation": 5.0, "bus_generation_max": 5.0, "bus_replays_total": 3.0,
        "scale_up_tx_bytes_per_second": float(2 << 30), "scale_up_rx_bytes_per_second": 0.0,
        "scale_up_crc_errors_total": 7.0, "scale_up_replays_total": 5.0, "scale_up_recoveries_total": 6.0,
        "memory_repair_pending": 1.0, "memory_repair_failed": 0.0, "memory_rows_corrected_total": 1.0,
        "memory_rows_uncorrected_total": 2.0, "recovery_action": 0.0, "fabric_state": 3.0,
        "energy_millijoules_total": 123_456_789.0, "thermal_violation_nanoseconds_total": 1e9,
        "power_violation_nanoseconds_total": 1e9, "memory_corrected_total": 2.0, "memory_uncorrected_total": 2.0,
    }  # fmt: skip
    assert events(records) == []


def test_each_card_is_told_with_all_its_names_once() -> None:
    cards = Cards()
    first, _ = cards.read(lines(Library(), "names"), 1_000)
    identities = [one for one in first if isinstance(one, Identity)]
    assert [(one.index, one.pci, one.serial, one.model) for one in identities] == [
        ("0", "0000:1b:00", "1650000000001", "H100"), ("1", "0000:2c:00", "1650000000001", "H100"),
    ]  # fmt: skip
    again, _ = cards.read(lines(Library(), "names"), 2_000)
    assert [one for one in again if isinstance(one, Identity)] == []


def test_what_a_card_does_not_have_is_missing_and_no_trouble() -> None:
    nothing = {call: error(3) for call in PLAIN if "Memory" not in call} | {
        82: error(3),
        "nvmlDeviceGetTemperature": error(13),
    }
    records, trouble = Cards().read(lines(Library(nothing), "slow"), 1_000)
    told = row(records)
    assert trouble == ""
    assert told["memory_used_bytes"] == float(70 << 30)
    assert not {"power_watts", "temperature_celsius", "memory_temperature_celsius", "bus_width_lanes"} & told.keys()


def test_a_call_that_fails_is_a_trouble_of_that_card_and_the_rest_is_told() -> None:
    answers = {("nvmlDeviceGetPowerUsage", 1): error(999), ("nvmlDeviceGetTemperature", 1): error(10)}
    records, trouble = Cards().read(lines(Library(answers), "fast"), 1_000)
    assert trouble == "0000:2c:00: power: Unknown Error, temperature: Timeout"
    assert "power_watts" in row(records)
    assert "power_watts" not in row(records, "0000:2c:00")
    assert row(records, "0000:2c:00")["clock_megahertz"] == 1755.0


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetUUID"])
def test_a_lost_card_is_told_once_and_its_neighbour_is_read(call: str) -> None:
    cards, library = Cards(), Library()
    calls = Calls(library)
    cards.read(asked(calls, "names"), 1_000)
    library.answers[call, 1] = error(15)
    records, trouble = cards.read(asked(calls, "names"), 2_000)
    (lost,) = events(records)
    assert (lost.component, lost.kind, lost.severity) == (
        "accelerator:?/0000:2c:00",
        "accelerator.off_bus",
        Severity.FATAL,
    )
    assert (lost.code, lost.message, trouble) == ("NVML 15", "GPU is lost", "")
    assert row(records)["power_watts"] == 512.345
    assert events(cards.read(asked(calls, "fast"), 3_000)[0]) == []
    library.answers.clear()
    cards.read(asked(calls, "fast"), 4_000)
    library.answers[call, 1] = error(15)
    assert len(events(cards.read(asked(calls, "names"), 5_000)[0])) == 1


def test_what_the_driver_asks_for_is_told_when_it_changes() -> None:
    cards, library = Cards(), Library()
    calls = Calls(library)
    told = []
    for now_ms, action in enumerate((0, 0, 1, 1, 2, 0, 0)):
        library.answers[230] = action
        told.append(
            [one for one in events(cards.read(asked(calls, "slow"), now_ms)[0]) if one.component.endswith("1b:00")]
        )
    assert [[(one.code, one.advice) for one in some] for some in told] == [
        [], [], [("recovery action 1", Action.RESET_DEVICE)], [], [("recovery action 2", Action.REBOOT_HOST)],
        [("recovery action 0", Action.IGNORE)], [],
    ]  # fmt: skip


def test_a_card_that_must_be_reset_says_so_once() -> None:
    cards, library = Cards(), Library({("nvmlDeviceGetHandleByIndex", 0): error(16)})
    calls = Calls(library)
    records, trouble = cards.read(asked(calls, "fast"), 1_000)
    assert [(one.kind, one.advice) for one in events(records)] == [("accelerator.recovery_action", Action.RESET_DEVICE)]
    assert trouble.endswith("GPU requires restart")
    assert events(cards.read(asked(calls, "fast"), 2_000)[0]) == []


@pytest.mark.parametrize("raw", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 1 << 63, -1, "N/A", None, True, [1], float("nan")])
def test_words_for_no_value_are_missing(raw: Any) -> None:
    assert number_of(raw) is None
    records, trouble = Cards().read([{"card": 0, "pci": PCI[0], "values": {"power": raw, "temperature": 50}}], 1_000)
    assert (row(records), trouble) == ({"temperature_celsius": 50.0}, "")


def test_link_bytes_that_fall_are_a_reset_and_no_rate() -> None:
    cards, library = Cards(), Library()
    calls = Calls(library)
    found = []
    for now_ms, kib in ((1_000, 1000), (2_000, 3000), (3_000, 10), (4_000, 1010)):
        library.answers[138] = kib
        found.append(row(cards.read(asked(calls, "fast"), now_ms)[0]).get("scale_up_tx_bytes_per_second"))
    assert found == [None, 2000 * 1024.0, None, 1000 * 1024.0]


@pytest.mark.parametrize("code", [9, 12, 18, 999, 1])
def test_a_library_that_cannot_begin_says_why_and_is_tried_again(code: int) -> None:
    library = Library({"nvmlInit": error(code)})
    calls = Calls(library)
    (line,) = calls.answer("names")
    assert line["fatal"][0] == code
    library.answers.clear()
    assert [*calls.answer("names")][-1] == {"end": 2}


@pytest.mark.parametrize(
    "line",
    [
        {}, {"card": -1}, {"card": "0"}, {"card": True}, {"card": 10**9}, {"card": 0, "values": 7, "failed": [1]},
        {"card": 0, "error": "lost"}, {"card": 0, "error": [1]}, {"card": 0, "pci": "\x00", "values": {"power": {}}},
    ],
)  # fmt: skip
def test_strange_lines_give_nothing(line: dict[str, Any]) -> None:
    records, _ = Cards().read([line], 1_000)
    assert [one for one in records if not isinstance(one, Samples)] == []


def test_only_calls_that_read_are_made() -> None:
    library = Library()
    lines(library, "names", "fast", "slow")
    assert all(call == "nvmlInit" or call.startswith("nvmlDeviceGet") for call in library.called)
    assert all(hasattr(pynvml, call) for call in library.called)


# --- the process, and the collector that asks it

FAKE = """
import json, sys, time
for question in sys.stdin:
    {body}
"""
CARD = {"card": 0, "pci": "0000:1b:00", "values": {"power": 100000}}


def printed(*told: dict[str, Any]) -> str:
    """Code that answers with these lines."""
    return "; ".join(f"print(json.dumps({line!r}), flush=True)" for line in told)


WHOLE = printed(CARD, {"end": 1})
HANGS = printed({"begins": 0}, CARD, {"begins": 1}) + "; time.sleep(600)"


def process(body: str) -> Child:
    return Child([sys.executable, "-c", FAKE.format(body=body)])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    device = tmp_path / "sys/bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n")
    (device / "vendor").write_text("0x10de\n")
    return tmp_path


@pytest.fixture
def made() -> Iterator[list[AcceleratorNvml]]:
    sources: list[AcceleratorNvml] = []
    yield sources
    for one in sources:
        one.close()


def source(tree: Path, body: str, made: list[AcceleratorNvml], **told: Any) -> AcceleratorNvml:
    made.append(AcceleratorNvml(Host("n1", Agent(root=str(tree), timeout_s=0.5, **told)), lambda: process(body)))
    return made[-1]


def up(told: Collected) -> float | None:
    found = [one.record for one in told.seen if isinstance(one.record, Samples) and one.record.table == "host"]
    return float(found[0].values["accelerator_source_up"][0]) if found else None


def until(one: AcceleratorNvml, what: Callable[[Collected], Any]) -> Collected:
    """Collections until one is as it should be."""
    told = Collected()

    def fits() -> bool:
        nonlocal told
        told = one.collect(round(time.time() * 1000))
        return bool(what(told))

    wait_for(fits, 12.0)
    return told


def test_a_host_without_such_cards_is_asked_nothing(tmp_path: Path, made: list[AcceleratorNvml]) -> None:
    told = source(tmp_path, "sys.exit(3)", made).collect(1_000)
    assert (told.problem, told.absent, told.seen) == ("", "no card of NVIDIA on the bus", ())


def test_the_process_answers_again_and_again(tree: Path, made: list[AcceleratorNvml]) -> None:
    one = source(tree, WHOLE, made)
    until(one, lambda told: told.seen)
    told = one.collect(round(time.time() * 1000))
    assert row([seen.record for seen in told.seen if isinstance(seen.record, Samples)][:1])["power_watts"] == 100.0
    assert (up(told), told.problem) == (1.0, "")


@pytest.mark.slow
def test_a_call_that_hangs_is_told_with_its_card_and_nothing_more_is_asked(
    tree: Path, made: list[AcceleratorNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.host.accelerator_nvml.FIRST_S", 0.2)
    one = source(tree, HANGS, made)
    first = until(one, lambda told: "hangs" in told.problem)
    assert first.problem.startswith("a call of the driver hangs at card 1")
    assert up(first) == 0.0
    assert row([seen.record for seen in first.seen][:1])["power_watts"] == 100.0  # the card before it was read
    began = time.monotonic()
    later = one.collect(round(time.time() * 1000))
    assert time.monotonic() - began < 0.4
    assert [one.record.table for one in later.seen if isinstance(one.record, Samples)] == ["host"]  # no value twice
    assert one._host.shared.hangs


def test_a_process_that_ends_by_itself_is_told_and_begun_again_later(tree: Path, made: list[AcceleratorNvml]) -> None:
    one = source(tree, "sys.exit(3)", made)
    told = until(one, lambda told: told.problem)
    assert "ended by itself" in told.problem
    assert up(told) == 0.0


def test_without_the_package_it_says_what_to_do(tree: Path, made: list[AcceleratorNvml]) -> None:
    body = f'print(json.dumps({{"fatal": [0, {nvml_calls.MISSING!r}]}}), flush=True)'
    assert until(source(tree, body, made), lambda told: told.problem).problem == MISSING


@pytest.mark.parametrize(("code", "missed"), [(0, False), (12, False), (18, True), (999, True)])
def test_beside_an_exporter_a_library_that_is_not_there_is_not_missed(
    tree: Path, made: list[AcceleratorNvml], code: int, missed: bool
) -> None:
    one = source(tree, printed({"fatal": [code, "why"]}), made, exporters=("http://127.0.0.1:9400/metrics",))
    one._host.shared.measured_ms = 1_000
    wait_for(lambda: (told := one.collect(2_000)).problem or told.absent)
    later = [one.collect(2_000 + later) for later in (100, 200, 11_000)]
    assert [bool(told.problem) for told in later[:2]] == [missed, missed]
    assert all(told.problem or told.absent for told in later)


@pytest.mark.slow
def test_what_came_before_the_first_answer_was_whole_is_told_with_it(
    tree: Path, made: list[AcceleratorNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = printed(CARD) + "; time.sleep(0.8); " + printed({"end": 1})
    one = source(tree, body, made)
    told = until(one, lambda told: told.seen)
    assert row([seen.record for seen in told.seen if isinstance(seen.record, Samples)][:1]) == {"power_watts": 100.0}
    assert told.problem == ""


def test_the_real_process_says_that_there_is_no_library_here(tree: Path, made: list[AcceleratorNvml]) -> None:
    made.append(AcceleratorNvml(Host("n1", Agent(root=str(tree), timeout_s=5.0)), child))
    told = until(made[-1], lambda told: told.problem or told.seen)
    assert "NVML Shared Library Not Found" in told.problem or up(told) == 1.0


def test_where_an_exporter_measures_only_names_are_told(tree: Path, made: list[AcceleratorNvml]) -> None:
    one = source(tree, WHOLE, made, exporters=("http://127.0.0.1:9400/metrics",))
    one._host.shared.measured_ms = round(time.time() * 1000)
    told = until(one, lambda told: told.seen)
    assert [type(seen.record) for seen in told.seen if not isinstance(seen.record, Samples)] == [Identity]
    assert up(told) is None
    assert one.collect(round(time.time() * 1000)).absent
    one._host.shared.reread_ms = round(time.time() * 1000) + 1  # a hard event: asked again, at once
    assert one.collect(one._host.shared.reread_ms).seen


def test_where_the_exporter_falls_silent_the_driver_stands_in_with_what_makes_no_steps(
    tree: Path, made: list[AcceleratorNvml]
) -> None:
    body = printed(CARD | {"values": {"power": 100_000, "energy": 7}}, {"end": 1})
    one = source(tree, body, made, exporters=("http://127.0.0.1:9400/metrics",))
    one._host.shared.measured_ms = 1_000
    wait_for(lambda: one.collect(1_000 + 30_000).absent)
    told = one.collect(1_000 + 61_000)
    assert row([seen.record for seen in told.seen]) == {"power_watts": 100.0}
    one._host.shared.measured_ms = 1_000 + 62_000
    assert one.collect(1_000 + 63_000).absent


def test_a_card_that_the_driver_has_and_does_not_tell_is_a_blindness(tree: Path, made: list[AcceleratorNvml]) -> None:
    for address in ("0000:1b:00.0", "0000:2c:00.0"):
        device = tree / "sys/bus/pci/devices" / address
        device.mkdir(exist_ok=True)
        (device / "class").write_text("0x030200\n")
        (device / "vendor").write_text("0x10de\n")
        (tree / "sys/bus/pci/drivers/nvidia").mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(tree / "sys/bus/pci/drivers/nvidia")
    told = until(source(tree, WHOLE, made), lambda told: told.problem)
    assert told.problem == "the driver tells of 1 of its 2 cards on the bus"
    assert up(told) == 1.0


def test_an_exporter_that_tells_of_no_accelerator_leaves_them_to_the_driver(
    tree: Path, made: list[AcceleratorNvml]
) -> None:
    one = source(tree, WHOLE, made, exporters=("http://127.0.0.1:9100/metrics",))
    wait_for(lambda: one.collect(1_000).absent)
    assert one.collect(1_000 + 50_000).absent
    assert up(one.collect(1_000 + 70_000)) == 1.0


def test_more_than_an_answer_may_hold_ends_the_process() -> None:
    flood = Child([sys.executable, "-c", "import sys\nsys.stdin.readline()\nwhile True: print('x' * 65536)"])
    with pytest.raises(ChildGone):
        flood.ask("fast", 20.0)
    flood.close()


@pytest.mark.slow
def test_a_process_that_hangs_for_long_is_ended_and_a_new_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.host.child.KILL_S", 0.3)
    monkeypatch.setattr("collectors.host.child.AGAIN_S", 0.0)
    hangs = f"import pathlib; flag = pathlib.Path({str(tmp_path / 'hung')!r})"
    body = f"{hangs}; first = not flag.exists(); flag.touch(); time.sleep(600 if first else 0); {WHOLE}"
    one = process(body)
    try:
        assert one.ask("fast", 0.5)[1] is False
        assert one.hangs_s > 0.3
        with pytest.raises(ChildGone):
            wait_for(lambda: one.ask("fast", 0.5)[1])
        assert one.hangs_s == 0.0
        assert one.ask("fast", 10.0) == ([CARD, {"end": 1}], True)
    finally:
        one.close()
