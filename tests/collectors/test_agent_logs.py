"""Kernel log and training logs: dated, named, folded; history, other hosts and strangers' claims left out."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectors.agent.hosting import host_of
from collectors.agent.source import Collected
from collectors.formats import log
from collectors.formats.reading import Reading, Tally
from collectors.host.growing import Resume
from collectors.host.job_log import JobLog, job_of
from collectors.host.kernel_log import Device, KernelLog
from sickbay.messages import Event, Step
from sickbay.settings import Config
from tests.collectors.agent_kit import XID, kernel_log, settings, write

NOW = 1_790_000_000_000  # 2026-09-21 14:13:20 UTC


def watching(config: Config, place: bytes | None = None) -> KernelLog:
    return KernelLog(host_of(config, lambda source: place))


def events(collected: Collected) -> list[Event]:
    assert collected.problem == ""
    return [one.record for one in collected.seen if isinstance(one.record, Event)]


def test_a_line_is_told_when_it_is_read_and_dated_by_its_stamp(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    source = watching(config)
    assert source.collect(NOW).seen == []
    write(path, f"Sep 21 14:13:20 n1 kernel: [912344.1] {XID}\n")
    (one,) = source.collect(NOW + 500).seen
    assert (one.at_ms, one.line, one.path, one.host) == (NOW, 1, "var/log/kern.log", "n1")
    assert one.record.kind == "accelerator.off_bus"  # type: ignore[union-attr]
    assert source.collect(NOW + 1000).seen == []


def test_an_event_that_waits_for_details_comes_after_a_quiet_second(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    source = watching(config)
    source.collect(NOW)
    write(path, "Sep 21 14:13:20 n1 kernel: [9.1] pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0\n")
    assert events(source.collect(NOW + 200)) == []
    died = source.collect(NOW + 200).place
    again = watching(config, died)  # a run that died now reads the line again
    assert events(again.collect(NOW + 300)) == []
    assert [event.kind for event in events(again.collect(NOW + 1400))] == ["pcie.corrected"]
    (event,) = events(source.collect(NOW + 1300))
    assert event.kind == "pcie.corrected"
    assert events(source.collect(NOW + 2600)) == []


def test_a_first_look_tells_what_is_news_and_no_history(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    write(path, f"Sep 18 03:00:00 n1 kernel: [1.0] {XID}\n")
    write(path, f"[2.0] {XID.replace('79', '48')}\n")  # no time at all
    write(path, f"Sep 21 14:10:00 n1 kernel: [3.0] {XID.replace('79', '31')}\n")
    assert [event.code for event in events(watching(config).collect(NOW))] == ["Xid 31"]


def test_after_a_restart_all_that_was_missed_is_told(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    first = watching(config)
    first.collect(NOW)
    place = first.collect(NOW + 5000).place
    write(path, f"Sep 21 14:13:30 n1 kernel: [3.0] {XID}\n")
    found = watching(config, place).collect(NOW + 3_600_000)
    assert [(one.at_ms, one.line) for one in found.seen] == [(NOW + 10_000, 1)]


def test_a_line_of_another_host_is_not_told_of_this_one(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    source = watching(config)
    source.collect(NOW)
    write(path, f"Sep 21 14:13:20 n2 kernel: [1.0] {XID}\nSep 21 14:13:20 n1.example.org kernel: [1.0] {XID}\n")
    found = source.collect(NOW + 1)
    assert len(found.seen) == 1
    assert found.lost == 1
    assert "another host, n2" in found.lost_why


def test_a_log_that_is_not_there_or_is_none_is_blindness(tmp_path: Path) -> None:
    config = settings(tmp_path, kernel_log="dev/kmsg")
    source = watching(config)
    assert "No such file" in source.collect(NOW).problem
    (tmp_path / "n1/dev/kmsg").mkdir(parents=True)
    assert source.collect(NOW).problem
    (tmp_path / "n1/dev/kmsg").rmdir()
    (tmp_path / "n1/dev/kmsg").touch()
    assert source.collect(NOW).problem == ""


def test_a_log_that_appears_later_is_all_news(tmp_path: Path) -> None:
    config = settings(tmp_path)
    source = watching(config)
    assert source.collect(NOW).problem
    write(kernel_log(config), f"[1.0] {XID}\n")
    assert [event.code for event in events(source.collect(NOW + 200))] == ["Xid 79"]


def test_a_log_that_cannot_be_read_for_a_while_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    source = watching(config)
    source.collect(NOW)
    write(path, f"[1.0] {XID.replace('79', '31')}\n")
    assert len(events(source.collect(NOW + 200))) == 1
    with monkeypatch.context() as broken:
        broken.setattr("collectors.host.growing.os.pread", _input_output_error)
        assert "Input/output error" in source.collect(NOW + 400).problem
    write(path, f"[1.0] {XID}\n")
    assert [event.code for event in events(source.collect(NOW + 600))] == ["Xid 79"]


def _input_output_error(*_: object) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_device_code_that_cannot_be_read_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    source = watching(config)
    source.collect(NOW)
    write(path, f"<<strange 7 envelope>> {XID}\n")
    found = source.collect(NOW + 200)
    assert found.seen == []
    assert found.lost == 1
    assert "device codes in an envelope that is not known" in found.lost_why
    assert source.collect(NOW + 400).lost == 0


class Ring:
    """The kernel's device: a list of records, or errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, records: Sequence[bytes | int] = ()) -> None:
        self.records = list(records)
        monkeypatch.setattr("collectors.host.kernel_log.os.read", self.read)

    def read(self, handle: int, size: int) -> bytes:
        if not self.records:
            raise BlockingIOError
        record = self.records.pop(0)
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return record


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.touch()
    return path


