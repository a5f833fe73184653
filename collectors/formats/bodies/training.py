"""Training loops: steps, durations, loss, checkpoints, from the lines that frameworks print.

Fields are found by name, never by column. A value is taken only where the text states its unit and its span: a
duration is that of one step.
"""

import math
import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.rank_prefix import Origin, origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Step

_MAX_STREAMS = 1024  # interleaved writers whose last step (and open line) is remembered
_MAX_STEP = 10**12

_NUMBER = r"[-+]?(?:\d[\d_]{0,15}(?:\.\d{0,12})?(?:[eE][-+]?\d{1,3})?|nan|inf|NaN|Infinity)"
_MEGATRON = re.compile(r"(?:^|\s)iteration\s{1,20}(\d{1,12})\s?/\s{0,20}\d{1,12} \|")
_COLUMNS = re.compile(r"^\s*(\d{1,9})/\s{1,20}(?:\d{1,9}\s{1,20})?(\d{1,7}(?:\.\d{1,6})?) \(TFLOP/s/GPU\):?\s*$")
_DEEPSPEED = re.compile(r"\[Rank (\d{1,7})\] step=(\d{1,12}), skipped=\d")
_DEEPSPEED_TIMER = re.compile(r"(?:global_step=|\b\d{1,9}/)(\d{1,12}), RunningAvgSamplesPerSec=")
_MINDFORMERS = re.compile(
    r"\{ ?(?:Epoch:\[\s{0,9}(?P<epoch>\d{1,9})/\s{0,9}\d{1,9}\], )?"
    r"step:\[\s{0,12}(?P<step>\d{1,12})/\s{0,12}(?P<of>\d{1,12})\],"
)
_PADDLE = re.compile(r"\bglobal_step: (\d{1,12}), .{0,400}?\binterval_")
_MAXTEXT = re.compile(r"\bcompleted step: (\d{1,12}), seconds: ([\d.]{1,20}),")
_NEMO = re.compile(r"\bglobal_step[:=] ?(\d{1,12})(?:\.0+)?\b.{0,400}?\btrain_step_timing in s[:=] ?([\d.]{1,20})")
_TITAN = re.compile(rf"\bstep: {{1,9}}(\d{{1,12}})  loss: {{1,9}}({_NUMBER})(?=\s)")  # `nan` is padded like a number
_HUGGING = re.compile(
    rf"^\{{'loss': '?(?P<loss>{_NUMBER})'?, (?:'grad_norm': '?(?P<norm>{_NUMBER})'?, )?.{{0,200}}?'learning_rate'"
)
_NOT_A_NUMBER = tuple(  # what other loops print: the word loss, what they put behind it, no number
    f"{loss}{between}{value}"
    for loss in ("oss", "oss]", "oss'")
    for between in (": ", ":", "=", " = ", " ")
    for value in ("nan", "NaN")
    if loss != "oss" or between != " "
)
_PAIR = re.compile(rf"\b([A-Za-z][\w/]{{0,40}})[:=]\s{{0,9}}\[?({_NUMBER})(?=[\],;\s}}]|ms|T\b|$)")

_LOCAL_NAN = re.compile(
    r"found (?P<what>NaN|Inf|nan|inf)\w* in local (?P<where>forward loss|grad norm).{0,200}?"
    r"Device: (?P<device>\d{1,4}), node: (?P<node>[\w.-]{1,253})"
)
_GLOBAL_RANK = re.compile(r"\b[Rr]ank (\d{1,7})\b")

