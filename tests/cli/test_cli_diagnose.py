"""`sickbay diagnose` as a user runs it: exit status, JSON contract, hostile text, clocks, hosts."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OFF_BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
ORDINARY = "systemd[1]: Started Session 4 of user root."


def sickbay(*arguments: str | Path, text: bool = True) -> subprocess.CompletedProcess[Any]:
    command = [sys.executable, "-m", "sickbay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=text, timeout=120, check=False)


def answer(*arguments: str | Path) -> tuple[dict[str, Any], int]:
    done = sickbay("diagnose", "--json", *arguments)
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout), done.returncode


def log(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_fault_is_an_incident_and_status_1(tmp_path: Path) -> None:
    path = log(tmp_path, "messages", f"Mar 11 04:17:22 h17 kernel: [99.5] {OFF_BUS}")
    found, status = answer(path)
    (incident,) = found["incidents"]
    assert status == 1
    assert (incident["verdict"], incident["component"]) == ("component", "accelerator:h17/0000:3b:00")
    assert incident["action"] == "reboot_host"
    assert incident["evidence"][0]["path"] == str(path)
    assert incident["evidence"][0]["line"] == 1


@pytest.mark.slow
def test_every_key_of_the_contract_is_there(tmp_path: Path) -> None:
    found, _ = answer(log(tmp_path, "messages", f"2025-03-11T04:17:22.5+00:00 h17 kernel: {OFF_BUS}"))
    assert set(found) == {"schema", "inputs", "components", "topology", "events", "omitted", "incidents"}
    assert found["schema"] == "sickbay.diagnosis/1"
    assert set(found["inputs"][0]) >= {"path", "kind", "records", "unparsed", "clock"}
    assert set(found["topology"]) == {"components", "links", "conflicts"}
    assert set(found["events"][0]) == {
        "at", "until", "count", "at_boot_s", "component", "kind", "code", "severity", "message", "path", "line",
    }  # fmt: skip
    assert set(found["incidents"][0]) >= {
        "id", "verdict", "component", "fault", "severity", "probability", "action", "plan", "suspects", "summary",
        "evidence", "against", "dependants", "affected", "onset", "detected",
    }  # fmt: skip
    assert set(found["components"]["accelerator:h17/0000:3b:00"]) == {
        "host", "pci", "uuid", "serial", "index", "switch", "port", "job", "ranks",
    }  # fmt: skip
    assert found["events"][0]["at"] == "2025-03-11T04:17:22.500Z"
    assert sum(suspect["probability"] for suspect in found["incidents"][0]["suspects"]) <= 1


@pytest.mark.slow
def test_nothing_wrong_is_status_0_and_nothing_understood_is_3(tmp_path: Path) -> None:
    quiet = log(tmp_path, "messages", *[f"Mar 11 04:17:{n:02d} h17 {ORDINARY}" for n in range(50)])
    assert answer(quiet)[1] == 0
    strange = tmp_path / "strange.bin"
    strange.write_bytes(bytes(range(256)) * 64)
    found, status = answer(strange)
    assert status == 3
    assert found["inputs"][0]["kind"] == "unknown"
    assert answer(quiet, strange)[1] == 3


@pytest.mark.slow
def test_bad_usage_and_no_input_are_status_2(tmp_path: Path) -> None:
    assert sickbay("diagnose").returncode == 2
    assert sickbay("diagnose", tmp_path / "absent").returncode == 2
    assert sickbay("diagnose", tmp_path, "--timezone", "Mars/Olympus").returncode == 2
    assert sickbay("diagnose", tmp_path, "--no-such-option").returncode == 2
    assert sickbay("no-such-command").returncode == 2
    assert sickbay("diagnose", "--prometheus", "http://127.0.0.1:1").returncode == 2, "--from is missing"


@pytest.mark.slow
def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07[bold]<script>alert(1)</script>\u202e"
    path = log(tmp_path, f"messages{evil[2:8]}", f"Mar 11 04:17:22 h17 kernel: {OFF_BUS} {evil}")
    done = sickbay("diagnose", path)
    assert done.returncode == 1
    assert not set("\x1b\x07\u202e") & set(done.stdout)
    page = tmp_path / "report.html"
    assert sickbay("diagnose", path, "--html", page).returncode == 1
    assert "<script>alert" not in page.read_text()


@pytest.mark.slow
def test_json_is_utf8_whatever_the_input_holds(tmp_path: Path) -> None:
    path = tmp_path / "messages"
    path.write_bytes(f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}".encode() + b" \xff\xfe\x00\xed\xa0\x80\n")
    done = sickbay("diagnose", "--json", path, text=False)
    assert json.loads(done.stdout.decode("utf-8"))["incidents"]


@pytest.mark.slow
def test_a_user_process_that_quotes_a_code_is_not_the_kernel(tmp_path: Path) -> None:
    found, _ = answer(log(tmp_path, "messages", f"Mar 11 04:17:22 h17 python3[812]: {OFF_BUS}"))
    assert found["incidents"] == []
    assert not [event for event in found["events"] if event["kind"].startswith("accelerator.")]


@pytest.mark.slow
def test_unknown_hosts_are_not_shared_and_known_ones_come_from_the_path(tmp_path: Path) -> None:
    one = log(tmp_path, "a/dmesg", f"[99.5] {OFF_BUS}")
    two = log(tmp_path, "b/dmesg", f"[99.5] {OFF_BUS}")
    found, _ = answer(one, two)
    assert len({event["component"] for event in found["events"]}) == 2
    assert all(event["component"].startswith("accelerator:~") for event in found["events"])
    named = log(tmp_path, "h17/dmesg", f"[99.5] {OFF_BUS}")
    knows = log(tmp_path, "messages", f"Mar 11 04:17:22 h17 {ORDINARY}", f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}")
    assert {event["component"] for event in answer(named, knows)[0]["events"]} == {"accelerator:h17/0000:3b:00"}
    assert answer(one, "--host", "h9")[0]["incidents"][0]["component"] == "accelerator:h9/0000:3b:00"


@pytest.mark.slow
def test_people_read_one_name_for_a_part_of_a_host_that_is_not_named(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    done = sickbay("diagnose", log(tmp_path, "dmesg", f"[99.5] {OFF_BUS}"), "--html", html)
    head, note = done.stdout.splitlines()[0], done.stdout.splitlines()[-2]
    assert head.startswith("COMPONENT  accelerator:?/0000:3b:00 ")
    assert "drain_host host:? " in done.stdout
    assert "~" not in done.stdout
    assert note.startswith("? stands for a host")
    shown = re.findall(r"<bdi[^>]*>((?:accelerator|host):[^<]*)</bdi>", html.read_text())
    assert shown
    assert not [one for one in shown if "~" in one]


@pytest.mark.slow
def test_stamps_without_zone_or_year(tmp_path: Path) -> None:
    yearless = log(tmp_path, "messages", f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}")
    assert answer(yearless)[0]["events"][0]["at"] is None
    dated = log(tmp_path, "other", f"2024-03-12T00:00:00+00:00 h18 kernel: {OFF_BUS}")
    events = {event["component"]: event["at"] for event in answer(yearless, dated)[0]["events"]}
    assert events["accelerator:h17/0000:3b:00"] == "2024-03-11T04:17:22.000Z"
    shanghai = log(tmp_path, "t", f"[Tue Mar 11 04:17:22 2025] {OFF_BUS}")
    at = answer(shanghai, "--timezone", "Asia/Shanghai")[0]["events"][0]["at"]
    assert at == "2025-03-10T20:17:22.000Z"


@pytest.mark.slow
def test_boot_clocks_are_told_and_not_dated(tmp_path: Path) -> None:
    event = answer(log(tmp_path, "dmesg", f"[  123.456789] {OFF_BUS}"))[0]["events"][0]
    assert event["at"] is None
    assert event["at_boot_s"] == pytest.approx(123.456789)


@pytest.mark.slow
def test_archives_and_compressed_files_are_walked(tmp_path: Path) -> None:
    path = tmp_path / "h17.log.gz"
    path.write_bytes(gzip.compress(f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}\n".encode()))
    assert answer(path)[1] == 1


@pytest.mark.slow
def test_a_long_line_is_cut_and_told(tmp_path: Path) -> None:
    path = tmp_path / "messages"
    with path.open("wb") as file:
        file.write(f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}\nMar 11 04:17:23 h17 kernel: ".encode())
        file.write(b"x" * 3_000_000 + b"\n")
    found, status = answer(path)
    assert status == 1
    assert "cut" in found["inputs"][0]["note"]


@pytest.mark.slow
def test_chinese_sentences(tmp_path: Path) -> None:
    found, _ = answer(log(tmp_path, "messages", f"Mar 11 04:17:22 h17 kernel: {OFF_BUS}"), "--lang", "zh")
    assert "掉卡" in found["incidents"][0]["summary"]


@pytest.mark.slow
def test_topology_alone_is_counted_and_no_incident(tmp_path: Path) -> None:
    found, status = answer(log(tmp_path, "topology.conf", "SwitchName=leaf1 Nodes=h[1-4]"))
    assert status == 0
    assert found["topology"]["components"] >= 5
    assert found["incidents"] == []


@pytest.mark.slow
def test_the_doctor_finds_this_installation_well() -> None:
    done = sickbay("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert {check["name"] for check in json.loads(done.stdout)} >= {"python", "packages", "formats"}


@pytest.mark.slow
def test_help_loads_no_command_and_lists_all() -> None:
    done = sickbay("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("diagnose", "demo", "doctor"))
