"""One worker: reads mutated inputs with one format, in a process of its own. `python any_bytes.py FORMAT SEED COUNT`.

An exception, a crash or a hang of more than HANG_S ends it with a status; else it prints how many inputs it read.
"""

import random
import signal
import sys
from importlib import import_module

from collectors.formats.bodies import CATALOGUE
from collectors.formats.reading import Tally
from collectors.inputs.sniff import formats

HANG_S = 20
MAX_BYTES = 4096
MOST_RECORDS = 250_000  # a few bytes of a host list may stand for 200,000 hosts, by its own cap
DOCUMENTS: dict[str, tuple[str, ...]] = {
    "amd_smi_json": (
        '[{"gpu": 0, "bdf": "0000:c6:00.0", "uuid": "7eff74a1-0000-1000-8000-0000000000c6", "kfd_id": 42905}]',
        '{"gpu_data": [{"gpu": 0, "power": {"socket_power": {"value": 142, "unit": "W"}}, "pcie": {"width": "16"}}]}',
    ),
    "disk_log": ('{"critical_warning": {"value": 4}, "avail_spare": 100, "media_errors": "12"}',),
    "elastic_error": ('{"message": {"message": "RuntimeError: boom", "extraInfo": {"timestamp": "1741667243"}}}',),
    "flight_recorder": (
        '{"rank": 1, "version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, '
        '"pg_status": {"0": {"last_enqueued_collective": 4, "last_completed_collective": 3}}, "entries": '
        '[{"process_group": ["0", "default_pg"], "collective_seq_id": 4, "profiling_name": "nccl:all_reduce", '
        '"state": "started", "input_sizes": [[8]]}]}',
        "\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x03\x00\x00\x002.5q\x02X\x07\x00\x00\x00entriesq\x03]q\x04u.",
    ),
    "lldp_text": (
        '{"lldp": {"interface": [{"ens1f0": {"chassis": {"leaf1": {"id": {"type": "mac", "value": "b8:ce:f6:00:00:01"}}}, '
        '"port": {"id": {"type": "ifname", "value": "Ethernet24"}, "descr": "etp7a"}}}]}}',
    ),
    "management_log": (
        "1a | 05/04/2026 | 03:02:01 | Power Supply PSU2 | Power Supply AC lost | Asserted\n"
        "1b | Pre-Init  |0000000021| Memory A1 | Uncorrectable ECC | Asserted\n",
    ),
    "ibnetdiscover": (
        'Switch\t36 "S-0001"\t\t# "leaf-1" enhanced port 0 lid 4\n[1]\t"H-0002"[1](3)\t\t# "h1 mlx5_0" lid 5 4xHDR\n',
        "CA    88  1 0x01 4x HDR - SW    51 79 0x02 ( 'h1 mlx5_3' - 'leaf-1 ' )\n",
    ),
    "inventory": (
        "host,rack,pdu_a,cdu,management_switch,serial\nh[1-4],r1,p1,c1,m1,S1\n",
        "a_device,a_port,b_device,b_port\nh1,mlx5_0,leaf1,Ethernet1/1\n",
        '[{"child": "host:h1", "relation": "cooled_by", "parent": "cdu:c1"}]',
        '{"count": 1, "next": null, "results": [{"id": 7, "url": "https://n/api/dcim/devices/7/", "name": "h1", '
        '"role": {"slug": "gpu-server"}, "rack": {"name": "r1"}, "serial": "S1"}]}',
    ),
    "kubernetes_list": (
        '{"apiVersion": "v1", "items": [{"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"nodeName": '
        '"h9"}, "status": {"phase": "Failed", "reason": "OutOfcpu", "startTime": "2026-03-03T03:10:00Z"}}]}',
        '{"apiVersion": "v1", "items": [{"kind": "Node", "metadata": {"name": "h1"}, "spec": {"unschedulable": true}, '
        '"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}}}]}',
    ),
    "kubernetes_pods_table": ("NAME READY STATUS RESTARTS AGE IP NODE\na 0/1 OutOfcpu 0 9m <none> h9\n",),
    "kubernetes_describe": ("Name:               h1\nConditions:\n  Type   Status\n  Ready  False\nTaints: <none>\n",),
    "link_text": ("CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 400\n",),
    "optic_text": ("\tIdentifier : 0x18 (QSFP-DD)\n\tRcvr signal avg optical power (Channel 1) : 0.0100 mW / -20.00 dBm\n",),
    "port_counters": ("# Port extended counters: Lid 4 port 1\nSymbolErrorCounter:.............12\nLinkDownedCounter:..3\n",),
    "prometheus_range": (
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_TEMP",'
        '"gpu":"0","Hostname":"h1"},"values":[[1741666642.5,"61"],[1741666652.5,"NaN"]]}]}}',
    ),
    "prometheus_text": (
        '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",Hostname="h1"} 61\nup 1 1741666642000\n',
    ),
    "readings_csv": (
        "time,component,column,value\n2026-03-11T04:20:00Z,cdu:c1,flow_litres_per_minute,402.5\n1773202800,cdu:c1,leak,1\n",
        "component;time;power_watts;current_amperes\npdu:p1;1773202800;8100;36\n",
    ),
    "redfish": (
        '{"component": "cdu:c1", "at": 1773202800, "resources": {"/redfish/v1/ThermalEquipment/CDUs/1/Pumps/1": '
        '{"@odata.type": "#Pump.v1_1_0.Pump", "Status": {"Health": "Critical"}, "PumpSpeedPercent": {"Reading": 38}}}}',
        '[{"@odata.type": "#Circuit.v1_9_0.Circuit", "BreakerState": "Tripped", "Voltage": {"Reading": 230.5}}]',
    ),
    "slurm_show": ("NodeName=h1 State=IDLE+DRAIN Gres=gpu:8\n   Reason=gres/gpu count reported lower (7 < 8) [root@now]\n",),
    "slurm_table": ("JobID|JobName|State|ExitCode|NodeList\n17|a|FAILED|0:9|h1\n", "NODELIST NODES STATE\nh[1-4] 4 drain*\n"),
    "slurm_topology": ("SwitchName=leaf1 Nodes=h[1-4]\n", "- topology: t\n  tree:\n    switches:\n    - switch: l1\n      nodes: h1\n"),
    "switch_tables": ("      IFACE    STATE    FEC_CORR    FEC_UNCORR\n-----------  -------  ----------  ------------\nEthernet0 U 1 2\n",),
    "sysfs_listing": ("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:12\n",),
}  # fmt: skip


