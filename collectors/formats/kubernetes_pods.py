"""A pod of a job: whose it is, which place it has among the others, what runs in it and how it ended.

The container that asks for accelerators is the one that counts, else the first: log shippers live in pods, too.
"""

import re
from typing import Any, NamedTuple

from collectors.codes.kubernetes import Maker, table
from collectors.formats.kubernetes_objects import (
    Container,
    ContainerStatus,
    Pod,
    Resources,
    Terminated,
    at_ms,
    quantity,
)
from collectors.formats.masking import masked, struck

MAX_TEXT = 400
_MEETING = re.compile(r"^--?rdzv[_-]backend(?:=([\w-]{1,20}))?$")
_PROCESSES = re.compile(r"^--?nproc[_-]per[_-]node(?:=(\d{1,4}))?$")


class Ending(NamedTuple):
    """How a pod, or one life of its container, ended. `state`: as a placement's."""

    state: str
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    at_ms: int | None = None


class Refused(NamedTuple):
    """A kubelet would not take a pod."""

    reason: str
    message: str
    at_ms: int | None


class Member(NamedTuple):
    """One pod as far as it matters. `place`: numbers of its maker's labels; `node_rank`: as its environment tells."""

    uid: str
    name: str
    job: str  # namespace/name, "" where no maker of jobs is known
    maker: str
    role: str
    place: tuple[int, ...]
    holds_rank: bool
    node: str
    attempt: int = 0  # the maker's own count
    life: int = 0  # restarts of the container
    node_rank: int = -1
    processes: int = 0  # that run ranks, 0: not told
    world: int = 0
    accelerators: int = 0
    numbers_itself: bool = False  # its launcher gives out ranks by who comes, whatever labels say
    runs: bool = False
    since_ms: int | None = None
    ended: Ending | None = None  # this life of it
    before: Ending | None = None  # the life before it
    leaves_ms: int | None = None  # somebody has it deleted
    refused: Refused | None = None
    image: str = ""
    arguments: str = ""
    revision: str = ""


def member(pod: Pod) -> Member:
    """The pod in short."""
    told = {**(pod.metadata.annotations or {}), **(pod.metadata.labels or {})}
    maker = next((one for one in table().makers if _made_by(one, told)), None)
    container = _main(pod.spec.containers or [])
    status = next((one for one in pod.status.container_statuses or () if one.name == container.name), None)
    role = told.get(maker.role, "").lower() if maker else ""
    return Member(
        uid=pod.metadata.uid,
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        job=_job(maker, told, pod.metadata.namespace) if maker else "",
        maker=maker.name if maker else "",
        role=role,
        place=_place(maker, told) if maker else (),
        holds_rank=maker is not None and role not in maker.no_rank,
        node=pod.spec.node_name,
        attempt=_number(told.get(maker.attempt, "")) if maker and maker.attempt else 0,
        leaves_ms=_leaves_ms(pod),
        refused=_refused(pod, status),
        accelerators=_accelerators(container.resources),
        **_environment(container),
        **_life(pod, status),
        **_code(container, status),
    )


def _made_by(maker: Maker, told: dict[str, str]) -> bool:
    fits = all(told.get(key) == value for key, value in maker.where.items())
    return fits and all(told.get(key) for key in maker.job)


def _job(maker: Maker, told: dict[str, str], namespace: str) -> str:
    return f"{namespace}/{'-'.join(told[key] for key in maker.job)}"


def _place(maker: Maker, told: dict[str, str]) -> tuple[int, ...]:
    """The numbers of its labels, after whether its role comes first and (where roles count apart) which it is."""
    numbers = [next((told[key] for key in keys if key in told), "") for keys in maker.index]
    if not all(text.isascii() and text.isdigit() and len(text) < 8 for text in numbers):
        return ()
    role = told.get(maker.role, "").lower() if maker.role else ""
    late = int(bool(maker.first) and role not in maker.first)
    return (late, *map(int, numbers))


def _main(containers: list[Container]) -> Container:
    """The container that counts."""
    having = [one for one in containers if _accelerators(one.resources)]
    return (having or containers or [Container()])[0]


def _accelerators(resources: Resources) -> int:
    asked = {**(resources.requests or {}), **(resources.limits or {})}
    return sum(quantity(value) for key, value in asked.items() if key in table().accelerators)


