"""The nights' files: every one loads, refuses what it does not know, is written and read the same; and runs."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks import nights
from remediation.verbs import verbs
from simulator.scenario_file import load, made_of, read, truth_of
from simulator.scenario_keys import At, Cluster, Job, Night, RightKeys, convert, dump

FILES = nights.files()
BY_NUMBER = {int(path.name[:2]): path for path in FILES}


def test_there_are_all_nights() -> None:
    assert sorted(BY_NUMBER) == list(range(1, 45))
    assert all(read(path).night == number for number, path in BY_NUMBER.items())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_night_loads_and_knows_what_is_right(path: Path) -> None:
    told, made = read(path), load(path, seed=3)
    truth = truth_of(told, made)
    assert told.title
    assert told.shows
    assert told.tier in (1, 2, 3)
    assert truth.bans, "a night that forbids nothing"
    wanted = [step.do for right in truth.rights for step in right.plan]
    assert {*wanted, *(ban.do for ban in truth.bans)} <= set(verbs())
    assert not truth.exonerated & {one for right in truth.rights for one in right.components}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_night_is_written_and_read_the_same(path: Path, tmp_path: Path) -> None:
    told = read(path)
    copy = tmp_path / path.name
    copy.write_text(dump(told), encoding="utf-8")
    assert read(copy) == told
    assert dump(read(copy)) == dump(told)


@pytest.mark.parametrize("seed", [1, 2])
def test_names_come_from_the_seed(seed: int) -> None:
    made = load(BY_NUMBER[1], seed=seed)
    assert "h17" not in made.cluster.hosts
    assert made.recipes[-1][1]["card"] == made.cluster.of(made.cluster.hosts[2])[3]


WRONG = {
    "nonsense = 1": "nonsense.*allowed|no such key or word: nonsense.*one of.*title",
    "seconds = 0": "seconds: 1 to",
    "[cluster]\nhosts = 0": "hosts: 0 is not 1",
    "[cluster]\ncolour = 1": r"\[cluster\].*colour.*one of build",
    "[cluster]\nbuild = { colour = 1 }": r"\[cluster\].*colour.*hosts_per_leaf",
    "[[job]]\nhosts = 'h99'": "no such host: h99; one of h1",
    "[[job]]\nhosts = 'h1'\nwith = { colour = 1 }": r"\[\[job\]\] 1.*colour.*timeout_s",
    "[[at]]\ns = 5\nfault = 'bad_luck'": r"\[\[at\]\] 1 \(s = 5\).*bad_luck.*accelerator_off_bus",
    "[[at]]\ns = 5": r"\[\[at\]\] 1 \(s = 5\): one of fault",
    "[[at]]\ns = 5\nfault = 'accelerator_off_bus'\non = 'h1/99'": "no such card: h1/99; written h1/0 to /7",
    "[[at]]\ns = 5\nfault = 'accelerator_off_bus'\nwith = { colour = 1 }": "colour; one of burst, coded",
    "[[at]]\ns = 5\nreading = 'host.colour'\non = 'h1'": "colour; one of",
    "[[at]]\ns = 900\nact = 'late'": r"\[\[at\]\] s: 0 to 599, not 900",
    "[[right]]\nverdicts = ['guilty']": "guilty; one of component, job",
    "[[right]]\nverdicts = ['job']\nfaults = ['bad_luck']": "bad_luck; one of",
    "[[duty]]\nstage = 'dream'\nsays = ''": "dream; one of alerting",
    "noise = 'loud'": "no such preset: loud; one of none",
    "title = ]": "title|Invalid",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_what_is_allowed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text if text.startswith("title") else f"title = 'wrong'\n{text}\n", encoding="utf-8")
    if not text.startswith(("title", "[", "noise")):
        path.write_text(f"title = 'wrong'\n{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"(?s)^wrong\.toml: .*(?:{WRONG[text]})"):
        load(path)


texts = st.text(max_size=20)
scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), texts)
entries = st.builds(At, s=st.integers(0, 599), on=texts, act=texts, more=st.dictionaries(texts, scalars, max_size=3))
whole = st.builds(
    Night, title=texts, shows=texts, wants=st.lists(texts, max_size=2), page=st.none() | st.booleans(),
    noise=st.dictionaries(texts, st.floats(0, 5), max_size=2),
    cluster=st.builds(Cluster, hosts=st.integers(1, 9), build=st.dictionaries(texts, scalars, max_size=2)),
    job=st.lists(st.builds(Job, hosts=texts, no_stop_until_s=st.none() | st.integers(0, 99)), max_size=2),
    at=st.lists(entries, max_size=3),
    right=st.lists(st.builds(RightKeys, verdicts=st.just(["job"]), by_s=st.none() | st.integers(0, 99)), max_size=2),
)  # fmt: skip


@given(whole)
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_whatever_is_written_is_read_the_same(told: Night) -> None:
    import tomllib

    assert convert(tomllib.loads(dump(told))) == told


@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)))
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_a_hostile_table_is_refused_and_nothing_else(value: object) -> None:
    for key in ("cluster", "job", "at", "right", "forbidden", "noise", "exonerate"):
        with suppress(ValueError, KeyError, TypeError):
            made_of(convert({"title": "x", key: value}), 0)
