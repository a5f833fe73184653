"""What people save of a network: modules and counters of both ends over time, lists of cables, sweeps of the fabric.

`HOST-modules.txt`, `HOST-statistics.txt`: `ethtool -m` and `-S` in a loop with `date -Is`; `LEAF-modules.txt`: the same
of SONiC's `show interfaces transceiver eeprom --dom`; `LEAF-ports.csv`: readings of its ports; `cabling.csv` and
`switches.csv`. Of an InfiniBand fabric `ibnetdiscover-TIME.txt` and `HOST-sysfs.txt` instead.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.moments import moment
from simulator.output import fabric_files
from simulator.parts.cables import (
    FLOOR_DBM,
    HOST,
    LEAF,
    RX_LOW_ALARM,
    RX_LOW_WARNING,
    TX_LOW_ALARM,
    TX_LOW_WARNING,
    Cables,
    serial,
)  # fmt: skip
from simulator.parts.cluster import Card, Cluster
from simulator.parts.facility import HEADER, readings
from simulator.parts.uplinks import spines, uplinks
from simulator.world import Second

MODULES_S, COUNTERS_S = 60, 10  # how often the loops read; modules are slow
PRIORITY = 3  # the lossless one
MODEL = "T-DR4CNT-H00"


@dataclass(slots=True)
class CableFiles:
    """Collects what the files tell. `sweeps`: seconds of sweeps, with the leaves that each of them missed."""

    cluster: Cluster
    sweeps: Mapping[int, Collection[str]] = field(default_factory=dict)
    modules_s: int = MODULES_S
    texts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, second: Second, at_s: int) -> None:
        """One second, if somebody looked in it."""
        cables = second.cables
        assert cables is not None
        date = f"{moment(second.at_ms):%Y-%m-%dT%H:%M:%S}+00:00"
        if self.cluster.cards[0].fabric == "infiniband":
            self._swept(second, at_s)
            return
        if at_s % self.modules_s == 0:
            self._modules(cables, date, second.samples)
        if at_s % COUNTERS_S == 0:
            self._counters(cables, date, second)

    def write(self, folder: Path) -> None:
        """All files."""
        for name, rows in self.texts.items():
            (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
        if self.cluster.cards[0].fabric == "ethernet":
            (folder / "cabling.csv").write_text(cabling(self.cluster), encoding="utf-8")
            (folder / "switches.csv").write_text(switches(self.cluster), encoding="utf-8")

    def _swept(self, second: Second, at_s: int) -> None:
        """A sweep, and what the adapters' own files say in the moment."""
        if at_s not in self.sweeps:
            return
        text = sweep(self.cluster, second.at_ms, self.sweeps[at_s])
        self.texts[f"ibnetdiscover-{moment(second.at_ms):%H%M%S}.txt"] = [text]
        for host, told in second.samples.items():
            ports = next(samples for samples in told if samples.table == "port")
            rows = self.texts.setdefault(f"{host}-sysfs.txt", [])
            for row, card in enumerate(self.cluster.of(host)):
                rows += _listing({column: float(values[row]) for column, values in ports.values.items()}, card)

    def _modules(self, cables: Cables, date: str, alive: Collection[str]) -> None:
        dated: set[str] = set()
        for row, card in enumerate(self.cluster.cards):
            for side, name, rows in (
                (HOST, f"{card.host}-modules.txt", _host_module(cables, row, card)),
                (LEAF, f"{card.leaf}-modules.txt", _leaf_module(cables, row, card)),
            ):
                if not cables.present(row, side):
                    continue
                if (card.host not in alive and name.startswith(card.host)) or name.startswith(tuple(cables.silent)):
                    continue
                text = self.texts.setdefault(name, [])
                text += [date] if name not in dated else []
                dated.add(name)
                text += rows

    def _counters(self, cables: Cables, date: str, second: Second) -> None:
        for host in self.cluster.hosts:
            if host in second.samples:
                text = self.texts.setdefault(f"{host}-statistics.txt", [])
                text.append(date)
                for row in range(*self.cluster.rows(host).indices(len(self.cluster.cards))):
                    text += _statistics(cables.statistics(row, HOST), self.cluster.cards[row])
        for ports in (cables.leaf_ports(second.at_ms), cables.uplink_ports(second.at_ms)):
            for line in readings(ports):
                switch = line.split(",")[1].partition(":")[2].split("/")[0]
                self.texts.setdefault(f"{switch}-ports.csv", [HEADER]).append(line)


