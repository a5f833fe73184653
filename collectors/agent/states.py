"""What state each source of a host is in, for metrics and for `doctor`, and what to do about it.

ok       it collects, or would: nothing is wrong
absent   there is nothing of its kind here: no such device, no such tool, nothing set
blind    there is something, and it cannot be read: a right, a tool or an answer is missing
hangs    a collection does not return
off      the settings leave it out
waits    it has not collected yet
"""

from collections.abc import Callable
from typing import NamedTuple

WORDS = ("ok", "absent", "blind", "hangs", "off", "waits")
BY_SETTINGS = "not in [agent] collectors"
NO_CALLS = "[agent] driver_calls = false"

# What the trouble says -> what helps. The first that fits; texts are those of the system and of the collectors.
_HELP: tuple[tuple[str, str, str], ...] = (
    ("kernel_log", "Permission denied", "give the agent CAP_SYSLOG, or set kernel_log in [agent] to a log file"),
    ("kernel_log", "Operation not permitted", "give the agent CAP_SYSLOG, or set kernel_log in [agent] to a log file"),
    ("kernel_log", "No such file", "set kernel_log in [agent] to the device or to the file that the logger writes"),
    ("optic_ethtool", "is not installed", "install ethtool, or leave optic_ethtool out of [agent] collectors"),
    ("", "is not installed: ", ""),  # it says itself what helps
    ("", "is not installed", "install it, or leave the collector out of [agent] collectors"),
    ("optic_ethtool", "not permitted", "give the agent CAP_NET_ADMIN (deploy/systemd/optional/optics.conf)"),
    ("optic_mlxlink", "mlxlink", "let the agent run mlxlink as root, or leave optic_mlxlink out of [agent] collectors"),
    ("", "[agent] exporters", "set the address of the vendor's exporter in [agent] exporters"),
    ("", "Connection refused", "start the exporter, or correct its address in [agent] exporters"),
    ("accelerator_exporter", "speaks of host", "correct its address in [agent] exporters, or set host in [agent]"),
    ("accelerator_exporter", "that name no device", "let the exporter tell a card's index, UUID or PCI address"),
    ("accelerator_exporter", "any series", "correct its address in [agent] exporters: this one measures nothing known"),
    ("accelerator_exporter", "no longer asks", "look at the cards in the kernel's log, then start the exporter again"),
    ("accelerator_exporter", "", "ask it by hand (curl); [agent] timeout_s is how long it is waited for"),
    ("accelerator_nvml", "cards on the bus", "look at the missing card in the kernel's log and in lspci"),
    ("accelerator_nvml", "ended by itself", "the kernel's log may tell what ended it: memory, or the driver"),
    ("accelerator_nvml", "Driver/library version mismatch", "load the new driver: reboot, when the host is idle"),
    ("accelerator_nvml", "Driver Not Loaded", "load the driver, or look into the kernel's log for why it is not"),
    ("accelerator_nvml", "hangs", "look at that card in the kernel's log; the host may need a boot"),
    ("job_ras", "collective_status", ""),  # it says itself what helps
    ("job_ras", "later", "use a newer NCCL in the job, or leave [agent] collective_status empty"),
    ("job_ras", "", "correct the address in [agent] collective_status"),
    ("second_look", "evidence", "let the agent write beside its spool, or set evidence_max_bytes = 0 in [agent]"),
    ("journal_log", "cannot be read: add", ""),
    ("journal_log", "ended by itself", "run journalctl -f as the agent's user and see what it complains of"),
    ("", "Permission denied", "let the agent's user read it"),
    ("", "not permitted", "give the agent's user the right for it"),
    ("", "no whole answer within", "run it by hand: does it hang? [agent] timeout_s is how long it is waited for"),
    ("", "prints more than", "run it by hand: its answer is larger than any that is known"),
    ("", "is no file", "it is followed as a log only where it is a regular file: correct the pattern"),
    ("", "hangs", "what it reads does not answer: a driver, a mount or a pipe"),
)


_UNSET = {
    "accelerator_exporter": "exporters",
    "job_log": "job_logs",
    "job_steps": "steps_socket",
    "job_ras": "collective_status",
    "job_recorder": "flight_recorders",
    "journal_log": "journal",
}  # a source without anything set -> its setting


def unset(source: str) -> str:
    """Why a source has nothing to read: its setting is empty."""
    return f"[agent] {_UNSET.get(source, source)} is empty"


class State(NamedTuple):
    """One source: a word of WORDS, why, and what to do ("" for nothing)."""

    source: str
    word: str
    why: str = ""

    @property
    def help(self) -> str:
        """What to do about it."""
        if self.word in ("ok", "absent", "off", "waits"):
            return ""
        fitting = (do for of, text, do in _HELP if of in ("", self._kind) and text in f"{self.why} {self.word}")
        return next(fitting, "")

    @property
    def _kind(self) -> str:
        """The collector's name without its number."""
        return self.source.rstrip("0123456789").rstrip("_") if self.source[-1:].isdigit() else self.source


def of(source: str, *, problem: str, absent: str, hangs: str, collected: bool) -> State:
    """The state by what the newest collection said; a hanging one outranks it."""
    if hangs:
        return State(source, "hangs", hangs)
    if not collected:
        return State(source, "waits")
    if problem:
        return State(source, "hangs" if " hangs" in problem else "blind", problem)
    return State(source, "absent", absent) if absent else State(source, "ok")


def shown(states: list[State], set_to: Callable[[str, str, float], None]) -> None:
    """One series a source and word: 1 for the word that it is in now, else 0."""
    for state in states:
        for word in WORDS:
            set_to(state.source, word, float(word == state.word))
