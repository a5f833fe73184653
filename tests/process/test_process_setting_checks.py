"""What `up` and `poll` would refuse is said before they begin: one line for each part of the settings, no network."""

import os
import time
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import poll
from collectors.cluster.poll import EXTRAS, sources, wanted
from collectors.inputs.prometheus_api import TOKEN_VARIABLE, authorization
from sickbay.app.running.setting_checks import checks
from sickbay.config import ConfigError, parse, placed
from sickbay.settings import Config

# Each setting by which a secret could go to another machine unencrypted, and the part that must refuse it.
PLAIN = {
    "poll inventory": '[inventory]\nnetbox_url = "http://netbox"\ntoken_file = "secret"',
    "poll facility": '[facility]\nredfish = ["cdu:c1=http://10.0.0.9"]\nuser = "u"\npassword_file = "secret"',
    "poll infiniband": '[fabric]\nmanager_url = "http://ufm"\nmanager_token_file = "secret"',
    "alerts": '[alerts]\nurl = "http://u:p@alerts:9093"',
    "log": '[log]\nengine = "kafka"\nbrokers = "b1:9092"\nsasl = "PLAIN"\nuser = "u"\npassword_file = "secret"',
    "poll kubernetes": '[kubernetes]\nkubeconfig = "kubeconfig"',
}
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://10.0.0.1:6443"}}]
users: [{name: u, user: {token: s3cret}}]
"""
MISSING = {  # what `up` would refuse, and a word of what is said of it
    "poll gnmi": ('[gnmi]\ntargets = ["l1=127.0.0.1:1"]\nuser = "u"\npassword_file = "none"', "password_file"),
    "poll snmp": ('[snmp]\ntargets = ["l1=127.0.0.1"]\ncommunity_file = "none"', "community_file"),
    "poll kubernetes": ('[kubernetes]\nkubeconfig = "none"', "no file"),
    "poll inventory": ('[inventory]\nfiles = ["none.csv"]', "none.csv: No such file"),
    "poll syslog": ('[syslog]\nlisten = "127.0.0.1:5514"', "who may send"),
    "poll facility": ('[facility]\nredfish = ["c1=https://h"]', "is none of"),
    "poll infiniband": ('[fabric]\ndevice = "mlx5_0"\nbin = "none"', "iblinkinfo"),
    "listen": ('[listen]\naddress = "127.0.0.1:9443"', "certificate_file is empty"),
    "signing": ('[security]\nkey_file = "none"', "No such file"),
    "log": ('[log]\nengine = "kafka"\nbrokers = "b1:9092"\ntls = true\nca_file = "none"', "ca_file"),
}


def config(text: str, folder: Path) -> Config:
    return placed(parse(text.encode(), "sickbay.toml"), folder)


@pytest.mark.slow
@pytest.mark.parametrize("part", PLAIN)
def test_no_secret_goes_to_another_machine_unencrypted(tmp_path: Path, part: str) -> None:
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    found = {one.name: one for one in checks(config(PLAIN[part], tmp_path))}
    assert found[part].ok is False
    assert "https only" in found[part].says or "unencrypted" in found[part].says
    assert "s3cret" not in found[part].says


def test_a_token_of_the_environment_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.parse import urlsplit

    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret")
    assert authorization(urlsplit("https://prometheus")) == "Bearer s3cret"
    with pytest.raises(ValueError, match="https only"):
        authorization(urlsplit("http://prometheus:9090"))


@pytest.mark.parametrize("part", MISSING)
def test_what_would_be_refused_is_a_fault_that_says_what(tmp_path: Path, part: str) -> None:
    text, word = MISSING[part]
    found = {one.name: one for one in checks(config(text, tmp_path))}
    assert found[part].ok is False
    assert word in found[part].says
    assert found[part].do


def test_a_part_that_nothing_names_is_not_told(tmp_path: Path) -> None:
    assert checks(config("", tmp_path)) == []


def test_what_can_begin_is_said(tmp_path: Path) -> None:
    (tmp_path / "racks.csv").write_text("host,rack\nn1,r1\n")
    (one,) = checks(config('[inventory]\nfiles = ["' + str(tmp_path / "racks.csv") + '"]', tmp_path))
    assert (one.name, one.ok, one.says) == ("poll inventory", True, "can begin: inventory")


@pytest.mark.slow
def test_a_file_that_does_not_answer_holds_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    began = time.monotonic()
    text = '[facility]\nredfish = ["cdu:c1=https://h"]\nuser = "u"\npassword_file = "pipe"\n[snmp]\ntargets = ["l1=h"]'
    found = {one.name: one for one in checks(config(text, tmp_path), limit_s=0.6)}
    assert time.monotonic() - began < 4.0
    assert "does not return" in found["poll facility"].says
    (tmp_path / "pipe").write_text("")  # lets it go
    assert found["poll snmp"].ok is not None


@pytest.mark.parametrize("name", EXTRAS)
def test_what_is_not_installed_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = EXTRAS[name][1][0]
    monkeypatch.setattr(poll, "find_spec", lambda one: None if one == gone else util.find_spec(one))
    with pytest.raises(ConfigError, match=rf"{name} needs {gone}: pip install 'sickbay\[{EXTRAS[name][0]}\]'"):
        sources([name], Config())


@pytest.mark.parametrize(
    ("settings", "is_wanted"),
    [("", False), ("kubeconfig = 'k'", True), ("namespaces = ['jobs']", True), ("in_pod = true", True)],
)
def test_kubernetes_is_watched_where_the_settings_say_so(tmp_path: Path, settings: str, is_wanted: bool) -> None:
    assert ("kubernetes" in wanted(config(f"[kubernetes]\n{settings}", tmp_path))) is is_wanted


def test_the_extras_are_those_of_the_package() -> None:
    import tomllib

    told: dict[str, Any] = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
    assert {extra for extra, _ in EXTRAS.values()} <= told["project"]["optional-dependencies"].keys()
