"""What the kernel and the runtimes print of one accelerator: the driver's codes in its own wording."""

from collections.abc import Iterator

from simulator.parts.cluster import Card
from simulator.printing.lines import Printed, kernel, xid

PROGRAM = "python3"


def pid_of(card: Card) -> int:
    """Process id of the rank on a card."""
    return 48_122 + card.index


def _of_rank(card: Card) -> str:
    return f"{pid_of(card)}/{PROGRAM}"


def uncontained(at_ms: int, card: Card) -> Iterator[Printed]:
    """An uncorrectable memory error that was not contained, with its row."""
    yield xid(
        at_ms, card, 48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
        f"physAddr 0x{0x2C40AA80 + 4096 * card.index:x} partition 11, subpartition 2.",
    )  # fmt: skip
    yield xid(at_ms + 2, card, 95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", _of_rank(card))


def contained(at_ms: int, card: Card) -> Printed:
    """An uncorrectable memory error that one process alone saw."""
    text = f"Contained: FB DED (0x2, 0x0). physAddr: 0x{0x2C40AA80 + 4096 * card.index:x} RST: No, D-RST: Yes"
    return xid(at_ms, card, 94, text, _of_rank(card))


def channels_closed(at_ms: int, card: Card, cause: int, channels: int) -> Iterator[Printed]:
    """The driver takes the process's channels down, a line each: consequences, not causes."""
    for channel in range(channels):
        text = f"channel 0x{channel + 8:08x} caused by previous Xid {cause}"
        yield xid(at_ms + channel // 8, card, 45, text, _of_rank(card))


def row_marked(at_ms: int, card: Card) -> Printed:
    """A row of its memory waits to be remapped."""
    text = (
        f"Row Remapper: New row (0x{0x2C40AA80 + 4096 * card.index:016x}) marked for remapping, reset gpu to activate."
    )
    return xid(at_ms, card, 63, text, "2201/nv-hostengine")


def remap_failed(at_ms: int, card: Card) -> Printed:
    """A row could not be remapped."""
    return xid(at_ms, card, 64, "Row Remapper: Failed to record the remap entry", "2201/nv-hostengine")


def many_corrected(at_ms: int, card: Card) -> Printed:
    """The driver's word on a high rate of corrected errors."""
    return xid(at_ms, card, 92, "High single-bit ECC error rate")


def watchdog(at_ms: int, card: Card) -> Printed:
    """The driver's own watchdog waited its seven seconds for the card."""
    text = "krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7"
    return kernel(at_ms, card.host, f"NVRM: GPU{card.index} {text}")


def heartbeat_missed(at_ms: int, card: Card, waited_ms: int) -> Printed:
    """The firmware's heartbeat stood still for more than its 5.2 s."""
    now = 81_275 + waited_ms
    text = (
        f"_kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs {now} heartbeat {now - waited_ms} timeout 5200"
    )
    return kernel(at_ms, card.host, f"NVRM: GPU{card.index} {text}")


def engine_stopped(at_ms: int, card: Card) -> Printed:
    """An engine answers no more."""
    return xid(at_ms, card, 46, "GPU stopped responding")


def context_timeout(at_ms: int, card: Card) -> Printed:
    """A context could not be switched in time."""
    text = "Ch 0000000c, errorString CTX SWITCH TIMEOUT, Info 0x2c004"
    return xid(at_ms, card, 109, text, _of_rank(card))


def security_fault(at_ms: int, card: Card) -> Printed:
    """A protection on the die tripped."""
    return xid(at_ms, card, 110, "Security fault (on-die protection tripped)")


def microcontroller_halted(at_ms: int, card: Card) -> Printed:
    """One of the card's small processors stopped."""
    return xid(at_ms, card, 169, "SEC2 micro-controller halted")


def no_power_cable(at_ms: int, card: Card) -> Printed:
    """The board's own power is not connected."""
    return xid(at_ms, card, 54, "Auxiliary power is not connected to the GPU board")


def recovery_asked(at_ms: int, card: Card, action: int, words: str) -> Printed:
    """The driver's verdict on the card changed from nothing to this."""
    return xid(at_ms, card, 154, f"GPU recovery action changed from 0x0 (None) to 0x{action:x} ({words})")


def worn_store(at_ms: int, card: Card) -> Printed:
    """The card's own small store wears out: nothing stops."""
    return xid(at_ms, card, 93, "InfoROM erase/wear limit exceeded")


def warp_exception(at_ms: int, card: Card, pid: int, program: str) -> Iterator[Printed]:
    """An exception in a kernel, always of the same unit: of a program once, of the card when of many."""
    text = "Graphics SM Warp Exception on (GPC 3, TPC 2, SM 1): Illegal Instruction Encoding"
    yield xid(at_ms, card, 13, text, f"{pid}/{program}")
    yield xid(at_ms + 4, card, 43, "Ch 0000000c", f"{pid}/{program}")


def not_initialised(at_ms: int, card: Card) -> Iterator[Printed]:
    """The driver could not start the card; each try takes it some seconds."""
    for plus in (0, 4_300):
        text = f"NVRM: GPU {card.pci}.0: RmInitAdapter failed! (0x62:0xffff:2477)"
        yield kernel(at_ms + plus, card.host, text)
        text = f"NVRM: GPU {card.pci}.0: rm_init_adapter failed, device minor number {card.index}"
        yield kernel(at_ms + plus + 3, card.host, text)


def told_by_runtime(at_ms: int, job_id: str, rank: int, what: str) -> Iterator[Printed]:
    """The end of a rank's trace: the runtime passes on an error of its device."""
    for line in ("Traceback (most recent call last):", f"RuntimeError: CUDA error: {what}"):
        yield Printed(at_ms, "job", f"[rank{rank}]: {line}", job=job_id)


def cannot_start(at_ms: int, job_id: str, what: str) -> Printed:
    """A program that finds no device to start on."""
    text = f"RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? {what}"
    return Printed(at_ms, "job", text, job=job_id)


def ascend_code(at_ms: int, card: Card, code: int) -> Printed:
    """A fault code of an Ascend device, as the host's driver passes it on."""
    text = f"[ascend] [dms] [dms_event_report 219] Event id=0x{code:08X} (dev_id={card.index})"
    return kernel(at_ms, card.host, text)


def amd_memory(at_ms: int, card: Card, errors: int) -> Printed:
    """New uncorrectable errors of the memory of an AMD card."""
    text = (
        f"amdgpu: {{11}} socket: {card.index}, die: 0, {errors} new uncorrectable hardware errors detected in umc block"
    )
    return kernel(at_ms, card.host, f"amdgpu {card.pci}.0: {text}")


def amd_reset(at_ms: int, card: Card) -> Iterator[Printed]:
    """The AMD driver resets a card by itself."""
    yield kernel(at_ms, card.host, f"amdgpu {card.pci}.0: amdgpu: GPU reset begin!. Source:  2")
    yield kernel(at_ms + 9_100, card.host, f"amdgpu {card.pci}.0: amdgpu: GPU reset(4) succeeded!")
