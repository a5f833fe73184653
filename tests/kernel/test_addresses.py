"""Addresses of HTTP services as people write them."""

from urllib.parse import urlsplit
from urllib.request import ProxyHandler

import pytest

from sickbay.addresses import base_of, basic, guarded, is_loopback, opener


@pytest.mark.parametrize(
    ("url", "base", "header"),
    [
        ("http://127.0.0.1:9090", "http://127.0.0.1:9090", ""),
        ("https://me:a%40b@host:9090/prom/", "https://host:9090/prom", "Basic bWU6YUBi"),
        ("http://me@[::1]:9093", "http://[::1]:9093", "Basic bWU6"),
    ],
)
def test_a_user_is_taken_out_of_an_address(url: str, base: str, header: str) -> None:
    assert base_of(urlsplit(url)) == base
    assert basic(urlsplit(url)) == header


@pytest.mark.parametrize("url", ["https://host", "http://127.0.0.1:9", "http://localhost/x", "http://[::1]:9"])
def test_a_secret_goes_where_nobody_reads_it(url: str) -> None:
    assert guarded(url, "s3cret") == "s3cret"


@pytest.mark.parametrize(
    "url", ["http://host:9090/x", "http://10.0.0.1", "http://me:s3cret@host", "ftp://host", "host"]
)
def test_a_secret_goes_nowhere_else_and_the_refusal_does_not_tell_it(url: str) -> None:
    assert guarded(url, "") == ""
    with pytest.raises(ValueError, match="https only") as refused:
        guarded(url, "s3cret")
    assert "s3cret" not in str(refused.value)


def test_only_this_machine_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    for host, own in (("127.0.0.2", True), ("localhost", True), ("::1", True), ("10.0.0.1", False), ("host", False)):
        assert is_loopback(host) is own
        url = f"http://[{host}]:1/" if ":" in host else f"http://{host}:1/"
        proxied = [one for one in vars(opener(urlsplit(url)))["handlers"] if isinstance(one, ProxyHandler)]
        assert not proxied if own else proxied
