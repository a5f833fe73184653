"""What a listener stands on: bounded connections, and a certificate that is renewed while it runs."""

import resource
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sickbay.app.listening import listen_server, listen_sockets
from sickbay.app.listening.listen_sockets import Certificate, ends_ms, most_connections
from sickbay.commands.up import listening_at
from sickbay.config import ConfigError
from sickbay.settings import Config
from sickbay.source_settings import Listen
from tests.listen.listen_kit import CERTIFICATE, certified, config, site
from tests.services.process import found

DAY_MS = 86_400_000


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.slow
def test_whoever_says_nothing_takes_no_place_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen_server, "HEAD_S", 0.5)
    monkeypatch.setattr(listen_sockets, "CONNECTIONS", 100)
    monkeypatch.setattr(listen_sockets, "LEAST", 10)
    with site(tmp_path) as one:
        silent = [connected(one.listener.address) for _ in range(60)]
        time.sleep(0.2)
        ended = 0
        for held in silent:
            held.setblocking(False)
            with suppress(BlockingIOError, ConnectionResetError):
                held.recv(1)
                ended += 1
        assert ended <= 35  # at least a fourth of all places were one address's
        with pytest.raises(OSError):  # noqa: PT011 (reset or end, as the system tells it)
            one.post("/healthz", b"", method="GET")
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(OSError):
                assert one.post("/healthz", b"", method="GET").status == 200
                break
            time.sleep(0.1)
        assert time.monotonic() < until
        for held in silent:
            held.close()


def test_the_process_keeps_files_for_itself() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        assert most_connections() == 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def serial(address: str) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(connected(address)) as made:
        return made.getpeercert(True) or b""


def test_a_renewed_certificate_is_shown_and_half_of_a_pair_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen_sockets, "LOOK_S", 0.0)
    with site(tmp_path) as one:
        first = serial(one.listener.address)
        key = (tmp_path / "server.key").read_bytes()
        certified(tmp_path)
        other = (tmp_path / "server.key").read_bytes()
        (tmp_path / "server.key").write_bytes(key)  # the certificate is new, the key is not there yet
        one.listener.step(0)
        assert serial(one.listener.address) == first
        assert "stays as it was" in one.said[-1]
        (tmp_path / "server.key").write_bytes(other)
        one.listener.step(0)
        assert serial(one.listener.address) != first
        assert "read anew" in one.said[-1]
        count = len(one.said)
        one.listener.step(0)
        assert len(one.said) == count


def test_a_certificate_that_ends_is_told(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        now_ms = round(time.time() * 1000)
        one.listener.step(now_ms)
        assert "renew it" in one.said[-1]  # the kit's lasts for two days
        assert one.listener.waiting == ""
        one.listener.step(now_ms + 3 * DAY_MS)
        assert "ended at" in one.listener.waiting


@pytest.mark.parametrize("days", [2, 40 * 365])
def test_the_end_of_a_certificate_is_read(tmp_path: Path, days: int) -> None:
    openssl, *_ = found("openssl")
    made = [str(days) if before == "-days" else word for before, word in zip(("", *CERTIFICATE), CERTIFICATE)]  # noqa: B905
    subprocess.run([openssl, *made], cwd=tmp_path, check=True, capture_output=True, timeout=30)
    told = ends_ms(str(tmp_path / "server.crt"))
    assert told is not None
    assert abs(told - (time.time() * 1000 + days * DAY_MS)) < DAY_MS
    (tmp_path / "none").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert ends_ms(str(tmp_path / "none")) is None
    assert ends_ms(str(tmp_path / "nowhere")) is None
    with pytest.raises(ConfigError):
        Certificate(Listen(certificate_file=str(tmp_path / "none"), private_key_file=""), print)


def test_old_tls_is_not_spoken(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        plain = connected(one.listener.address)
        with plain, pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(plain)


@pytest.mark.slow
def test_one_token_s_flood_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen_server, "BYTES", 4 << 20)
    settings = config(tmp_path, max_bytes=1 << 20)
    with site(tmp_path, settings=settings) as one:
        context = ssl.create_default_context(cafile=one.ca_file)
        slow = []
        for _ in range(5):  # bodies that were begun and do not end
            made = context.wrap_socket(connected(one.listener.address), server_hostname="127.0.0.1")
            made.sendall(
                b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 1048576\r\n\r\nx"
            )
            slow.append(made)
        time.sleep(0.3)
        assert one.post("/v1/changes", b"[]").status == 503
        assert one.write([], token="one").status == 204
        for made in slow:
            made.close()


def test_listen_without_an_address_is_that_of_the_settings() -> None:
    told = Config(listen=Listen(address="127.0.0.1:9443"))
    assert listening_at(told, True).listen.address == "127.0.0.1:9443"
    assert listening_at(told, False).listen.address == "127.0.0.1:9443"
    assert listening_at(told, "0.0.0.0:1").listen.address == "0.0.0.0:1"
    with pytest.raises(ConfigError, match="address is empty"):
        listening_at(Config(), True)
    with pytest.raises(ConfigError, match="HOST:PORT"):
        listening_at(told, "nonsense")
