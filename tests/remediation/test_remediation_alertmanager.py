"""The text of alerts: few bounded labels, harmless text, one alert a root cause, an end when it is over."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from collectors.agent import alarms
from remediation.notify import alertmanager
from remediation.notify.alertmanager import MAX_LABEL, MAX_LINE, MAX_LINES, MAX_SUMMARY
from remediation.notify.standing import Standing, Story, held, stands
from sickbay.actions import Action, ActionState, Judged
from sickbay.clock import rfc3339
from sickbay.messages import Action as Headline
from sickbay.messages import Event, Incident, Severity, Verdict, replace
from sickbay.plain import harmless
from tests.remediation.alerts_kit import CARD, T0, action, claim, incident

NOW = T0 + 10_000


def told(one: Incident, *actions: Action, now_ms: int = NOW) -> dict[str, Any]:
    return alertmanager.alert(Story(one, actions), "c1", now_ms, 30.0)


def test_an_alert_says_what_people_need() -> None:
    alert = told(incident(), action())
    assert alert["labels"] == {
        "alertname": "SickbayIncident", "cluster": "c1", "incident": "e1", "verdict": "component",
        "fault": "accelerator_off_bus", "severity": "fatal", "component": CARD, "host": "n2",
    }  # fmt: skip
    notes = alert["annotations"]
    assert "has fallen off the bus" in notes["summary"]
    assert notes["plan"] == "drain_host host:n2 (now, asks first)"
    assert notes["probability"] == "0.97"
    assert "kern.log:12" in notes["evidence"]
    assert notes["actions"] == "drain_host host:n2: verified"
    assert notes["more"] == "sickbay report e1"
    assert notes["jobs"] == "41"
    assert alert["startsAt"] == rfc3339(T0)
    assert alert["endsAt"] == rfc3339(NOW + 90_000)


def test_its_end_has_the_same_labels_and_is_now() -> None:
    alert = told(incident())
    over = alertmanager.resolved(alert, NOW + 5000)
    assert alertmanager.identity(over) == alertmanager.identity(alert)
    assert over["endsAt"] == rfc3339(NOW + 5000)
    assert over["startsAt"] == alert["startsAt"]


@pytest.mark.parametrize(("onset", "detected", "starts"), [(None, T0, T0), (None, None, NOW), (NOW + 9, None, NOW)])
def test_an_alert_never_starts_after_now(onset: int | None, detected: int | None, starts: int) -> None:
    alert = told(incident(onset_ms=onset, detected_ms=detected))
    assert alert["startsAt"] == rfc3339(starts)
    over = alertmanager.resolved(alert, NOW - 60_000)  # our clock was set back
    assert over["startsAt"] <= over["endsAt"]


def test_what_is_only_watched_is_info() -> None:
    assert told(incident(action=Headline.WATCH))["labels"]["severity"] == "info"
    assert told(incident(severity=Severity.ERROR))["labels"]["severity"] == "error"


def test_a_component_without_host_has_no_host_label() -> None:
    for component in ("job:41", "link:a~b", "rank:41/3", "accelerator:?/0000:cb:00", "no name at all"):
        assert "host" not in told(incident(component=component))["labels"], component


HOSTILE = (
    "{{ .ExternalURL }}{{template \"x\"}}{{{a}}}", "{%for%}", "<!channel> <http://x|y>", "a\x00b\x1b[31m\nc",
    "\u202egnp", "lone \ud800 half", "x" * 10_000, "{" * 500,
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_cut_and_does_nothing(text: str) -> None:
    hostile = incident(
        component=f"accelerator:n2/{text}",
        summary=text,
        evidence=(claim(says=text, facts={"message": text}),) * 40,
        plan=incident().plan * 40,
    )
    alert = told(hostile, action(reason=text[:4000].encode(errors="replace").decode()))
    _lawful(alert)


@given(text=st.text(max_size=300))
def test_any_text_is_harmless(text: str) -> None:
    line = harmless(text, 100)
    assert len(line) <= 100
    assert not re.search(r"\{\{|\}\}|\{%|%\}|[<>\x00-\x1f\u202e\ud800-\udfff]", line)
    line.encode()
    _lawful(told(incident(summary=text, component=f"host:{text}")))


def _lawful(alert: dict[str, Any]) -> None:
    text = json.dumps(alert, ensure_ascii=False)
    text.encode()
    for part in (*alert["labels"].values(), *alert["annotations"].values()):
        assert "{{" not in part
        assert "{%" not in part
        assert not set(part) & set("<>\x00\x1b\u202e")
    assert len(alert["labels"]) <= 8
    assert all(0 < len(value) <= MAX_LABEL for value in alert["labels"].values())
    assert len(alert["annotations"]["summary"]) <= MAX_SUMMARY
    assert all(len(value) <= (MAX_LINE + 1) * (MAX_LINES + 1) for value in alert["annotations"].values())


def test_ours_that_nobody_wants_are_ended_and_others_left_alone() -> None:
    mine = told(incident(id="gone"))
    other_cluster = alertmanager.alert(Story(incident(id="gone")), "c2", NOW, 30.0)
    foreign = {"labels": {"alertname": "HostDown", "cluster": "c1"}, "startsAt": rfc3339(T0)}
    kept = told(incident())
    ends = alertmanager.strays([mine, other_cluster, foreign, kept, {"labels": 3}], [kept], "c1", NOW)
    assert [one["labels"]["incident"] for one in ends] == ["gone"]
    assert ends[0]["endsAt"] == rfc3339(NOW)


# ---- what stands -------------------------------------------------------------------------------------------------


def story(one: Incident, *actions: Action) -> Story:
    """As the fold tells it."""
    standing = Standing()
    told: list[Incident | Action] = [*actions, one]
    for message in told:
        standing.take(message.id.encode(), message, NOW)
    return next(standing.stories())


RELEASE = action("release", at_ms=T0 + 60_000)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (story(incident()), True),
        (story(incident(state="closed")), False),
        (story(incident(), action()), True),
        (story(incident(), action(), RELEASE), False),
        (story(incident(state="closed"), action()), True),  # held, and nobody would know
        (story(incident(state="closed"), action(), RELEASE), False),
        (story(incident(state="closed"), action(co_hold=True)), False),  # whoever holds it knows
        (story(incident(), action(state=ActionState.UNDONE), RELEASE), False),  # a hold that ended is undone
        (story(incident(state="closed"), action(state=ActionState.SHOWN)), False),
        (story(incident(), action(state=ActionState.SHOWN)), True),
        (story(incident(), action(state=ActionState.UNDONE)), True),
        (story(incident(), action(), action("release", state=ActionState.WAITING)), True),
        (story(incident(), action(), action("release", state=ActionState.REFUSED)), True),
        (story(incident(), action(generation=2), RELEASE), True),  # held again
        (story(incident(), action(), action(id="b", target="host:n3", state=ActionState.REFUSED), RELEASE), True),
        (story(incident(evidence=(claim(end_ms=T0 + 90_000),)), action(), RELEASE), True),  # seen again since
    ],
)
def test_an_incident_stands_until_it_is_closed_or_all_it_held_is_released(what: Story, expected: bool) -> None:
    assert stands(what) is expected


def test_one_page_for_one_root_cause() -> None:
    standing = Standing()
    standing.take(b"e1", incident(), NOW)
    standing.take(b"e2", incident(id="e2"), NOW)
    assert [one.incident.id for one in standing.worth_telling()] == ["e1", "e2"]
    standing.take(b"a", action(incident="e2"), NOW)
    standing.take(b"e2", incident(id="e2", state="merged", merged_into="e1"), NOW)
    (only,) = standing.worth_telling()
    assert only.incident.id == "e1"
    assert [one.target for one in held(only.actions)] == ["host:n2"]  # it went along
    standing.take(b"e1", None, NOW)
    assert standing.worth_telling() == ()


def test_merges_in_a_ring_end() -> None:
    standing = Standing()
    standing.take(b"a", action(), NOW)
    standing.take(b"e1", incident(state="merged", merged_into="e2"), NOW)
    standing.take(b"e2", incident(id="e2", state="merged", merged_into="e1"), NOW)
    assert standing.worth_telling() == ()


def test_what_needs_no_doing_is_never_told() -> None:
    standing = Standing()
    standing.take(b"e1", incident(action=Headline.IGNORE, verdict=Verdict.MAINTENANCE), NOW)
    assert standing.worth_telling() == ()


def test_a_heartbeat_from_the_future_counts_as_now() -> None:
    standing = Standing()
    assert not standing.take(b"judged", Judged(as_of_ms=NOW + 3_600_000), NOW)
    assert standing.judged_ms == NOW
    standing.take(b"judged", Judged(as_of_ms=NOW - 5000), NOW + 1)  # an older process: never back
    assert standing.judged_ms == NOW


def test_the_fold_gives_the_same_whatever_the_order_of_topics() -> None:
    records: list[Incident | Action] = [incident(), action(), RELEASE, replace(incident(id="e3"), component="host:n9")]
    for turn in range(4):
        standing = Standing()
        for one in records[turn:] + records[:turn]:
            standing.take(one.id.encode(), one, NOW)
        assert [one.incident.id for one in standing.worth_telling()] == ["e3"]


def test_the_incident_of_a_part_takes_the_place_of_what_its_agent_told_by_itself() -> None:
    direct = alarms.alert(
        Event(component=CARD, kind="accelerator.off_bus", severity=Severity.FATAL),
        alarms.Target("", 60.0, "n2", "c1"),
        NOW,
        99.0,
    )
    (rule,) = yaml.safe_load(Path("deploy/alertmanager.yml").read_text(encoding="utf-8"))["inhibit_rules"]
    assert rule["target_matchers"] == [f'alertname="{direct["labels"]["alertname"]}"']
    assert [direct["labels"][name] for name in rule["equal"]] == [
        told(incident())["labels"][name] for name in rule["equal"]
    ]
    assert direct["labels"] != told(incident())["labels"]
