"""What following switches over gNMI costs: processor time of one switch of 64 ports whose counters come every 10 s.

The switches are servers of the public protocol, with TLS, in a process of their own; each sends, for each port, one
notification of its counters and one of its Ethernet counters (32 leaves), as devices do that pack what they sample.
"""

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PORTS, EVERY_S, LENGTH_S, WARM_S = 64, 10.0, 30.0, 6.0
COUNTERS = (
    "in-octets", "in-unicast-pkts", "in-broadcast-pkts", "in-multicast-pkts", "in-discards", "in-errors", "in-pkts",
    "in-unknown-protos", "in-fcs-errors", "out-octets", "out-unicast-pkts", "out-broadcast-pkts", "out-pkts",
    "out-multicast-pkts", "out-discards", "out-errors", "last-clear", "carrier-transitions", "resets",
    "interface-transitions", "link-transitions",
)  # fmt: skip
ETHERNET = (
    "in-mac-control-frames", "in-mac-pause-frames", "in-oversize-frames", "in-jabber-frames", "in-fragment-frames",
    "in-crc-errors", "in-block-errors", "in-symbol-error", "out-mac-pause-frames", "fec-corrected-blocks",
    "fec-uncorrectable-blocks",
)  # fmt: skip


def measure(size: int | None) -> dict[str, Any]:
    """Follows so many switches (10) for half a minute."""
    from collectors.cluster import switch_gnmi
    from collectors.cluster.asking import Target
    from collectors.cluster.gnmi_access import Access
    from collectors.cluster.gnmi_stream import Streams

    number = size or 10
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.switches", folder, str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            try:
                addresses = json.loads(child.stdout.readline()) if child.stdout else []
                roots = Path(folder, "switch.crt").read_bytes()
                wanted = [Target(f"leaf{place}", address) for place, address in enumerate(addresses)]
                source = switch_gnmi.source(Streams(wanted, Access(EVERY_S, 5.0, roots=roots)))
                _follow(source, WARM_S)
                began = time.process_time()
                rows = _follow(source, LENGTH_S)
                spent = time.process_time() - began
                threads = threading.active_count()
                source.close()
            finally:
                child.kill()
    per_switch = spent / LENGTH_S / number
    return {
        "cpu_seconds_per_switch_and_second": round(per_switch, 5),
        "cores_for_500_switches": round(per_switch * 500, 2),
        "port_rows": rows,
        "threads": threads,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "conditions": {
            "switches": number, "ports": PORTS, "every_s": EVERY_S, "leaves": len(COUNTERS) + len(ETHERNET),
            "notifications_per_port": 2, "seconds": LENGTH_S,
        },
    }  # fmt: skip


def _follow(source: Any, length_s: float) -> int:
    rows, until = 0, time.monotonic() + length_s
    while time.monotonic() < until:
        polled = source.poll(source.state, round(time.time() * 1000))
        source.state = polled.state
        rows += sum(len(samples.component) for samples in polled.samples if samples.table == "port")
        time.sleep(source.every_s)
    return rows


def _serve(folder: Path, number: int) -> None:
    """The switches, until killed."""
    from contextlib import ExitStack

    from tests.services import gnmi

    with ExitStack() as stack:
        switches = [stack.enter_context(gnmi.running(folder))]
        for _ in range(number - 1):
            switches.append(gnmi.Switch(folder))
            switches[-1].start()
        print(json.dumps([switch.address for switch in switches]), flush=True)
        for turn in range(1, 1_000_000):
            time.sleep(EVERY_S)
            for switch in switches:
                for port in range(PORTS):
                    path = f"/interfaces/interface[name=Ethernet{port}/1]"
                    switch.tell({f"{path}/state/counters/{one}": turn * 1000 for one in COUNTERS})
                    switch.tell({f"{path}/ethernet/state/counters/{one}": turn for one in ETHERNET})


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