_PHASES = (
    (re.compile(r"successfully saved checkpoint from iteration\s{1,20}(\d{1,12})"), "checkpoint_end"),
    (re.compile(r"(?:successfully loaded|loading) checkpoint from .{1,1000}? at iteration\s{1,20}(\d{1,12})"), "load"),
    (re.compile(r"saving checkpoint at iteration\s{1,20}(\d{1,12}) to"), "checkpoint_begin"),
    (re.compile(r"\[Torch\] Checkpoint global_step(\d{1,12}) is about to be saved!"), "checkpoint_begin"),
    (re.compile(r"\[Torch\] Checkpoint global_step(\d{1,12}) is ready now!"), "checkpoint_end"),
    (re.compile(r"Saving model checkpoint to .{0,1000}?checkpoint-(\d{1,12})"), "checkpoint_begin"),
    (re.compile(r"\[exiting program at iteration\s{1,20}(\d{1,12})\]"), "exit"),
)
_EXITING = "exiting program after receiving SIGTERM"

LITERALS = (
    "consumed samples:",
    "time per iteration (ms)",
    "skipped iterations:",
    "nan iterations:",
    "norm: ",
    "(TFLOP/s/GPU):",
    "] step=",
    "RunningAvgSamplesPerSec=",
    "step:[",
    "global_step",
    "completed step:",
    "  loss: ",
    " in local forward loss",
    " in local grad norm",
    "'loss': ",
    "checkpoint at iteration",
    "checkpoint from",
    "model checkpoint to",
    "exiting program at iteration",
    _EXITING,
    *_NOT_A_NUMBER,
)


class Training:
    """Body grammar of training logs. Keeps the last step of each writer and a line that a narrow column broke."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._open: dict[str, tuple[str, Line]] = {}

    def read(self, line: Line) -> Iterable[Record | tuple[Record, Line]]:
        """A `Step` for each line that tells one, and an event for a loss that is no number."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        start = origin(body)
        stream = line.stream or start.label
        if stream in self._open:
            yield from self._rest(stream, start)
        if "iteration" in body and "global_step" not in body and _MEGATRON.search(body):  # NeMo words its line alike
            yield from self._iteration(stream, start, line)
            return
        for record in _records(start):
            if isinstance(record, Step) and not self._news(stream, record):
                continue
            yield record
        if _EXITING in body and stream in self._last:
            yield Step(step=self._last[stream], phase="exit")

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Iteration lines whose end never came, without their last, perhaps cut, field."""
        for text, line in self._open.values():
            for record in _iteration(text.rpartition("|")[0], -1):
                yield record, line

    def _iteration(self, stream: str, start: Origin, line: Line) -> Iterator[Record]:
        text = start.rest
        if text.endswith("|") or len(self._open) >= _MAX_STREAMS:
            yield from self._told(stream, _iteration(text, start.rank))
        else:
            self._open[stream] = (text, line)

    def _rest(self, stream: str, start: Origin) -> Iterator[tuple[Record, Line]]:
        """The line after a broken one: its rest, or another line of which it is no part."""
        text, line = self._open.pop(stream)
        goes_on = "|" in start.rest and not _MEGATRON.search(start.rest)
        whole = f"{text} {start.rest}" if goes_on else text
        for record in self._told(stream, _iteration(whole.rpartition("|")[0], start.rank)):
            yield record, line

    def _told(self, stream: str, found: Iterable[Record]) -> Iterator[Record]:
        for record in found:
            if not isinstance(record, Step) or self._news(stream, record):
                yield record

    def _news(self, stream: str, record: Step) -> bool:
        """A step that another line of the same writer has told already is no second step."""
        if record.phase:
            return True
        known = self._last.get(stream) == record.step
        if stream in self._last or len(self._last) < _MAX_STREAMS:
            self._last[stream] = record.step
        return not known or record.duration_ms is not None


def _iteration(text: str, rank: int) -> Iterator[Record]:
    """Megatron-LM's line and its forks': cells between `|`, the value after the last `:` of each."""
    match = _MEGATRON.search(text)
    if not match:
        return
    cells: dict[str, str] = {}
    for cell in text[match.end() :].split("|")[:80]:
        key, _, value = cell.rpartition(":")
        cells["".join(key.split()).lower()] = value.strip()
    step, loss = int(match[1]), cells.get("lmloss", cells.get("loss", ""))
    yield _step(step, cells.get("elapsedtimeperiteration(ms)", ""), loss, cells.get("gradnorm", ""), rank)
    not_a_number = cells.get("numberofnaniterations", "0")
    if _broken(loss) or not_a_number.strip("0").isdecimal():
        yield _not_finite(step, loss or "nan")


def _records(start: Origin) -> Iterator[Record]:
    text = start.rest
    if match := _COLUMNS.match(text):  # an extract of two columns: no duration, only that the step was made
        yield Step(step=int(match[1]))
        return
    for word, reader in _READERS:
        if word in text and (found := reader(text, start.rank)):
            yield from found
            return
    if match := _LOCAL_NAN.search(text):
        yield _local_nan(match, text, start.rank)
    elif _HUGGING.match(text) is None and any(words in text for words in _NOT_A_NUMBER):
        yield _not_finite(-1, "nan")
    elif (match := _HUGGING.match(text)) and (_broken(match["loss"]) or _broken(match["norm"] or "")):
        yield _not_finite(-1, match["loss"])


def _local_nan(match: re.Match[str], text: str, rank: int) -> Record:
    """Megatron's check names the rank and node that computed it: a fact about the job, a hint about the card."""
    told = _GLOBAL_RANK.search(text)
    number = str(rank) if rank >= 0 else told[1] if told else ""
    facts = {"rank": number, "node": match["node"], "device": match["device"], "where": match["where"]}
    job = name(Kind.JOB, UNKNOWN)
    return event("job.loss_not_finite", job, facts, code=f"local {match['where']} not finite", host=match["node"])


