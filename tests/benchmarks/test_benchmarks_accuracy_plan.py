"""The plan of windows, the guard of the test split, and the file of finished windows."""

from pathlib import Path

import pytest

from benchmarks import accuracy
from benchmarks.accuracy import docs, quick, report, sanity, settings, soak
from benchmarks.accuracy.cases import available, mix_of, plan
from benchmarks.accuracy.mixes import mix
from benchmarks.accuracy.outcomes import Result, Truth
from benchmarks.accuracy.running import Results
from benchmarks.accuracy.tuning import chosen
from sickbay.vocabulary import faults

SETTINGS = settings.load()


def result(place: int = 0) -> Result:
    case = plan(SETTINGS, "equal", "tune", 4)[place]
    return Result(key=case.key, case=case, truth=Truth(), hosts=("h1",), steps_s=(), words=())


def test_the_plan_follows_from_the_settings_alone() -> None:
    first, again = plan(SETTINGS, "machine", "tune", 30), plan(SETTINGS, "machine", "tune", 30)
    assert first == again
    assert len({case.key for case in first}) == len(first)
    assert sum(case.sort == "fault" for case in first) == 30


def test_a_larger_plan_holds_the_smaller_one() -> None:
    small, large = plan(SETTINGS, "equal", "tune", 10), plan(SETTINGS, "equal", "tune", 40)
    assert {case.key for case in small} <= {case.key for case in large}


def test_fault_free_windows_are_shared_between_mixes() -> None:
    calm = [
        {case.key for case in plan(SETTINGS, name, "test", 40) if case.sort == "calm"} for name in ("machine", "equal")
    ]
    assert calm[0] == calm[1] != set()


