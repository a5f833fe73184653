"""The Slurm client on a recorded cluster: what it asks, what it refuses to write, and what an error means."""

import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediation.schedulers import Refused, SchedulerError, Unreachable, slurm
from remediation.schedulers.reasons import MAX_REASON, cleaned, ours
from remediation.schedulers.slurm import SlurmScheduler
from sickbay.programs import Answer
from sickbay.settings import Slurm

REASON = "sickbay 0123456789abcdef g2 accelerator_off_bus at accelerator:n2/0000:cb:00, incident e17"
NODE = "NodeName={} Arch=x86_64 CPUTot=8 OS=Linux 6.1 #1 SMP  RealMemory=1 State={} Partitions=train {}\n"
JOB = "9~1~RUNNING~n[1-2]~2026-03-11T04:20:00~NONE~eve~16~8~NO~1~1~0~x\nJobId=7 JobState=RUNNING~\n"


class Recorded:
    """Stands for `programs.ask`: answers from what is recorded and keeps what it was asked."""

    def __init__(self, nodes: Mapping[str, str], refusal: Answer | None = None) -> None:
        self.nodes, self.refusal = nodes, refusal
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Answer:
        self.asked.append(list(command))
        assert env["TZ"] == "UTC"
        match list(command):
            case ["scontrol", "show", "node", "-o", *which]:
                names = which[0].split(",") if which else list(self.nodes)
                text = "".join(self.nodes.get(name, f"Node {name} not found\n") for name in names)
                return Answer(int("not found" in text), text, "")
            case ["squeue", *_, "--format=%A|%N"]:
                return Answer(0, "9|n[1-2]\n11|\n", "")
            case ["squeue", "--noheader", "--all", "--states=all", form, *_]:
                return Answer(0, JOB.replace("~", form.partition("JobID:")[2].partition(",")[0]), "")
            case _:
                return self.refusal or Answer(0, "", "")

    @property
    def written(self) -> list[list[str]]:
        return [command[1:] for command in self.asked if command[1] in ("update", "requeue")]


def node(name: str, state: str = "IDLE", reason: str = "") -> str:
    return NODE.format(name, state, f"Reason={reason}" if reason else "")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    me = slurm._me()[0]
    nodes = {
        "n1": node("n1"),
        "n2": node("n2", "MIXED+DRAIN", f"{REASON} [{me}@2026-03-11T04:31:07]"),
        "n3": node("n3", "IDLE+DRAIN", "swap DIMM [li@2026-03-11T04:31:07]"),
        "n4": node("n4", "DOWN"),
        "n5": node("n5", "IDLE+DRAIN", f"{REASON} [li@2026-03-11T04:31:07]"),
        "n6": node("n6", "IDLE+DRAIN", f"{REASON} [{me}@2026-03-11T04:31:07] kept for RMA [li@2026-03-12T04:31:07]"),
        "n7": node("n7", "UNKNOWN+DRAIN", f"{REASON} [{me}@2026-03-11T04:31:07]"),
    }
    found = Recorded(nodes)
    monkeypatch.setattr(slurm, "ask", found)
    return found


def client() -> SlurmScheduler:
    return SlurmScheduler(Slurm(), lambda: 1000)


def test_nodes_are_told_with_who_holds_them_and_what_runs_there(recorded: Recorded) -> None:
    nodes = client().nodes()
    assert [name for name, one in nodes.items() if not one.held] == ["n1"]
    held = nodes["n2"]
    assert (held.reason, held.jobs, held.read_ms) == (REASON, ("9",), 1000)
    assert held.reason_at_ms == 1_773_203_467_000  # 2026-03-11T04:31:07Z
    assert (nodes["n3"].reason_by, nodes["n6"].reason_by) == ("li", "li")
    assert set(client().nodes(["n1", "nope", "-x", "ALL"])) == {"n1"}


@pytest.mark.parametrize("added", ["", " : reboot issued", " : reboot requested : reboot complete"])
def test_what_slurm_itself_adds_at_a_reboot_changes_nobodys_reason(recorded: Recorded, added: str) -> None:
    recorded.nodes = {"n2": node("n2", "DOWN+DRAIN+REBOOT_ISSUED", f"{REASON}{added} [root@2026-03-11T04:31:07]")}
    assert client().nodes()["n2"].reason == REASON


