"""Settings are typed, and a wrong one is told with file, key and remedy."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.config import MAX_CONFIG, ConfigError, load, parse, settings
from sickbay.settings import Cluster, Config, LogSettings, Report, Windows


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse(b"", "x") == Config()


def test_every_setting_can_be_set(tmp_path: Path) -> None:
    text = """
        [cluster]
        name = "south-1"
        timezone = "Asia/Shanghai"
        [log]
        engine = "memory"
        path = "/var/lib/log"
        max_bytes = 5_000_000
        [windows]
        width_s = 5
        lateness_s = 0
        [report]
        lang = "zh"
    """
    (tmp_path / "sickbay.toml").write_text(text, encoding="utf-8")
    read = load(tmp_path / "sickbay.toml")
    assert read.cluster == Cluster(name="south-1", timezone="Asia/Shanghai")
    assert read.log == LogSettings(engine="memory", path="/var/lib/log", max_bytes=5_000_000)
    assert read.windows == Windows(width_s=5, lateness_s=0)
    assert read.report == Report(lang="zh")


def test_the_defaults_written_down_are_the_defaults() -> None:
    sections: dict[str, list[str]] = {}
    for one in settings():
        if one.default is not None:
            default = list(one.default) if isinstance(one.default, tuple) else one.default
            sections.setdefault(one.section, []).append(f"{one.key} = {json.dumps(default)}")
    text = "\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in sections.items())
    assert parse(text.encode(), "x") == Config()


def test_a_relative_path_counts_from_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "sickbay.toml").write_text('[log]\npath = "log"')
    assert load(tmp_path / "sickbay.toml").log.path == str(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[logs]", r"site\.toml: no section \[logs\]: did you mean log\?"),
        ("xyz = 1", r"no section \[xyz\]; known are cluster, log, "),
        ("log = 3", r"write \[log\] on a line"),
        ("[windows]\nlatenes_s = 3", r"no setting latenes_s in \[windows\]: did you mean lateness_s\?"),
        ("[report]\nxyz = 3", r"no setting xyz in \[report\]; known are lang"),
        ('[log]\nengine = "kafkaesque"', r"\[log\] engine = 'kafkaesque': must be \"memory\", \"sqlite\""),
        ("[windows]\nwidth_s = 0", r"\[windows\] width_s = 0: must be seconds of a window, 1 to 600"),
        ('[windows]\nwidth_s = "10"', r"width_s = '10': must be seconds"),
        ("[windows]\nwidth_s = 1.5", r"width_s = 1.5"),
        ("[windows]\nwidth_s = true", r"width_s = True"),
        ('[cluster]\nname = "South"', r"name = 'South': must be 1 to 63 lower-case"),
        ('[cluster]\ntimezone = "Mars/Olympus"', r"timezone = 'Mars/Olympus': must be an IANA zone"),
        ('[cluster]\ntimezone = "../../etc/passwd"', r"must be an IANA zone"),
        ('[cluster]\ntimezone = " "', r"must be an IANA zone"),
        ("[log]\nmax_bytes = 5", r"max_bytes = 5: must be the greatest size"),
        ('[log]\npath = ""', r"path = '': must be a directory"),
        ('[report]\nlang = "' + "x" * 500 + '"', r"\.\.\.: must be \"en\" or \"zh\""),
        ("[log", r"site\.toml: not TOML: .*end of document"),
        ("a = 1\na = 2", "not TOML"),
    ],
)
def test_an_error_names_file_key_and_remedy(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(text.encode(), "site.toml")
    assert str(caught.value).startswith("site.toml: ")
    assert len(str(caught.value)) < 400


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="directory"):
        load(tmp_path)
    (tmp_path / "huge.toml").write_bytes(b"#" * (MAX_CONFIG + 1))
    with pytest.raises(ConfigError, match="larger than"):
        load(tmp_path / "huge.toml")


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_do_more_than_a_config_error(raw: bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse(raw, "x")


def test_deep_nesting_is_an_error_only() -> None:
    for text in (b"a=" + b"[" * 5000 + b"]" * 5000, b"[a" + b".a" * 5000 + b"]"):
        with pytest.raises(ConfigError):
            parse(text, "x")


def test_every_setting_says_what_is_right_for_it() -> None:
    rows = settings()
    assert list(dict.fromkeys(row.section for row in rows)) == list(Config.__struct_fields__)
    assert all(row.right for row in rows)
    assert ("windows", "width_s", 10) in [row[:3] for row in rows]
