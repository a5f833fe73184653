"""The command and its surroundings: closed, full and foreign streams, files that cannot be written, odd arguments."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sickbay.cli import main
from sickbay.commands.output import unwritable

OFF_BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    path = tmp_path / "messages"
    path.write_text(f"Mar 11 04:17:22 h17 kernel: [99.5] {OFF_BUS}\n", encoding="utf-8")
    return path


def shell(line: str, **environment: str) -> tuple[int, str, str]:
    """Runs a line of shell in which `$S` is the command; status, output and complaints."""
    told: Mapping[str, str] = {**os.environ, "S": f"{sys.executable} -m sickbay", **environment}
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=told, timeout=120, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_under_the_answer_is_told_in_one_line(fault: Path) -> None:
    for flags in ("", "--json"):
        status, _, told = shell(f"$S diagnose {flags} {fault} > /dev/full")
        assert (status, told) == (4, "sickbay: standard output: No space left on device\n")
    status, said, told = shell(f"$S diagnose --json {fault} --html /dev/full")
    assert status == 4
    assert json.loads(said)["incidents"], "the answer comes all the same"
    assert "No space left" in told


@pytest.mark.slow
def test_a_reader_that_goes_away_changes_no_verdict(fault: Path) -> None:
    for flags in ("", "--json"):
        assert shell(f"$S diagnose {flags} {fault} | true; exit ${{PIPESTATUS[0]}}")[::2] == (1, "")
    quiet = fault.with_name("quiet")
    quiet.write_text("Mar 11 04:17:22 h17 systemd[1]: Started Session 4.\n" * 50)
    assert shell(f"$S diagnose {quiet} | true; exit ${{PIPESTATUS[0]}}")[::2] == (0, "")


@pytest.mark.slow
def test_closed_streams_and_narrow_encodings_are_no_crash(fault: Path) -> None:
    assert shell(f"$S diagnose --json {fault} >&-")[0] == 1
    assert shell(f"$S diagnose {fault} 2>&-")[0] == 1
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    status, said, _ = shell(f"$S diagnose --lang zh {fault}", **plain)
    assert status == 1
    assert said.isascii()
    status, said, _ = shell(f"$S diagnose --lang zh --json {fault}", **plain)
    assert any("\u4e00" <= mark <= "\u9fff" for mark in json.loads(said)["incidents"][0]["summary"])


def test_a_report_that_cannot_be_written_is_bad_usage_and_known_before(tmp_path: Path, fault: Path) -> None:
    assert main(["diagnose", str(fault), "--html", str(tmp_path / "no" / "x.html")]) == 2
    assert "is a folder" in unwritable("--html", tmp_path)
    assert "needs no_such_package" in unwritable("--html", tmp_path / "x", ("no_such_package",))
    assert unwritable("--html", tmp_path / ("x" * 5000))
    assert unwritable("--html", tmp_path / "x") == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--host", "a/b"), ("--host", "?"), ("--host", "~x"), ("--host", ""), ("--timezone", "../../etc/passwd"),
        ("--timezone", "\x1b[31m"), ("--from", "2026-01-01"), ("--topology", "/no/such/file"),
        ("--prometheus", "http://127.0.0.1:1", "--from", "1970-01-01", "--to", "2100-01-01"),
        ("--prometheus", "http://127.0.0.1:1", "--from", "2026-01-02", "--to", "2026-01-01"),
    ],
)  # fmt: skip
def test_odd_arguments_are_bad_usage(
    fault: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(fault), *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("sickbay diagnose: ")
    assert "\x1b" not in told.err


def test_names_in_complaints_do_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "/no\x1b[31m\nsuch\u202efile"]) == 2
    assert main(["diagnose", "--no\x1b[31m"]) == 2
    assert not set("\x1b\u202e") & set(capsys.readouterr().err)


def test_what_was_not_understood_does_not_look_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strange = tmp_path / "strange"
    strange.write_bytes(bytes(range(256)) * 64)
    assert main(["diagnose", str(strange)]) == 3
    assert "says nothing about the health" in capsys.readouterr().out
    (tmp_path / "quiet").write_text("Mar 11 04:17:22 h17 systemd[1]: Started Session 4.\n" * 50)
    assert main(["diagnose", str(tmp_path)]) == 3
    assert "not all of it" in capsys.readouterr().out


class _Odd(BaseHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        what = self.path.split("/")[1]
        if what == "moved":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        body = {"page": b"<html>hello</html>", "null": b'{"data":null}', "deep": b"[" * 100_000}.get(what, b"no")
        self.send_response({"locked": 401, "broken": 500}.get(what, 200))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def odd_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("what", ["page", "null", "deep", "moved", "locked", "broken"])
def test_a_server_that_is_no_prometheus_is_an_input_not_read(
    odd_server: str, what: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    span = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T01:00:00Z"]
    assert main(["diagnose", "--json", "--prometheus", f"{odd_server}/{what}", *span]) == 2
    (row,) = json.loads(capfdbinary.readouterr().out)["inputs"]
    assert (row["kind"], bool(row["note"])) == ("unknown", True)
