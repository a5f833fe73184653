"""What the kernel prints of a host's own parts: bus, processors, memory, disks."""

from collections.abc import Iterator

from simulator.parts.cluster import Card
from simulator.printing.lines import Printed, kernel


def bus_fatal(at_ms: int, card: Card) -> Iterator[Printed]:
    """A fatal error below the port above the card; its recovery fails within seconds."""
    for plus, text in (
        (0, f"pcieport {card.root_pci}: AER: Uncorrectable (Fatal) error message received from {card.pci}.0"),
        (
            0,
            f"nvidia {card.pci}.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, "
            "(Receiver ID)",
        ),
        (0, f"nvidia {card.pci}.0:   device [10de:2330] error status/mask=00040000/04400000"),
        (0, f"nvidia {card.pci}.0:    [18] MalfTLP                (First)"),
        (1_400, f"pcieport {card.root_pci}: AER: device recovery failed"),
    ):
        yield kernel(at_ms + plus, card.host, text)


def bus_contained(at_ms: int, card: Card) -> Iterator[Printed]:
    """The port above the card cut it off to contain an error."""
    for text in (
        f"pcieport {card.root_pci}: DPC: containment event, status:0x1f01 source:0x0000",
        f"pcieport {card.root_pci}: DPC: unmasked uncorrectable error detected",
        f"pcieport {card.root_pci}: pciehp: Slot({card.index + 1}): Link Down",
    ):
        yield kernel(at_ms, card.host, text)


def bus_narrow(at_ms: int, card: Card, lanes: int) -> Printed:
    """What the kernel says of a slow link as it finds the device."""
    text = (
        f"nvidia {card.pci}.0: {31.504 * lanes:.3f} Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x{lanes} "
        f"link at {card.root_pci} (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
    )
    return kernel(at_ms, card.host, text)


def processor_check(at_ms: int, host: str, cpu: int) -> Iterator[Printed]:
    """A machine check that could not be corrected, in one bank of one processor."""
    for text in (
        f"mce: [Hardware Error]: CPU {cpu}: Machine Check Exception: 5 Bank 1: bf80000000000134",
        "mce: [Hardware Error]: RIP 10:<ffffffff81a0c1f3> {native_safe_halt+0x3/0x10}",
        "mce: [Hardware Error]: TSC 41f9b8a02cc2 ADDR 2a8f11c40 MISC 86",
        f"mce: [Hardware Error]: PROCESSOR 0:806f8 TIME {at_ms // 1000} SOCKET {cpu // 56} APIC {cpu:x} "
        "microcode 2b0004d0",
    ):
        yield kernel(at_ms, host, text)


def processor_corrected(at_ms: int, host: str, cpu: int) -> Printed:
    """A machine check that was corrected."""
    return kernel(at_ms, host, f"[Hardware Error]: CPU {cpu}: Machine Check: 0 Bank 0: 9000004000010005")


def panic(at_ms: int, host: str, reason: str) -> Iterator[Printed]:
    """The kernel stops: often its last lines reach nobody."""
    yield kernel(at_ms, host, f"Kernel panic - not syncing: {reason}")
    yield kernel(at_ms + 3, host, f"---[ end Kernel panic - not syncing: {reason} ]---")


def memory_uncorrected(at_ms: int, host: str, module: str, pid: int) -> Iterator[Printed]:
    """Main memory lost a line, in the page of a process: the kernel kills that one."""
    for plus, text in (
        (0, f"EDAC MC3: 1 UE memory read error on {module} (channel:0 slot:0 page:0x5a0b11 offset:0x0 grain:32)"),
        (2, f"Memory failure: 0x5a0b11: Killing python3:{pid} due to hardware memory corruption"),
        (9, "Memory failure: 0x5a0b11: recovery action for dirty LRU page: Recovered"),
    ):
        yield kernel(at_ms + plus, host, text)


def memory_corrected(at_ms: int, host: str, module: str, errors: int) -> Printed:
    """So many errors of one module of main memory were corrected since the last look."""
    more = " - OVERFLOW area:DRAM" if errors > 100 else " -  err_code:0x0101:0x0091"
    text = f"EDAC MC3: {errors} CE memory read error on {module} (channel:0 slot:0 page:0x3f1c8 offset:0x2f40 grain:32"
    return kernel(at_ms, host, f"{text} syndrome:0x0{more})")


def disk_late(at_ms: int, host: str, disk: str, tag: int, then: str = "aborting") -> Printed:
    """A command that got no answer within its 30 s."""
    return kernel(at_ms, host, f"nvme {disk}: I/O {tag} (I/O Cmd) QID {tag % 32 + 1} timeout, {then}")


def disk_error(at_ms: int, host: str, disk: str, sector: int) -> Printed:
    """A read that failed."""
    text = f"I/O error, dev {disk}n1, sector {sector} op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2"
    return kernel(at_ms, host, text)


def disk_dies(at_ms: int, host: str, disk: str) -> Iterator[Printed]:
    """The controller of a disk does not come back, and the file system on it becomes read-only."""
    for plus, text in (
        (0, f"nvme {disk}: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff"),
        (2_100, f"nvme {disk}: Device not ready; aborting reset, CSTS=0x1"),
        (2_300, f"nvme {disk}: Disabling device after reset failure: -19"),
        (2_400, f"I/O error, dev {disk}n1, sector 90211 op 0x1:(WRITE) flags 0x4000 phys_seg 16 prio class 0"),
        (
            2_500,
            f"EXT4-fs error (device {disk}n1): ext4_find_entry:1455: inode #2: comm python3: reading directory "
            "lblock 0",
        ),
        (2_600, f"EXT4-fs ({disk}n1): Remounting filesystem read-only"),
    ):
        yield kernel(at_ms + plus, host, text)


def soft_lockup(at_ms: int, host: str, cpu: int, stuck_s: int) -> Iterator[Printed]:
    """A processor that runs kernel code without a break."""
    yield kernel(at_ms, host, f"watchdog: BUG: soft lockup - CPU#{cpu} stuck for {stuck_s}s! [kworker/{cpu}:1:771]")


def hard_lockup(at_ms: int, host: str, cpu: int) -> Printed:
    """A processor that takes no interrupts."""
    return kernel(at_ms, host, f"watchdog: Watchdog detected hard LOCKUP on cpu {cpu}")


def scheduler_stall(at_ms: int, host: str) -> Iterator[Printed]:
    """The kernel's own book-keeping waits for a processor."""
    yield kernel(at_ms, host, "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:")


def task_in_driver(at_ms: int, host: str, pid: int, waited_s: int) -> Iterator[Printed]:
    """A task that waits in the accelerators' driver for ever."""
    for text in (
        f"INFO: task python3:{pid} blocked for more than {waited_s} seconds.",
        "      Tainted: P           OE      5.15.0-119-generic #129-Ubuntu",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        f"task:python3         state:D stack:    0 pid:{pid} ppid: 47990 flags:0x00004002",
        "Call Trace:",
        " <TASK>",
        " __schedule+0x2d0/0x890",
        " uvm_va_space_destroy+0x4f/0x190 [nvidia_uvm]",
        " </TASK>",
    ):
        yield kernel(at_ms, host, text)