def seeds(kind: str) -> list[bytes]:
    """What is mutated: valid inputs of the format; for logs every sample of every grammar."""
    if kind != "log":
        return [text.encode("latin-1", "replace") for text in DOCUMENTS[kind]]
    return [sample.text.encode() for where in CATALOGUE.values() for sample in import_module(where).SAMPLES]


def mutated(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """`data` with a few faults: flips, cuts, repeats, splices, and bytes of no meaning."""
    for _ in range(chance.randint(1, 4)):
        at, end = sorted(chance.randint(0, len(data)) for _ in range(2))
        match chance.randrange(6):
            case 0:
                data = data[:at] + chance.randbytes(chance.randint(1, 8)) + data[at:]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:end] + data[at:end] * chance.randint(1, 4) + data[end:]
            case 3:
                other = chance.choice(others)
                data = data[:at] + other[chance.randint(0, len(other)) :]
            case 4:
                data = data.replace(b" ", chance.choice((b"\t", b"\x00", b"", b"\xff", b"  ")), chance.randint(1, 3))
            case _:
                data = data[:at]
    return data[:MAX_BYTES]


def main(kind: str, seed: int, count: int) -> None:
    """Reads `count` mutated inputs."""
    read, corpus, chance = import_module(formats()[kind]).read, seeds(kind), random.Random(seed)
    confidence = import_module(formats()[kind]).confidence
    for _ in range(count):
        data = mutated(chance.choice(corpus), chance, corpus)
        signal.alarm(HANG_S)
        assert 0.0 <= confidence(data[:65536], "input") <= 1.0
        step = chance.randint(1, len(data) + 1)
        chunks = [data[at : at + step] for at in range(0, len(data), step)]
        found = sum(1 for _ in read(chunks, Tally(), name="input"))
        assert found <= MOST_RECORDS, data
    signal.alarm(0)
    print(count)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