def test_splits_share_no_seed_and_held_out_classes_and_sizes_are_in_the_test_split_only() -> None:
    tune, test = plan(SETTINGS, "equal", "tune", 300), plan(SETTINGS, "equal", "test", 300)
    assert not {case.seed for case in tune} & {case.seed for case in test}
    held = set(SETTINGS["splits"]["held_out_faults"])
    assert not held & {case.effect for case in tune}
    assert held & {case.effect for case in test}
    sizes = set(SETTINGS["splits"]["held_out_hosts"])
    assert not sizes & {case.hosts for case in tune}
    assert sizes & {case.hosts for case in test}
    assert sorted(case.hosts for case in test)[len(test) // 2] == 16


def test_onsets_and_sizes_are_those_of_the_settings() -> None:
    for case in plan(SETTINGS, "equal", "tune", 100):
        assert 120 <= case.at_s <= 300
        assert 4 <= case.hosts <= 64
        assert case.until_s == 480


@pytest.mark.parametrize("name", sorted(SETTINGS["mixes"]))
def test_shares_of_a_mix_sum_to_one_over_classes_that_there_are(name: str) -> None:
    found = mix_of(SETTINGS, name, "test")
    assert sum(found.shares.values()) == pytest.approx(1)
    assert set(found.shares) <= set(available(SETTINGS, "test"))
    assert found.source


def test_a_category_without_a_class_is_told() -> None:
    table = {"source": "s", "shares": {"a": 30, "b": 70}, "classes": {"a": ["x", "y"], "b": ["z"]}}
    found = mix("m", table, ["x", "y"])
    assert found.shares == {"x": 0.5, "y": 0.5}
    assert found.without == pytest.approx(0.7)
    with pytest.raises(ValueError, match="none"):
        mix("m", table, [])


def test_published_counts_are_those_of_the_papers() -> None:
    assert sum(SETTINGS["mixes"]["cluster_16384"]["shares"].values()) == 419
    shares = SETTINGS["mixes"]["machine"]["shares"]
    assert sum(shares.values()) == pytest.approx(100, abs=0.11)
    for one in SETTINGS["mixes"].values():
        assert set(one.get("classes", {})) == set(one.get("shares", {}))


def test_classes_of_the_mixes_are_words_of_the_simulator_or_of_the_vocabulary() -> None:
    known = set(available(SETTINGS, "test")) | set(faults())
    for name, table in SETTINGS["mixes"].items():
        told = {one for classes in table.get("classes", {}).values() for one in classes}
        assert told <= known, name


def test_a_changed_setting_closes_the_test_split(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.toml"
    path.write_text('# all above `[frozen]`\n[windows]\nseconds = 480\n\n[frozen]\ndigest = ""\n', encoding="utf-8")
    with pytest.raises(settings.Unfrozen):
        settings.load(path).check()
    settings.freeze({"rules": 3}, "chosen on 10 windows", path)
    opened = settings.load(path)
    opened.check()
    assert opened.chosen("rules") == 3
    assert opened.chosen("robust_z") is None
    assert opened["windows"]["seconds"] == 480
    settings.freeze({"rules": 4}, "again", path)
    assert settings.load(path).digest == opened.digest
    path.write_text(path.read_text(encoding="utf-8").replace("480", "481"), encoding="utf-8")
    with pytest.raises(settings.Unfrozen):
        settings.load(path).check()


def test_the_settings_of_the_repository_are_frozen() -> None:
    SETTINGS.check()


def test_finished_windows_are_read_again_and_a_cut_line_is_passed_over(tmp_path: Path) -> None:
    path, one, two = tmp_path / "r.jsonl", result(0), result(1)
    results = Results(path, "code-1")
    results.add(one)
    path.write_bytes(path.read_bytes() + b'{"code":"code-1","resu')
    results.add(two)
    assert results.read() == {one.key: one, two.key: two}
    assert Results(path, "code-2").read() == {}
    assert len(Results(path, "code-2", any_code=True).read()) == 2


def test_of_equal_settings_the_first_is_chosen() -> None:
    assert chosen([result()], {"rules": range(8)}) == {"rules": 0}


def test_a_pinned_figure_that_leaves_its_interval_fails(tmp_path: Path) -> None:
    figures = {key: [0.9, 0.8, 0.95, 30] for key in quick.PINNED} | {"decoy_holds": 0, "forbidden": 0}
    quick.pin(figures, tmp_path / "pins.json")
    pinned = {key: [0.8, 0.95] for key in quick.PINNED} | {"decoy_holds": [0.0, 0.0], "forbidden": [0.0, 0.0]}
    assert quick.failures(figures, pinned) == []
    worse = figures | {"machine_recall": [0.7, 0.5, 0.8, 30], "decoy_holds": 1}
    assert len(quick.failures(worse, pinned)) == 2
    assert len(quick.failures(figures | {"machine_precision": None}, pinned)) == 1


def test_a_result_goes_between_its_marks_and_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "accuracy.md"
    page.write_text(f"before\n{docs.BEGIN}\nthe last one\n{docs.END}\nafter\n", encoding="utf-8")
    done = [result(place) for place in range(4)]
    systems = report.figures(done, {"rules": 0}, SETTINGS["windows"]["within_s"])
    told = accuracy.told(SETTINGS, "equal", "tune", done, systems, {"rules": 0}, 1.0)
    told["sanity"] = sanity.as_dict(sanity.checks(done, systems))
    docs.write(told, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| `rules` |" in text
    assert "the last one" not in text
    docs.write(told, page)
    assert page.read_text(encoding="utf-8") == text
    assert "rules" in report.table(systems)


def test_soaked_windows_are_numbered() -> None:
    assert soak.case_of(3) == soak.case_of(3)
    assert soak.case_of(3).key != soak.case_of(4).key
    assert soak.case_of(3).interval_s == 10


def test_a_soak_bounds_rates_by_its_exposure() -> None:
    case = soak.case_of(0)
    calm = Result(key=case.key, case=case, truth=Truth(), hosts=tuple(f"h{n}" for n in range(64)), steps_s=(), words=())
    found = soak.told([calm, calm, calm], 1.0)
    assert found["node_days"] == 8.0
    assert found["false_holds_per_1000_node_days"] == 0
    assert found["false_holds_per_1000_node_days_upper"] == pytest.approx(2.9957 / 8 * 1000, rel=1e-3)
    assert found["conditions"]["node_days_left"]["0.1 per 1,000"] == 29_992
