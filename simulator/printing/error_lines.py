"""What a training program prints when it ends by a mistake of its own."""

from collections.abc import Iterator, Sequence

from simulator.printing.lines import Printed, exit_of

MISTAKES = {  # what the last line of the trace says
    "wrong_path": "FileNotFoundError: [Errno 2] No such file or directory: '/data/tokens/shard_00042.bin'",
    "device_memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {index} has a total capacity of "
        "79.11 GiB of which 1.92 GiB is free. Process {pid} has 77.18 GiB memory in use."
    ),
    "exception": "ValueError: Expected more than 1 value per channel when training, got input size [1, 4096]",
    "shape": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4096x8192 and 4096x11008)",
    "assertion": "AssertionError: vocabulary of the checkpoint (50304) is not that of the tokenizer (50432)",
}


def trace(at_ms: int, job_id: str, rank: int, text: str) -> Iterator[Printed]:
    """The end of a rank's trace, without a stamp, as torchrun passes it on."""
    for line in (
        "Traceback (most recent call last):",
        '  File "/home/mlops/train/pretrain.py", line 412, in <module>',
        "    main()",
        text,
    ):
        yield Printed(at_ms, "job", f"[rank{rank}]: {line}", job=job_id)


def fails(at_ms: int, job_id: str, ranks: Sequence[tuple[int, int]], text: str) -> Iterator[Printed]:
    """`ranks` (rank, index on its host) end by the same mistake, within a second; the launcher tells of each."""
    for place, (rank, index) in enumerate(ranks):
        pid = 48_122 + rank
        yield from trace(at_ms + 3 * place, job_id, rank, text.format(index=index, pid=pid))
        yield exit_of(at_ms + 700 + place, job_id, index, 1, pid)