def _host_module(cables: Cables, row: int, card: Card) -> Iterator[str]:
    sent, received = cables.light.sent[HOST, row], cables.light.received[HOST, row]
    celsius = cables.celsius(row, HOST)
    yield f"$ ethtool -m {card.interface}"
    yield from (
        f"\t{key:<41} : {value}"
        for key, value in (
            ("Identifier", "0x19 (OSFP 8X Pluggable Transceiver)"),
            ("Vendor name", "INNOLAB"),
            ("Vendor PN", MODEL),
            ("Vendor SN", serial(cables.cluster, card, HOST)),
            ("Module temperature", f"{celsius:.2f} degrees C / {celsius * 1.8 + 32:.2f} degrees F"),
            ("Module voltage", "3.2871 V"),
            *((f"Laser tx bias current (Channel {n})", f"{_bias(power):.3f} mA") for n, power in enumerate(sent, 1)),
            *((f"Transmit avg optical power (Channel {n})", _power(power)) for n, power in enumerate(sent, 1)),
            *((f"Rcvr signal avg optical power (Channel {n})", _power(power)) for n, power in enumerate(received, 1)),
            ("Module temperature high alarm threshold", "75.00 degrees C / 167.00 degrees F"),
            ("Laser output power low alarm threshold", _power(TX_LOW_ALARM)),
            ("Laser output power low warning threshold", _power(TX_LOW_WARNING)),
            ("Laser rx power low alarm threshold", _power(RX_LOW_ALARM)),
            ("Laser rx power low warning threshold", _power(RX_LOW_WARNING)),
        )
    )


def _bias(dbm: float) -> float:
    return 0.0 if dbm <= FLOOR_DBM else 71.2


def _power(dbm: float) -> str:
    return f"{10 ** (dbm / 10):.4f} mW / {dbm:.2f} dBm"


def _leaf_module(cables: Cables, row: int, card: Card) -> Iterator[str]:
    yield f"{card.leaf_port}: SFP EEPROM detected"
    told = {
        "Identifier": "OSFP 8X Pluggable Transceiver",
        "Vendor Name": "INNOLAB",
        "Vendor PN": MODEL,
        "Vendor SN": serial(cables.cluster, card, LEAF),
    }
    yield from (f"        {key}: {value}" for key, value in told.items())
    yield "        ChannelMonitorValues:"
    for word, powers in (("RX", cables.light.received[LEAF, row]), ("TX", cables.light.sent[LEAF, row])):
        yield from (f"                {word}{n}Power: {power:.3f}dBm" for n, power in enumerate(powers, 1))
    yield "        ChannelThresholdValues:"
    yield f"                RxPowerLowAlarm   : {RX_LOW_ALARM:.1f}dBm"
    yield "        ModuleMonitorValues:"
    yield f"                Temperature: {cables.celsius(row, LEAF):.4f}C"


def _listing(row: dict[str, float], card: Card) -> Iterator[str]:
    """`grep . /sys/class/infiniband/*/ports/*/...`."""
    up = row["up"] > 0
    told = {
        "state": "4: ACTIVE" if up else "1: DOWN",
        "phys_state": "5: LinkUp" if up else "2: Polling",
        "rate": "400 Gb/sec (4X NDR)",
        "counters/port_rcv_data": int(row["rx_bytes_total"]) // 4,
        "counters/port_xmit_data": int(row["tx_bytes_total"]) // 4,
        "counters/symbol_error": 0,
        "counters/link_downed": int(row["link_downed_total"]),
    }
    yield from (f"/sys/class/infiniband/{card.rdma}/ports/1/{key}:{value}" for key, value in told.items())


def _statistics(counted: dict[str, int], card: Card) -> Iterator[str]:
    yield f"$ ethtool -S {card.interface}"
    yield "NIC statistics:"
    told = {
        "rx_bits_phy": counted["bits"],
        "rx_corrected_bits_phy": counted["corrected"],
        "rx_pcs_symbol_err_phy": counted["symbol_errors_total"],
        "rx_crc_errors_phy": counted["rx_errors_total"],
        "link_down_events_phy": counted["downs"],
        f"rx_prio{PRIORITY}_pause": counted["rx_pause"],
        f"rx_prio{PRIORITY}_pause_duration": counted["rx_held"],
        f"tx_prio{PRIORITY}_pause": counted["tx_pause"],
        f"tx_prio{PRIORITY}_pause_duration": counted["tx_held"],
        "outbound_pci_stalled_wr_events": counted["stalled"],
    }
    yield from (f"     {key}: {value}" for key, value in told.items())