def _environment(container: Container) -> dict[str, Any]:
    words = table().environment
    told = {one.name: one.value for one in container.env or ()}
    number = next((told[key] for key in words.node_rank if told.get(key, "").isdigit()), "")
    processes = _number(next((told[key] for key in words.processes if told.get(key)), ""))
    return {
        "node_rank": _number(number) if number else -1,
        "processes": processes or _nproc([*(container.command or ()), *(container.args or ())]),
        "world": _number(next((told[key] for key in words.world if told.get(key)), "")),
        "numbers_itself": _meets(next((told[key] for key in words.meeting if told.get(key)), ""), container),
        "revision": next((told[key] for key in words.revision if told.get(key)), "")[:MAX_TEXT],
    }


def _meets(told: str, container: Container) -> bool:
    """Whether the launcher's agents meet somewhere that numbers them anew: then no label and no NODE_RANK counts."""
    words = [
        word for text in [*(container.command or ()), *(container.args or ())][:400] for word in text[:20_000].split()
    ]
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if match := _MEETING.match(word):
            told = match[1] or following
    return told not in ("", "static")


def _nproc(words: list[str]) -> int:
    """Processes a node as an argument of torchrun tells, also inside of one shell command."""
    split = [word for text in words[:400] for word in text[:20_000].split()]
    for word, following in zip(split, [*split[1:], ""], strict=False):
        if match := _PROCESSES.match(word):
            return _number(match[1] or following)
    return 0


def _life(pod: Pod, status: ContainerStatus | None) -> dict[str, Any]:
    """Whether it runs, since when, and how this life and the one before ended."""
    phase, running = pod.status.phase, status.state.running if status else None
    now, last = (status.state.terminated, status.last_state.terminated) if status else (None, None)
    disrupted = next((one for one in pod.status.conditions or () if one.type == "DisruptionTarget"), None)
    how = table().disruptions.get(disrupted.reason, "") if disrupted and disrupted.status == "True" else ""
    over = phase in ("Failed", "Succeeded")
    ended = _ending(now, how) if now else _ending(last, how) if last and not running else None
    if over and ended is None:
        state = how or ("completed" if phase == "Succeeded" else "failed")
        ended = Ending(state, reason=pod.status.reason[:MAX_TEXT])
    elif how and ended is None:
        ended = Ending(how, reason=disrupted.reason if disrupted else "")
    return {
        "life": status.restart_count if status else 0,
        "runs": phase == "Running" and running is not None and bool(pod.spec.node_name) and ended is None,
        "since_ms": at_ms(running.started_at) if running else None,
        "ended": ended,
        "before": _ending(last, "") if last and running else None,
    }


def _ending(told: Terminated, how: str) -> Ending:
    state = "completed" if told.exit_code == 0 and not told.signal else "failed"
    state = "out_of_memory" if told.reason == "OOMKilled" else how or state
    signal = told.signal or (told.exit_code - 128 if 128 < told.exit_code < 160 else 0)
    return Ending(state, told.exit_code, signal, told.reason[:80], at_ms(told.finished_at))


def _code(container: Container, status: ContainerStatus | None) -> dict[str, Any]:
    """Image with its digest, and arguments without the words that look like secrets."""
    digest = status.image_id.rpartition("@")[2] if status and "@" in status.image_id else ""
    image = container.image + (f"@{digest}" if digest and "@" not in container.image else "")
    words = [*(container.command or ()), *(container.args or ())]
    return {"image": struck(image)[:MAX_TEXT], "arguments": " ".join(masked(words))[: 4 * MAX_TEXT]}


def _refused(pod: Pod, status: ContainerStatus | None) -> Refused | None:
    """Why a kubelet refused a pod that never ran."""
    reason = pod.status.reason
    if pod.status.phase != "Failed" or not reason.startswith(table().rejections) or not pod.spec.node_name:
        return None
    if status and (status.state.terminated or status.state.running):
        return None
    return Refused(reason[:120], struck(pod.status.message)[:MAX_TEXT], at_ms(pod.status.start_time))


def _leaves_ms(pod: Pod) -> int | None:
    """When its deletion was asked for: the API tells when it must be gone."""
    gone_ms = at_ms(pod.metadata.deletion_timestamp)
    return None if gone_ms is None else gone_ms - 1000 * (pod.metadata.deletion_grace_period_seconds or 0)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
