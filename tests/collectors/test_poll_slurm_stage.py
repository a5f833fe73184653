"""The stage that polls: what reaches the log, when, and what a question that fails does not do."""

from pathlib import Path

import pytest

from collectors.cluster import poll, scheduler_slurm
from collectors.cluster.poll import AGAIN_MS, Polled, Poller, PollFailed, Source
from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.app.running.poller import limits, pollings
from sickbay.app.running.service import Context
from sickbay.cli import main
from sickbay.config import ConfigError
from sickbay.log import Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.messages import AnyMessage, Edge, Event, Placement, decode
from sickbay.programs import NoAnswer, ask
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, Slurm

T = 1_773_203_400_000
S = 1000
JOB = "~".join(
    ["9", "0", "RUNNING", "n[1-2]", "2026-03-11T04:20:00", "NONE", "eve", "2", "1", "NO", "1", "1", "0", "x"]
)
NODES = (
    "NodeName=n1 Arch=x86_64 CPUTot=8 State=IDLE Partitions=train\n"
    "NodeName=n2 Arch=x86_64 CPUTot=8 State=IDLE+DRAIN Partitions=train Reason=x [li@2026-03-11T04:25:00]\n"
)
CONFIG = "ClusterName             = c1\nReturnToService         = 1\nSlurmdTimeout           = 300 sec\n"
CONF = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n"


class FakeSlurm:
    """Answers what it is set to; a failure is raised."""

    def __init__(self) -> None:
        self.jobs, self.nodes, self.failure = [JOB], NODES, ""
        self.reservations = "No reservations in the system\n"

    def __call__(self, program: str, *arguments: str) -> str:
        if self.failure:
            raise PollFailed(self.failure)
        if program == "scontrol":
            return {"node": self.nodes, "config": CONFIG, "reservation": self.reservations}.get(arguments[1], "")
        mark = arguments[-1].partition(":")[2].partition(",")[0]
        return "".join(job.replace("~", mark) + mark + "\n" for job in self.jobs)


class Site:
    """A fake Slurm, polled to a log in memory."""

    def __init__(self, settings: Slurm | None = None, key: bytes | None = None) -> None:
        self.slurm, self.log, self.metrics, self.said = FakeSlurm(), MemoryLog(), SelfMetrics(), list[str]()
        decided = ("slurm_reservations", "slurm_timers")  # test_poll_slurm_site
        sources = [one for one in scheduler_slurm.of(self.slurm, settings or Slurm()) if one.name not in decided]
        self.poller = Poller(sources, self.log.appender(), self.metrics, self.said.append, key)

    def until(self, now_ms: int) -> None:
        while self.poller.step(now_ms):
            pass

    def records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [record for task in tasks_of(self.log.topics, [topic]) for record in reader.read(task, 0)]

    def told(self, topic: str) -> list[AnyMessage]:
        return [decode(record.value or b"") for record in self.records(topic)]


def placements(site: Site) -> list[tuple[str, int | None]]:
    return [(one.job, one.to_ms) for one in site.told("sickbay.placement.v1") if isinstance(one, Placement)]


def test_the_first_polls_tell_what_stands_and_later_ones_what_changes() -> None:
    site = Site()
    site.until(T)
    assert placements(site) == [("9", None)]
    assert [record.key for record in site.records("sickbay.placement.v1")] == [b"9"]
    (event,) = site.told("sickbay.events.v1")
    assert isinstance(event, Event)
    assert (event.component, event.kind, event.attributes["user"]) == ("host:n2", "scheduler.host_drained", "li")
    for after_s in (1, 5, 10, 15):
        site.until(T + after_s * S)
    assert len(site.records("sickbay.placement.v1")) == len(site.records("sickbay.events.v1")) == 1
    site.until(T + AGAIN_MS)
    assert placements(site) == [("9", None)] * 2


def test_a_question_that_fails_ends_nothing_and_is_said_once() -> None:
    site = Site()
    site.until(T)
    site.slurm.failure = "squeue did not answer within 5 s"
    for after_s in range(5, 305, 5):
        site.until(T + after_s * S)
    assert placements(site) == [("9", None)]
    assert [text for text in site.said if "did not answer" in text and "jobs" in text] == [site.said[0]]
    assert site.metrics.value(selfmetrics.PROBE_FAILED, source="slurm_jobs") == 60
    assert "slurm_jobs" in site.poller.waiting
    site.slurm.failure = ""
    site.until(T + 310 * S)
    assert placements(site) == [("9", None)]
    assert site.poller.waiting == ""
    assert site.said[-2:] == ["slurm_jobs: answers again", "slurm_nodes: answers again"]


def test_an_answer_over_which_a_source_stumbles_ends_no_other() -> None:
    site, asked = Site(), list[int]()

    def stumbles(state: int, now_ms: int) -> Polled[int]:
        raise KeyError("surprise")

    def answers(state: int, now_ms: int) -> Polled[int]:
        asked.append(now_ms)
        return Polled(state + 1)

    sources = [Source("odd", 1.0, 0, stumbles), Source("other", 1.0, 0, answers)]
    poller = Poller(sources, site.log.appender(), site.metrics, site.said.append)
    for now_ms in (T, T + 1, T + S, T + S + 1):
        poller.step(now_ms)
    assert len(asked) == 2
    assert [text.partition(":")[0] for text in site.said] == ["odd"]
    assert "KeyError: 'surprise' at test_poll_slurm_stage.py:" in site.said[0]
    assert poller.waiting.startswith("odd: KeyError")
    assert site.metrics.value(selfmetrics.PROBE_FAILED, source="odd") == 2