def _phase(text: str, rank: int) -> list[Record]:
    for pattern, phase in _PHASES:
        if match := pattern.search(text):
            return [Step(step=int(match[1]), phase=phase, rank=rank if rank >= 0 else None)]
    return []


def _deepspeed(text: str, rank: int) -> list[Record]:
    """Samples per second are of a batch that the line does not tell: no duration."""
    if match := _DEEPSPEED.search(text):
        return [Step(step=int(match[2]), rank=int(match[1]))]
    timer = _DEEPSPEED_TIMER.search(text)
    return [Step(step=int(timer[1]), rank=rank if rank >= 0 else None)] if timer else []


def _mindformers(text: str, rank: int) -> list[Record]:
    match = _MINDFORMERS.search(text)
    if not match:
        return []
    told = _pairs(text)
    step = int(match["step"]) + (int(match["epoch"] or 1) - 1) * int(match["of"])  # steps count within an epoch
    gradient = told.get("global_norm", told.get("grad_norm", ""))
    return _with_loss(step, told.get("per_step_time", ""), told.get("loss", ""), gradient, rank)


def _paddle(text: str, rank: int) -> list[Record]:
    """`interval_runtime` spans an unknown number of steps; steps per second do not."""
    match = _PADDLE.search(text)
    if not match:
        return []
    told = _pairs(text)
    rate = _float(told.get("interval_steps_per_second", ""))
    duration = str(1000 / rate) if rate and rate > 0 else ""
    return _with_loss(int(match[1]), duration, told.get("loss", ""), told.get("grad_norm", ""), rank)


def _other(text: str, rank: int) -> list[Record]:
    """Lines that name step and seconds themselves: MaxText, NeMo; torchtitan names no duration."""
    if match := _MAXTEXT.search(text) or _NEMO.search(text):
        seconds, told = _float(match[2]), _pairs(text)
        loss = told.get("loss", told.get("reduced_train_loss", ""))
        return _with_loss(int(match[1]), str(seconds * 1000) if seconds else "", loss, told.get("grad_norm", ""), rank)
    if match := _TITAN.search(text):
        return _with_loss(int(match[1]), "", match[2], _pairs(text).get("grad_norm", ""), rank)
    return []