def test_the_device_gives_records_with_their_continuation(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ring(monkeypatch, [b"6,10,500,-;one\n SUBSYSTEM=pci\n DEVICE=+pci:0000:cb:00.0\n", b"6,11,900,-;two\n"])
    source = Device(device, None)
    found = list(source.read())
    assert [(lines.first, lines.text.split(b"\n")[0]) for lines in found] == [
        (10, b"6,10,500,-;one"),
        (11, b"6,11,900,-;two"),
    ]
    assert source.at_end
    assert source.lost() == 0


def test_records_that_were_overwritten_are_counted(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ring(monkeypatch, [b"6,10,500,-;one\n", errno.EPIPE, b"6,15,900,-;two\n"])
    source = Device(device, None)
    assert len(list(source.read())) == 2
    assert source.lost() == 4
    assert source.lost() == 0


def test_a_second_run_of_the_same_boot_skips_what_the_first_told(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(monkeypatch, [b"6,10,500,-;one\n", b"6,11,600,-;two\n"])
    first = Device(device, None)
    list(first.read())
    ring.records = [b"6,10,500,-;one\n", b"6,11,600,-;two\n", b"6,12,700,-;three\n"]
    second = Device(device, Resume(first.place, first.place))
    assert [lines.first for lines in second.read()] == [12]
    ring.records = [b"6,0,500,-;of another boot\n"]
    other_boot = first.place.replace(b'["', b'["x')
    other = Device(device, Resume(other_boot, other_boot))
    assert [lines.first for lines in other.read()] == [0]


@pytest.mark.parametrize("record", [b"", b"\n", b";", b"\xff" * 100, b"6,99999999999999999999999,1,-;x\n", b"6,1"])
def test_junk_from_the_device_is_passed_over(device: Path, monkeypatch: pytest.MonkeyPatch, record: bytes) -> None:
    Ring(monkeypatch, [record])
    assert list(Device(device, None).read()) == []


def test_the_real_device_can_be_read_where_there_is_one(tmp_path: Path) -> None:
    try:
        source = Device(Path("/dev/kmsg"), None)
    except OSError as error:
        pytest.skip(f"/dev/kmsg: {error.strerror}")
    try:
        assert all(lines.text.endswith(b"\n") for lines in source.read())
    finally:
        source.close()


def jobs(config: Config, place: bytes | None = None) -> JobLog:
    return JobLog(host_of(config, lambda source: place))


def touched(path: Path, now_ms: int) -> None:
    os.utime(path, (now_ms / 1000, now_ms / 1000))


STEP = "[2026-09-21 14:13:{second:02}] iteration {step}/ 500 | elapsed time per iteration (ms): 812.5 | lm loss: 2.5\n"


def test_a_new_training_log_gives_steps_of_its_job(tmp_path: Path) -> None:
    config = settings(tmp_path, job_logs=("scratch/slurm-*.out",))
    source = jobs(config)
    assert source.collect(NOW).seen == []
    path = Path(config.agent.root) / "scratch/slurm-4711.out"
    path.parent.mkdir()
    write(path, STEP.format(second=20, step=1) + STEP.format(second=21, step=2))
    touched(path, NOW)
    first = source.collect(NOW + 3000).seen
    found = source.collect(NOW + 4100)  # the last line may have more to say for a second
    steps = [one for one in (*first, *found.seen) if isinstance(one.record, Step)]
    assert [(one.record.step, one.job, one.line) for one in steps] == [(1, "4711", 1), (2, "4711", 2)]  # type: ignore[union-attr]
    assert found.place is not None
    again = jobs(config, found.place)
    assert again.collect(NOW + 5000).seen == []
    write(path, STEP.format(second=22, step=3))
    more = [*again.collect(NOW + 6000).seen, *again.collect(NOW + 7100).seen]
    assert [one.record.step for one in more if isinstance(one.record, Step)] == [3]


def test_whoever_writes_a_job_log_speaks_for_no_host(tmp_path: Path) -> None:
    config = settings(tmp_path, job_logs=("scratch/slurm-*.out",))
    source = jobs(config)
    source.collect(NOW)
    path = Path(config.agent.root) / "scratch/slurm-4711.out"
    path.parent.mkdir()
    write(path, f"Sep 21 14:13:20 n1 kernel: [1.0] {XID}\n{XID}\nSep 21 14:13:20 n7 kernel: [1.0] {XID}\n")
    touched(path, NOW)
    assert source.collect(NOW + 3000).seen == []


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("scratch/slurm-4711.out", "4711"),
        ("scratch/slurm-4711_3.out", "4711_3"),
        ("scratch/4711.err", "4711"),
        ("a/b/train-n12.log", "~a_b_train-n12.log"),
        ("scratch/run-1-of-2.out", "~scratch_run-1-of-2.out"),
    ],
)
def test_the_job_is_the_number_in_the_name(path: str, job: str) -> None:
    assert job_of(path) == job


def test_at_most_some_files_are_followed_the_newest(tmp_path: Path) -> None:
    config = settings(tmp_path, job_logs=("*.out",))
    for number in range(80):
        path = Path(config.agent.root) / f"slurm-{number}.out"
        path.touch()
        touched(path, NOW - 1000 * number)
    source = jobs(config)
    source.collect(NOW)
    assert len(source._logs) == 64
    assert "slurm-0.out" in source._logs
    source.close()


@pytest.mark.parametrize("name", log.modules())
def test_read_as_it_grows_a_log_tells_what_it_tells_read_whole(name: str) -> None:
    text = "".join(f"{sample.text}\n" for sample in log.modules()[name].SAMPLES).encode()
    following = log.Following(Tally())
    found = [
        reading
        for number, line in enumerate(text.split(b"\n")[:-1], 1)
        for reading in following.take(line + b"\n", number)
    ]
    found += following.end()
    whole = list(log.read([text], Tally()))
    assert sorted(map(_key, found)) == sorted(map(_key, whole))
    assert list(following.end()) == []


def _key(reading: Reading) -> tuple[int, str]:
    return reading.line, repr(reading.record)


def test_a_log_that_cannot_be_read_stays_told_until_it_is_gone(tmp_path: Path) -> None:
    config = settings(tmp_path, job_logs=("*.out",))
    path = Path(config.agent.root) / "slurm-1.out"
    os.mkfifo(path)
    touched(path, NOW)
    source = jobs(config)
    assert {bool(source.collect(NOW + later).problem) for later in range(0, 8_000, 500)} == {True}
    path.unlink()
    source.collect(NOW + 8_000)
    assert [source.collect(NOW + later).problem for later in range(10_000, 14_000, 500)] == [""] * 8