@pytest.mark.parametrize("answer", ["", "error: something odd\n", "NodeName=\n"])
def test_an_answer_without_nodes_is_no_answer(answer: str) -> None:
    site = Site()
    site.slurm.nodes = answer
    site.until(T)
    assert "slurm_nodes" in site.poller.waiting
    assert site.records("sickbay.events.v1") == []


def test_what_could_not_be_appended_is_told_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.log.close()  # every append fails
    site.until(T)
    assert "slurm_jobs" in site.poller.waiting
    log = MemoryLog()
    monkeypatch.setattr(site.poller, "_appender", log.appender())
    site.log = log
    site.until(T + 5 * S)
    assert placements(site) == [("9", None)]


def test_events_are_signed_as_the_host_that_they_speak_of() -> None:
    key = b"k" * 32
    site = Site(key=key)
    site.until(T)
    gate = Admission(key, require_signed=True)
    (record,) = site.records("sickbay.events.v1")
    assert record.key == b"n2"
    assert isinstance(gate.message(record).message, Event)


def test_a_clock_that_is_set_back_stops_no_poll() -> None:
    site = Site()
    site.until(T)
    site.until(T - 86_400 * S)
    site.slurm.jobs = []
    site.until(T - 86_400 * S + 5 * S)
    site.until(T - 86_400 * S + 70 * S)
    assert len(placements(site)) == 2


def test_the_topology_file_is_told_and_what_leaves_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text(CONF)
    site = Site(Slurm(topology_conf=str(file)))
    site.until(T)
    edges = [one for one in site.told("sickbay.topology.v1") if isinstance(one, Edge)]
    assert len(edges) == 6
    assert ("host:n1", "switch:leaf1", None) in [(one.child, one.parent, one.to_ms) for one in edges]
    file.write_text(CONF.replace("n[3-4]", "n4"))
    site.until(T + 30 * S)
    (ended,) = [one for one in site.told("sickbay.topology.v1") if isinstance(one, Edge)][6:]
    assert (ended.child, ended.to_ms) == ("host:n3", T + 30 * S)
    for bad in ("", "SwitchName=leaf1 Nodes=n[1-\nwhat is this\n"):  # an editor at work
        file.write_text(bad)
        site.until(T + 60 * S)
        site.until(T + 90 * S)
    file.unlink()
    site.until(T + 120 * S)
    assert len(site.records("sickbay.topology.v1")) == 7
    assert "topology_conf" in site.poller.waiting


def test_a_new_run_begins_with_what_the_last_one_told(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text(CONF)
    before = Site(Slurm(topology_conf=str(file)))
    before.until(T)
    file.write_text(CONF.replace("n[3-4]", "n4"))
    fakes = {"squeue": "#!/bin/sh\n", "scontrol": "#!/bin/sh\necho 'NodeName=n1 State=IDLE'\n"}
    for name, text in fakes.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    config = Config(slurm=Slurm(bin=str(tmp_path), topology_conf=str(file)))
    context = Context(config, before.log, SelfMetrics(), before.said.append)
    makes = pollings(["slurm", "slurm"], config)
    stages = [make(context) for make in makes.values()]
    assert len(stages) == 5  # one a question, though the source was named twice
    for after_s in (100, 170):
        for stage in stages:
            while stage.step(T + after_s * S):
                pass
    assert placements(before) == [("9", None), ("9", None), ("9", T + 100 * S)]
    ended = [one for one in before.told("sickbay.topology.v1") if isinstance(one, Edge) and one.to_ms]
    assert [one.child for one in ended] == ["host:n3"]
    assert min(limits(makes).values()) > config.slurm.timeout_s


def test_the_catalogue_holds_what_can_be_made() -> None:
    for name in poll.CATALOGUE:
        if name != "slurm":  # it says which setting names what to ask
            with pytest.raises(ConfigError, match=r"\["):
                poll.sources([name], Config())
    assert poll.sources(["slurm"], Config())
    with pytest.raises(KeyError):
        poll.sources(["nonsense"], Config())


def test_the_commands_are_asked_in_utc_with_the_settings_conf(tmp_path: Path) -> None:
    script = tmp_path / "squeue"
    script.write_text('#!/bin/sh\necho "$TZ $SLURM_CONF $SQUEUE_FORMAT $1"\n')
    script.chmod(0o755)
    settings = Slurm(bin=str(tmp_path), conf="/etc/my/slurm.conf")
    commands = scheduler_slurm.Commands(settings, {"SQUEUE_FORMAT": "%all", "TZ": "Asia/Shanghai"})
    assert commands("squeue", "a b;c") == "UTC /etc/my/slurm.conf  a b;c\n"
    with pytest.raises(PollFailed, match=r"\[slurm\] bin"):
        commands("scontrol")
    script.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2\nexit 1\n")
    with pytest.raises(PollFailed, match="Unable to contact"):
        commands("squeue")


def test_the_command_says_what_it_can_poll(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["poll"]) == 2
    assert main(["poll", "slurm", "pbs"]) == 2
    assert "'pbs'; there are slurm" in capsys.readouterr().err
    (tmp_path / "memory.toml").write_text('[log]\nengine = "memory"\n')
    assert main(["poll", "slurm", "--config", str(tmp_path / "memory.toml")]) == 2
    assert "no other process" in capsys.readouterr().err


def test_a_program_that_hangs_is_ended_with_what_it_started() -> None:
    with pytest.raises(NoAnswer, match=r"0\.2 s"):  # the child of the shell holds the pipe open
        ask(["/bin/sh", "-c", "sleep 60 & sleep 60"], timeout_s=0.2, env={})