_READERS = (
    ("checkpoint", _phase),
    ("heckpoint ", _phase),
    ("exiting program", _phase),
    ("step=", _deepspeed),
    ("RunningAvgSamplesPerSec", _deepspeed),
    ("step:[", _mindformers),
    ("global_step: ", _paddle),
    ("step", _other),
)


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in _PAIR.findall(text)[:80]:
        found.setdefault(key.strip(), value)
    return found


def _with_loss(step: int, duration: str, loss: str, gradient: str, rank: int) -> list[Record]:
    found: list[Record] = [_step(step, duration, loss, gradient, rank)]
    return [*found, _not_finite(step, loss)] if _broken(loss) else found


def _step(step: int, duration: str, loss: str, gradient: str, rank: int) -> Step:
    took = _float(duration)
    return Step(
        step=min(step, _MAX_STEP),
        duration_ms=took if took and took > 0 else None,
        loss=_float(loss),
        grad_norm=_float(gradient),
        rank=rank if rank >= 0 else None,
    )


def _float(text: str) -> float | None:
    """A finite number, else None: "N/A", NaN, a word, an overflow."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _broken(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _not_finite(step: int, loss: str) -> Record:
    facts = {"step": str(step) if step >= 0 else "", "loss": loss[:20]}
    return event("job.loss_not_finite", name(Kind.JOB, UNKNOWN), facts, code="loss not finite")


GRAMMAR = Training

SAMPLES = (
    Sample(
        " [2025-08-19 03:11:45] iteration      940/  120000 | consumed samples:       962560 | elapsed time per "
        "iteration (ms): 6188.4 | throughput per GPU (TFLOP/s/GPU): 401.7 | learning rate: 9.100000E-05 | global batch "
        "size:  1024 | lm loss: 2.401877E+00 | loss scale: 1.0 | grad norm: 0.377 | number of skipped iterations:   0 "
        "| number of nan iterations:   0 |",
        ({"type": "step", "step": 940, "duration_ms": 6188.4, "loss": 2.401877, "grad_norm": 0.377, "phase": ""},),
    ),
    Sample(
        " iteration       12/     500 | consumed samples:          768 | elapsed time per iteration (ms): 15210.3 | "
        "learning rate: 1.500E-04 | lm loss: nan | loss scale: 1.0 | number of skipped iterations:   0 | number of nan "
        "iterations:   1 |",
        (
            {"type": "step", "step": 12, "duration_ms": 15210.3, "loss": None},
            {"type": "event", "component": "job:?", "kind": "job.loss_not_finite"},
        ),
    ),
    Sample(
        " iteration       13/     500 | elapsed time per iteration (ms): 15100.1 | lm loss: 7.1E+00 | grad\n"
        "norm: 1.25 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        ({"type": "step", "step": 13, "loss": 7.1, "grad_norm": 1.25},),
    ),
    Sample(
        " iteration       14/     500 | elapsed time per iteration (ms): 15100.1 | lm loss: 7.",
        ({"type": "step", "step": 14, "duration_ms": 15100.1, "loss": None},),
    ),
    Sample(
        "3/ 180.4 (TFLOP/s/GPU):\n4/ 181.0 (TFLOP/s/GPU):",
        ({"type": "step", "step": 3, "duration_ms": None}, {"type": "step", "step": 4, "duration_ms": None}),
    ),
    Sample(
        "[2025-08-19 03:12:01,935] [INFO] [logging.py:96:log_dist] [Rank 0] step=770, skipped=4, lr=[1.2e-04], "
        "mom=[(0.9, 0.95)]\n"
        "[2025-08-19 03:12:01,936] [INFO] [timer.py:260:stop] epoch=0/micro_step=3080/global_step=770, "
        "RunningAvgSamplesPerSec=118.1, CurrSamplesPerSec=117.4, MemAllocated=21.3GB, MaxMemAllocated=42.9GB",
        ({"type": "step", "step": 770, "rank": 0, "duration_ms": None},),
    ),
    Sample(
        "2031-05-06 07:08:09,120 - [callback.py:1] - INFO - { Epoch:[  2/  3], step:[   12/  400], loss: 2.113, "
        "per_step_time: 5321ms, lr: 1.5e-04, overflow cond: False, loss_scale: 65536.0, global_norm: [0.41], "
        "train_throughput_per_npu: 171.2T }",
        ({"type": "step", "step": 412, "duration_ms": 5321.0, "loss": 2.113, "grad_norm": 0.41},),
    ),
    Sample(
        "[2031-05-06 07:08:09] [    INFO] - loss: 2.1130, learning_rate: 1.5e-04, global_step: 640, interval_runtime: "
        "50.0, interval_samples_per_second: 102.4, interval_steps_per_second: 0.2, progress_or_epoch: 0.01",
        ({"type": "step", "step": 640, "duration_ms": 5000.0, "loss": 2.113},),
    ),
    Sample(
        "completed step: 31, seconds: 4.25, TFLOP/s/device: 310.2, Tokens/s/device: 7710.5, loss: 6.125",
        ({"type": "step", "step": 31, "duration_ms": 4250.0, "loss": 6.125},),
    ),
    Sample(
        "Training epoch 0, iteration 19/999 | lr: 3e-06 | global_batch_size: 512 | global_step: 19 | "
        "reduced_train_loss: 11.03 | train_step_timing in s: 9.5 | consumed_samples: 10240",
        ({"type": "step", "step": 19, "duration_ms": 9500.0, "loss": 11.03},),
    ),
    Sample(
        "[titan] 2025-05-01 10:00:00,000 - root - INFO - step: 10  loss:  8.1250  grad_norm:  1.5000  memory: 41.2GiB"
        "(43.4%)  tps: 7,123  tflops: 410.2  mfu: 41.1%",
        ({"type": "step", "step": 10, "loss": 8.125, "grad_norm": 1.5, "duration_ms": None},),
    ),
    Sample(
        "[titan] 2025-05-01 10:00:10,000 - root - INFO - step:  11  loss:     nan  grad_norm:     nan  memory: 41.2GiB"
        "(43.4%)  tps: 7,123  tflops: 410.2  mfu: 41.1%",
        ({"type": "step", "step": 11, "loss": None}, {"type": "event", "kind": "job.loss_not_finite"}),
    ),
    Sample(
        "{'loss': nan, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.41}",
        ({"type": "event", "component": "job:?", "kind": "job.loss_not_finite"},),
    ),
    Sample(
        "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.41}",
        ({"type": "event", "component": "job:?", "kind": "job.loss_not_finite"},),
    ),
    Sample(
        "2020-07-31 23:28:03,727 - mmdet - INFO - Epoch [1][1550/1749] lr: 2.000e-02, time: 1.898, loss: nan, "
        "grad_norm: nan",
        ({"type": "event", "component": "job:?", "kind": "job.loss_not_finite"},),
    ),
    Sample(
        "AssertionError: Rank 77: found NaN in local forward loss calculation. Device: 5, node: gx-r02-n10",
        (
            {
                "type": "event",
                "kind": "job.loss_not_finite",
                "host": "gx-r02-n10",
                "attributes": {"rank": "77", "node": "gx-r02-n10", "device": "5", "where": "forward loss"},
            },
        ),
    ),
    Sample(
        "saving checkpoint at iteration     900 to /ckpt/run7 in torch_dist format\n"
        "  successfully saved checkpoint from iteration     900 to /ckpt/run7\n"
        " loading checkpoint from /ckpt/run7 at iteration 900",
        (
            {"type": "step", "step": 900, "phase": "checkpoint_begin"},
            {"type": "step", "step": 900, "phase": "checkpoint_end"},
            {"type": "step", "step": 900, "phase": "load"},
        ),
    ),
)
