"""What collective libraries print when a transfer or a device failed: verbs completion codes, runtime sentences."""

from typing import NamedTuple

from sickbay.messages import Blame, Severity


class Completion(NamedTuple):
    """A completion code of the verbs interface."""

    name: str
    kind: str
    blame: Blame = Blame.EITHER


LOCAL = "rank.collective_error"
COMPLETIONS = {  # rdma-core verbs.h, enum ibv_wc_status; readings of the public NCCL source and issues
    1: Completion("LOC_LEN_ERR", LOCAL, Blame.APPLICATION),
    2: Completion("LOC_QP_OP_ERR", LOCAL, Blame.APPLICATION),
    4: Completion("LOC_PROT_ERR", LOCAL),
    5: Completion("WR_FLUSH_ERR", "path.flushed"),
    8: Completion("LOC_ACCESS_ERR", LOCAL, Blame.APPLICATION),
    9: Completion("REM_INV_REQ_ERR", "path.remote_error"),
    10: Completion("REM_ACCESS_ERR", "path.remote_error"),
    11: Completion("REM_OP_ERR", "path.remote_error"),
    12: Completion("RETRY_EXC_ERR", "path.retry_exceeded"),
    13: Completion("RNR_RETRY_EXC_ERR", "path.receiver_not_ready"),
    19: Completion("FATAL_ERR", LOCAL, Blame.HARDWARE),
    20: Completion("RESP_TIMEOUT_ERR", "path.remote_error"),
    21: Completion("GENERAL_ERR", "path.remote_error"),
}
MISUSES = (  # warnings that the program or its settings cause; NCCL src/init.cc, misc/socket.cc, misc/shmutils.cc
    "Duplicate GPU detected",
    "no socket interface found",
    "No IP interface found",
    "wrong type ",
    "Mismatched NCCL version",
    "Incompatible NCCL versions",
    "invalid device ordinal",
    "No space left on device",
    "Invalid config",
    "Address already in use",
    "might be caused by insufficient shared memory",
)
SETTINGS = frozenset(  # device errors that a driver, a build or a setting causes: another start changes nothing
    {
        "no kernel image is available", "invalid device ordinal", "driver version is insufficient",
        "unsupported display driver", "forward compatibility was attempted", "system not yet initialized",
    }
)  # fmt: skip
DEVICE_ERRORS = (  # the runtime's own sentence -> whose fault it usually is; in the order they are looked for
    ("uncorrectable ECC error", Blame.HARDWARE, Severity.ERROR),
    ("uncorrectable NVLink error", Blame.HARDWARE, Severity.ERROR),
    ("Invalid access of peer GPU memory over nvlink or a hardware error", Blame.EITHER, Severity.WARNING),
    ("no kernel image is available", Blame.APPLICATION, Severity.WARNING),
    ("invalid device ordinal", Blame.APPLICATION, Severity.WARNING),
    ("driver version is insufficient", Blame.APPLICATION, Severity.WARNING),
    ("unsupported display driver", Blame.APPLICATION, Severity.WARNING),
    ("forward compatibility was attempted", Blame.APPLICATION, Severity.WARNING),
    ("hardware stack error", Blame.APPLICATION, Severity.WARNING),
    ("illegal memory access", Blame.APPLICATION, Severity.WARNING),
    ("illegal instruction", Blame.APPLICATION, Severity.WARNING),
    ("misaligned address", Blame.APPLICATION, Severity.WARNING),
    ("device-side assert", Blame.APPLICATION, Severity.WARNING),
    ("unspecified launch failure", Blame.EITHER, Severity.WARNING),
    ("launch timed out", Blame.EITHER, Severity.WARNING),
    ("busy or unavailable", Blame.EITHER, Severity.WARNING),
    ("device unavailable", Blame.EITHER, Severity.WARNING),
    ("capable device is detected", Blame.EITHER, Severity.WARNING),
    ("system not yet initialized", Blame.EITHER, Severity.WARNING),
    ("unknown error", Blame.EITHER, Severity.WARNING),
)