@pytest.mark.parametrize("row", ["squeue: motd", "9 n1", "|n1", "x|n1"])
def test_a_queue_that_cannot_be_read_is_no_idle_node(
    recorded: Recorded, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(command: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Answer:
        return Answer(0, f"{row}\n", "") if command[0] == "squeue" else recorded(command, timeout_s=timeout_s, env=env)

    monkeypatch.setattr(slurm, "ask", asked)
    with pytest.raises(Unreachable):
        client().nodes()


def test_jobs_are_told_with_their_attempt(recorded: Recorded) -> None:
    (job,) = client().jobs().values()
    assert (job.id, job.attempt, job.state, job.nodes, job.may_requeue) == ("9", 1, "running", ("n1", "n2"), True)
    assert client().jobs(["7"]) == {}  # a forged one


def test_a_hold_is_written_and_taken_off(recorded: Recorded) -> None:
    client().drain("n1", REASON)
    client().drain("n2", REASON)  # ours already
    client().resume("n2")
    client().requeue("9")
    assert recorded.written == [
        ["update", "NodeName=n1", "State=DRAIN", f"Reason={REASON}"],
        ["update", "NodeName=n2", "State=DRAIN", f"Reason={REASON}"],
        ["update", "NodeName=n2", "State=UNDRAIN"],
        ["requeue", "Incomplete", "9"],
    ]


@pytest.mark.parametrize("name", ["n3", "n4", "n5", "n6", "nope"])
def test_what_somebody_else_holds_is_never_written(recorded: Recorded, name: str) -> None:
    writes: list[Callable[[], None]] = [lambda: client().drain(name, REASON), lambda: client().resume(name)]
    for write in writes:
        with pytest.raises(Refused):
            write()
    assert recorded.written == []


def test_a_node_that_the_controller_has_not_heard_of_yet_is_tried_again_later(recorded: Recorded) -> None:
    with pytest.raises(Unreachable, match="try again"):
        client().resume("n7")


@given(
    st.text(max_size=40) | st.sampled_from(["all", "aLL", "n[1-2]", "n1,n2", "n1 State=DOWN", "-n1", "n1\n", "n1\0"])
)
def test_no_name_becomes_more_than_a_name(text: str) -> None:
    asked = Recorded({text: node(text)})
    writes: list[Callable[[], None]] = [lambda: client().drain(text, REASON), lambda: client().requeue(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm, "ask", asked)
        for write in writes:
            try:
                write()
            except SchedulerError:
                continue
        client().nodes([text])
        client().jobs([text])
    for command in asked.written:
        assert re.fullmatch(r"NodeName=[A-Za-z0-9][A-Za-z0-9._-]*", command[1]) or command[2].isdigit()
        assert command[1].lower() != "nodename=all"
    assert all("\n" not in word and "\0" not in word for command in asked.asked for word in command)


@given(st.text(max_size=600))
def test_a_reason_holds_nothing_but_plain_words(text: str) -> None:
    reason = cleaned(text)
    assert re.fullmatch(r"[!#%-&(-<>-Z\\^_a-z{}~ ]*", reason)
    assert len(reason) <= MAX_REASON
    assert cleaned(reason) == reason
    assert ours(cleaned(f"sickbay a1b2 {text}")) == "a1b2"


def test_whose_reason_it_is() -> None:
    assert ours(REASON) == "0123456789abcdef"
    assert ours("sickbay:a1 x") == "a1"
    for other in ("", "sickbay", "sickbay ", "see sickbay a1", "Sickbay a1", "sickbays a1", "sickbay -x", "NHC: bad"):
        assert ours(other) is None


@pytest.mark.parametrize(
    ("says", "kind", "hint"),
    [
        ("slurm_update error: Access/permission denied", Refused, "SlurmUser"),
        ("slurm_update error: Invalid node state specified", Refused, "Invalid node state"),
        ("slurm_update error: Unable to contact slurm controller (connect failure)", Unreachable, "scontrol ping"),
        ("slurm_update error: Socket timed out on send/recv operation", Unreachable, "scontrol ping"),
        ("slurm_update error: Resource temporarily unavailable", SchedulerError, "unavailable"),
        ("", SchedulerError, "exit status 1"),
    ],
)
def test_an_error_says_whether_it_was_heard(says: str, kind: type[SchedulerError], hint: str) -> None:
    asked = Recorded({"n1": node("n1")}, Answer(1, "", says))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm, "ask", asked)
        with pytest.raises(kind, match=hint) as raised:
            client().drain("n1", REASON)
    assert type(raised.value) is kind