def cabling(cluster: Cluster) -> str:
    """The site's list of cables."""
    rows = [f"{card.host},{card.interface},{card.leaf},{card.leaf_port}" for card in cluster.cards]
    rows += [f"{one.leaf},{one.leaf_port},{one.spine},{one.spine_port}" for one in uplinks(cluster)]
    rows += [f"{a.lower},{a.lower_port},{a.upper},{a.upper_port}" for a in fabric_files.unread(cluster)]
    return "\n".join(["a_device,a_port,b_device,b_port", *rows]) + "\n"


def switches(cluster: Cluster) -> str:
    """The site's list of switches."""
    rows = [f"{leaf},rack-net-{place // 2 + 1:02d}" for place, leaf in enumerate(cluster.leaves)]
    rows += [f"{spine},rack-net-00" for spine in spines(cluster)]
    rows += [f"{core},rack-net-00" for group in cluster.switches.cores for core in group] if cluster.switches else []
    return "\n".join(["switch,rack", *rows]) + "\n"


def sweep(cluster: Cluster, at_ms: int, missed: Collection[str]) -> str:
    """`ibnetdiscover` without the leaves that it missed; what hangs on them is seen by nobody then."""
    text = [f"#\n# Topology file: generated on {moment(at_ms):%a %b %d %H:%M:%S %Y}\n#"]
    spine = 0x5A00
    trunks = fabric_files.trunks(cluster, missed) if cluster.switches else {}
    for place, leaf in enumerate(leaf for leaf in cluster.leaves if leaf not in missed):
        text.append(_switch(cluster, leaf, 0x1A00 + cluster.leaves.index(leaf), spine, place, trunks.get(leaf)))
    text += [
        fabric_files.block(cluster, upper, ports) for upper, ports in trunks.items() if upper not in cluster.leaves
    ]
    seen = [card for card in cluster.cards if card.leaf not in missed]
    text += [_adapter(cluster, card, 0x1A00 + cluster.leaves.index(card.leaf)) for card in seen]
    return "\n".join(text)


def _guid(number: int) -> str:
    return f"b0cf0e0300{number:06x}"


def _adapter_guid(cluster: Cluster, card: Card) -> str:
    return f"a088c20300{cluster.row(card.component) + 0x100:06x}"


def _switch(cluster: Cluster, leaf: str, number: int, spine: int, place: int, up: list[str] | None) -> str:
    ports = [
        f'[{card.leaf_port}]\t"H-{_adapter_guid(cluster, card)}"[1]({_adapter_guid(cluster, card)}) \t\t'
        f'# "{card.host} {card.rdma}" lid {cluster.row(card.component) + 100} 4xNDR'
        for card in cluster.under(leaf)
    ]
    lid = number - 0x1A00 + 2
    ports += up or [f'[64]\t"S-{_guid(spine)}"[{place + 1}]\t\t# "spine-{leaf.rpartition("-")[0]}" lid 1 4xNDR']
    head = f"vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{_guid(number)}\nswitchguid=0x{_guid(number)}({_guid(number)})\n"
    name = f'Switch\t65 "S-{_guid(number)}"\t\t# "{leaf}" enhanced port 0 lid {lid} lmc 0\n'
    return head + name + "\n".join(ports) + "\n"


def _adapter(cluster: Cluster, card: Card, leaf: int) -> str:
    guid = _adapter_guid(cluster, card)
    return (
        f"vendid=0x2c9\ndevid=0x1021\nsysimgguid=0x{guid}\ncaguid=0x{guid}\n"
        f'Ca\t1 "H-{guid}"\t\t# "{card.host} {card.rdma}"\n'
        f'[1]({guid}) \t"S-{_guid(leaf)}"[{card.leaf_port}]\t\t# lid {cluster.row(card.component) + 100} lmc 0 '
        f'"{card.leaf}" lid {leaf - 0x1A00 + 2} 4xNDR\n'
    )
