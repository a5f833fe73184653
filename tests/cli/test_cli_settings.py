"""Settings of a command: the file that is named, and the one environment variable that processes of a host need."""

from pathlib import Path

import pytest

from sickbay.cli import main
from sickbay.commands.settings import LISTEN, settings_of
from sickbay.config import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sickbay.toml"
    path.write_text('[metrics]\nlisten = "127.0.0.1:1"\n')
    return path


def test_each_process_may_listen_on_a_port_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of(file).metrics.listen == "127.0.0.1:1"
    monkeypatch.setenv(LISTEN, "127.0.0.1:2")
    assert settings_of(file).metrics.listen == "127.0.0.1:2"
    monkeypatch.setenv(LISTEN, "")
    assert settings_of(file).metrics.listen == ""


def test_a_wrong_address_is_refused_by_the_variables_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LISTEN, "everywhere")
    with pytest.raises(ConfigError, match="SICKBAY_LISTEN = 'everywhere': must be host:port"):
        settings_of(file)


def test_a_command_asked_for_help_tells_all_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    main(["process", "--help"])
    assert "SICKBAY_MEMBER" in capsys.readouterr().out
    main(["--help"])
    assert "SICKBAY_MEMBER" not in capsys.readouterr().out
