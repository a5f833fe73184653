"""Lines of NVIDIA's driver in all their eras; who may say them; what is one event and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import nvidia_lines
from collectors.formats.bodies import Sample, accelerator_nvidia_text
from collectors.formats.bodies import accelerator_nvidia as nvidia
from collectors.formats.log import BodyModule
from collectors.formats.reading import Line, Record
from sickbay.components import pci_address
from sickbay.messages import Action, Event, Identity, Severity


def read(text: str, origin: str = "kernel", stream: str = "") -> list[Record]:
    """All records of the lines of `text`, read by both grammars of the driver."""
    lines = [Line(body, number, origin=origin, stream=stream) for number, body in enumerate(text.split("\n"), 1)]
    codes, words = nvidia.Grammar(), accelerator_nvidia_text.Grammar()
    return [record for line in lines for record in (*codes.read(line), *(told for told, _ in words.read(line)))]


def events(text: str) -> list[Event]:
    """The events among the records of `text`."""
    return [record for record in read(text) if isinstance(record, Event)]


def event(text: str, origin: str = "kernel") -> Event:
    """The only record of `text`, an event."""
    (record,) = read(text, origin)
    assert isinstance(record, Event)
    return record


SAMPLES = [(module, sample) for module in (nvidia, accelerator_nvidia_text) for sample in module.SAMPLES]


@pytest.mark.parametrize("sample", [sample for _, sample in SAMPLES], ids=lambda sample: sample.text[:60])
def test_sample(sample: Sample) -> None:
    records = read(sample.text)
    assert len(records) == len(sample.records)
    for record, expected in zip(records, sample.records, strict=True):
        assert isinstance(record, Event | Identity)
        tag = "event" if isinstance(record, Event) else "identity"
        fields = {"type": tag} | {field: getattr(record, field) for field in record.__struct_fields__}
        assert {key: fields[key] for key in expected} == expected


@pytest.mark.parametrize(("module", "sample"), SAMPLES, ids=lambda value: getattr(value, "text", "")[:60])
def test_every_line_of_a_sample_survives_the_prefilter(module: BodyModule, sample: Sample) -> None:
    assert all(any(literal in line for literal in module.LITERALS) for line in sample.text.split("\n"))


@pytest.mark.parametrize(
    "line",
    [
        "usb 3-2: new high-speed USB device number 7 using xhci_hcd",
        "nvidia 0000:3b:00.0: enabling device (0140 -> 0142)",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
        "nvidia-nvswitch3: open (major=510)",
        "NVRM: GPU3 RPC history (CPU -> GSP):",
        "NVRM:     entry function                   data0              data1",
        "NVRM:      0    76   GSP_RM_CONTROL        0x0000000020802096 0x0000000000000008",
        "NVRM:         sepc:0x0000000001a40c36     stval:0x0000000000000020  scause:0x000000000000000f",
        "NVRM:     Reported by libos partition:4#0 kernel v3.1 [0] @ ts:1170232285",
        "epoch 3 step 410: loss 2.31, Xid of the batch is 79",
    ],
)
def test_ordinary_lines_and_dumps_give_nothing(line: str) -> None:
    assert read(line) == []


@pytest.mark.parametrize("origin", ["python3", "nv-hostengine", "dcgm-exporter", "kubelet", "sshd"])
def test_a_program_that_quotes_the_kernel_is_not_the_kernel(origin: str) -> None:
    assert read("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", origin) == []


@pytest.mark.parametrize(
    "line",
    [
        "I read NVRM: Xid (PCI:0000:3b:00): 79, in a log",
        "monitor: NVRM: Xid (PCI:0000:3b:00): 79",
        "> NVRM: Xid (PCI:0000:3b:00): 79",
    ],
)
def test_a_bare_line_must_begin_with_the_drivers_name(line: str) -> None:
    assert read(line, origin="") == []


def test_a_dump_after_a_firmware_fault_belongs_to_it() -> None:
    text = (
        "NVRM: Xid (PCI:0000:3b:00): 120, GSP task exception: store access page fault (cause:0xf) @ pc:0x13ebd80\n"
        "NVRM:     RISC-V CSR State:\n"
        "NVRM:         sepc:0x00000000013ebd80     stval:0x0000000000000020  scause:0x000000000000000f"
    )
    assert event(text).kind == "accelerator.firmware_hang"


HEX2 = st.integers(0, 255).map(lambda number: f"{number:02x}")
DEVICE = st.integers(0, 31).map(lambda number: f"{number:02x}")  # five bits
DOMAIN = st.one_of(
    st.integers(0, 0xFFFF).map(lambda n: f"{n:04x}"), st.integers(0x10000, 0xFFFFFFF).map(lambda n: f"{n:x}")
)
# Names of commands as the kernel has them: at most 15 characters, blanks, brackets and colons included.
COMMAND = st.text(
    st.characters(codec="ascii", categories=("L", "N", "P", "Zs"), exclude_characters=",'<#"), min_size=1, max_size=15
)


@given(
    domain=DOMAIN, bus=HEX2, device=DEVICE, function=st.sampled_from(["", ".0"]), code=st.integers(1, 9999),
    prefix=st.sampled_from(["PCI:", ""]), mig=st.sampled_from(["", " GPU-I:05", " GPU-I:05 GPU-CI:02"]),
    upper=st.booleans(), who=st.sampled_from(["both", "pid", "unknown", "omitted"]), command=COMMAND,
    pid=st.integers(1, 4_194_304), text=st.sampled_from(["", "Ch 0000000c", "channel 0x0000000c, intr 00000000."]),
)  # fmt: skip
def test_every_era_names_the_same_card_and_process(
    domain: str, bus: str, device: str, function: str, code: int, prefix: str, mig: str, upper: bool, who: str,
    command: str, pid: int, text: str,
) -> None:  # fmt: skip
    address = f"{domain}:{bus}:{device}{function}"
    process = {
        "both": f", pid={pid}, name={command}", "pid": f", pid={pid}",
        "unknown": ", pid='<unknown>', name=<unknown>", "omitted": "",
    }[who]  # fmt: skip
    line = (
        f"NVRM: Xid ({prefix}{address.upper() if upper else address}{mig}): {code}{process}{', ' if text else ''}{text}"
    )
    found = event(line)
    assert found.component == f"accelerator:?/{pci_address(address)}"
    assert found.code == f"Xid {code}"
    assert found.process == {"both": f"{command.strip()}[{pid}]", "pid": f"[{pid}]"}.get(who, "")
    assert found.attributes.get("mig", "") == ("05" if mig else "")


@pytest.mark.parametrize("where", ["PCI:...", "PCI:xxxx:xx:xx", "", "PCI:<redacted>", "PCI:0000:**:00"])
def test_an_address_that_was_taken_out_is_never_invented(where: str) -> None:
    assert event(f"NVRM: Xid ({where}): 79, GPU has fallen off the bus.").component == "accelerator:?/?"
    text = f"NVRM: Xid ({where}): 119, Timeout after 45s of waiting for RPC response from GPU3 GSP!"
    assert event(text).component == "accelerator:?/GPU3"


def test_a_link_that_does_not_train_names_its_far_end() -> None:
    found = event("NVRM: Xid (PCI:0000:3b:00): 74, NVLink: failed to train link 3 to remote PCI:0000:5d:00")
    assert (found.component, found.peer) == ("accelerator:?/0000:3b:00", "accelerator:?/0000:5d:00")


def test_the_cause_that_the_driver_names_is_kept() -> None:
    cause, found = events("NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=x, channel 0x00000012 caused by previous Xid 94")
    assert (found.attributes["caused_by"], found.severity, found.advice) == ("Xid 94", Severity.INFO, None)
    assert (cause.code, cause.kind, cause.attributes["told_by"]) == ("Xid 94", "accelerator.memory_contained", "Xid 45")


def test_a_cause_whose_own_line_was_read_is_not_told_again() -> None:
    closed = "NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=x, channel 0x00000012 caused by previous Xid 95"
    first = "NVRM: Xid (PCI:0000:3b:00): 95, pid=7, name=x, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"
    assert [found.code for found in events(f"{first}\n{closed}\n{closed}")] == ["Xid 95", "Xid 45", "Xid 45"]
    assert [found.code for found in events(f"{closed}\n{closed}")] == ["Xid 95", "Xid 45", "Xid 45"]


@pytest.mark.parametrize("code", range(144, 151))
def test_a_cause_whose_gravity_stands_in_its_own_line_advises_nothing_strong(code: int) -> None:
    cause, _ = events(f"NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=x, Ch 00000012 caused by previous Xid {code}")
    assert (cause.severity, cause.advice) == (Severity.WARNING, Action.WATCH)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.",
        "NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus",
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)\nNVRM: installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA GPU 0000:3b:00.0#012NVRM: (PCI ID: 10de:2330) installed in this system has"
        "#012NVRM: fallen off the bus and is not responding to commands.",
    ],
)
def test_fallen_off_the_bus_in_all_its_forms(text: str) -> None:
    found = event(text)
    assert (found.component, found.code, found.advice) == ("accelerator:?/0000:3b:00", "Xid 79", Action.REBOOT_HOST)


def test_an_embedded_line_end_is_a_line_end() -> None:
    body = (
        "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands."
    )
    ((record, _),) = accelerator_nvidia_text.Grammar().read(Line(body, 1, origin="kernel"))
    assert isinstance(record, Event)
    assert record.component == "accelerator:?/0000:3b:00"


def test_messages_of_interleaved_writers_are_not_mixed() -> None:
    grammar = accelerator_nvidia_text.Grammar()
    found: list[Record] = []
    for stream, body in [
        ("a", "NVRM: The NVIDIA GPU 0000:3b:00.0"), ("b", "NVRM: The NVIDIA GPU 0000:5d:00.0"),
        ("a", "NVRM: fallen off the bus and is not responding to commands."),
        ("b", "NVRM: fallen off the bus and is not responding to commands."),
    ]:  # fmt: skip
        found.extend(record for record, _ in grammar.read(Line(body, 1, origin="kernel", stream=stream)))
    assert [record.component for record in found if isinstance(record, Event)] == [
        "accelerator:?/0000:3b:00", "accelerator:?/0000:5d:00",
    ]  # fmt: skip


def test_identities_join_address_uuid_and_serial() -> None:
    uuid = "GPU-5d0c1a7e-0000-4000-8000-00000000a1b2"
    records = read(f"NVRM: GPU at PCI:0000:3b:00: {uuid}\nNVRM: GPU Board Serial Number: 1650000000000")
    assert records == [
        Identity(pci="0000:3b:00", uuid=uuid),
        Identity(pci="0000:3b:00", uuid=uuid, serial="1650000000000"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU Board Serial Number: 1650000000000",
        "NVRM: GPU at PCI:0000:3b:00: GPU-xxxxxxxx-xxxx",
        "NVRM: GPU at PCI:...: GPU-",
    ],
)
def test_half_an_identity_is_none(text: str) -> None:
    assert read(text) == []


SWITCH = "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): "


def test_three_lines_of_one_switch_error_are_one_event() -> None:
    text = (
        f"{SWITCH}20034, Fatal, Link 37 LTSSM Fault Up (First)\n"
        f"{SWITCH}20034, Severity 5 Engine instance 37 Sub-engine instance 00\n"
        f"{SWITCH}20034, Data {{0x00000001, 0x00000001, 0x00000000}}"
    )
    found = event(text)
    assert (found.code, found.attributes["link"], found.attributes["first"]) == ("SXid 20034", "37", "yes")


def test_a_switch_error_whose_first_line_is_lost_is_still_told() -> None:
    text = f"{SWITCH}12020, Severity 5 Engine instance 37 Sub-engine instance 00\n{SWITCH}12020, Data {{0x00000001}}"
    assert event(text).code == "SXid 12020"


@pytest.mark.parametrize(
    ("text", "severity", "kind", "advice"),
    [
        ("19049, Fatal, Link 03 x", Severity.FATAL, "fabric.switch_fatal", Action.RESET_DEVICE),
        ("19049, Non-fatal, Link 03 x", Severity.WARNING, "fabric.switch_nonfatal", None),
        ("11001, Non-fatal, Link 03 x", Severity.WARNING, "fabric.switch_nonfatal", Action.WATCH),
        ("12020, Fatal, Link 03 x", Severity.FATAL, "fabric.switch_fatal", Action.REBOOT_HOST),
        ("10004, Temp higher than WARN Threshold", Severity.ERROR, "fabric.thermal", Action.WATCH),
        ("10005, Thermal Slowdown Disengaged", Severity.INFO, "fabric.recovered", None),
        ("00099, Fatal, Link 03 x", Severity.FATAL, "fabric.switch_fatal", Action.RESET_DEVICE),
        ("99099, Non-fatal, PRI WRITE SYS error, instance=0", Severity.WARNING, "fabric.switch_nonfatal", Action.WATCH),
    ],
)
def test_the_word_in_the_line_outranks_the_table(
    text: str, severity: Severity, kind: str, advice: Action | None
) -> None:
    found = event(SWITCH + text)
    assert (found.severity, found.kind, found.advice) == (severity, kind, advice)
    assert found.component == "fabric:?/0000:87:00"


def test_a_virtual_address_names_no_switch() -> None:
    found = event("nvidia-nvswitch2: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 37 LTSSM Fault Up")
    assert found.component == "fabric:?/nvidia-nvswitch2"


def test_a_version_mismatch_is_software() -> None:
    found = event("NVRM: API mismatch: the client has the version 570.86.15, but")
    assert (found.kind, found.component, found.advice) == ("host.driver_mismatch", "host:?", None)


def test_further_lines_of_a_message_belong_to_the_line_that_began_it() -> None:
    grammar = accelerator_nvidia_text.Grammar()
    first = Line("NVRM: The NVIDIA GPU 0000:3b:00.0", 7, origin="kernel", host="gx-r07-n03", stream="a")
    second = Line("               NVRM: (PCI ID: 10de:2330) installed in this system has", 8)
    third = Line("               NVRM: fallen off the bus and is not responding to commands.", 9)
    ((record, line),) = [told for line in (first, second, third) for told in grammar.read(line)]
    assert isinstance(record, Event)
    assert (record.component, record.code) == ("accelerator:?/0000:3b:00", "Xid 79")
    assert (line.host, line.number, line.body) == ("gx-r07-n03", 9, third.body.strip())


def test_words_about_a_lost_card_count_only_where_nothing_names_it() -> None:
    words = "NVRM: GPU4 _issueRpcAndWait: GPU lost, returning NV_ERR_GPU_IS_LOST without issuing RPC"
    assert [(found.component, found.code) for found in events(f"{words}\n{words}")] == [
        ("accelerator:?/GPU4", "GPU lost")
    ]
    named = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert [found.code for found in events(f"{named}\n{words}")] == ["Xid 79"]


def test_the_drivers_number_of_a_card_is_joined_with_its_address() -> None:
    text = (
        "NVRM: Xid (PCI:0000:3b:00): 119, pid=7, name=x, Timeout after 45s of waiting for RPC response from GPU3 GSP!"
    )
    assert [record for record in read(f"{text}\n{text}") if isinstance(record, Identity)] == [
        Identity(pci="0000:3b:00", name="GPU3")
    ]


PIECES = (
    "NVRM: ", "Xid (", "PCI:", "0000:3b:00", "): ", "79", ", pid=", "name=", "SXid", "nvidia-nvswitch1: ", "Fatal",
    "Link ", "GPU at ", "GPU-I:", "fallen off the bus", "The NVIDIA GPU ", "\n", "#012", "(0x", "154, ",
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=12).map("".join), max_size=8))
def test_any_text_gives_no_error_and_no_invented_address(bodies: list[str]) -> None:
    codes, words = nvidia.Grammar(), accelerator_nvidia_text.Grammar()
    for number, body in enumerate(bodies):
        line = Line(body, number, origin="kernel")
        for record in (*codes.read(line), *(told for told, _ in words.read(line))):
            if isinstance(record, Event):
                place = record.component.partition("/")[2]
                assert place in ("?", "0000:3b:00", "nvidia-nvswitch1") or place.startswith("GPU") or _in(place, bodies)


def _in(place: str, bodies: list[str]) -> bool:
    return place.lstrip("0:") in "".join(bodies).lower()


def test_state_stays_bounded_and_long_lines_are_read_in_part() -> None:
    grammar, words = nvidia.Grammar(), accelerator_nvidia_text.Grammar()
    for number in range(2000):
        list(words.read(Line(f"NVRM: The NVIDIA GPU 0000:{number % 256:02x}:00.0", number, stream=str(number))))
        list(grammar.read(Line(f"nvidia-nvswitch{number}: SXid (PCI:0000:9c:00.0): 11001, Fatal, x", number)))
        list(grammar.read(Line(f"NVRM: Xid (PCI:0000:{number % 256:02x}:00): {number}", number)))
    assert len(words._probed) <= nvidia_lines.MAX_STATE
    assert max(len(grammar._switch_errors), len(grammar._told)) <= nvidia_lines.MAX_STATE
    for filling in ("(", "0", " ", "PCI:", ", pid=", "_"):
        read("NVRM: Xid (PCI:0000:3b:00): 31, " + filling * 60_000)
        read("NVRM: Xid (" + filling * 60_000)
