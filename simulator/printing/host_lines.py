"""What a host's own programs print of its life and its clock."""

from collections.abc import Iterator

from simulator.printing.lines import Printed, kernel


def of_program(at_ms: int, host: str, speaker: str, text: str) -> Printed:
    """A line of a program other than the kernel in the host's system log."""
    return Printed(at_ms, "kernel", text, host=host, speaker=speaker)


def goes_down(at_ms: int, host: str, *, again: bool) -> Iterator[Printed]:
    """An orderly shutdown; `again`: to start anew. The kernel's own word is the last one."""
    yield of_program(at_ms, host, "systemd-logind[1412]", f"System is {'rebooting' if again else 'powering down'}.")
    yield of_program(at_ms + 2_100, host, "systemd[1]", "Reached target shutdown.target - System Shutdown.")
    yield kernel(at_ms + 4_600, host, "reboot: Restarting system" if again else "reboot: Power down")


def boots(at_ms: int, host: str) -> Printed:
    """The kernel's first line."""
    return kernel(
        at_ms, host,
        "Linux version 5.15.0-119-generic (buildd@lcy02-amd64-080) (gcc (Ubuntu 11.4.0) 11.4.0, GNU ld 2.38) "
        "#129-Ubuntu SMP Fri Aug 2 19:25:20 UTC 2024",
    )  # fmt: skip


def clock_wrong(at_ms: int, host: str, seconds: float) -> Printed:
    """The time service found the clock off; the sign is the correction's."""
    return of_program(at_ms, host, "chronyd[1187]", f"System clock wrong by {seconds:.6f} seconds")


def driver_loads(at_ms: int, host: str) -> Iterator[Printed]:
    """The accelerators' driver goes and comes."""
    yield kernel(at_ms, host, "nvidia-modeset: Unloading")
    yield kernel(at_ms + 900, host, "nvidia-nvlink: Unregistered Nvlink Core, major device number 236")
    yield kernel(at_ms + 4_200, host, "nvidia-nvlink: Nvlink Core is being initialized, major device number 236")
    yield kernel(
        at_ms + 4_900, host,
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
    )  # fmt: skip
