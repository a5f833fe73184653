"""Anatomy of an incident: the source of the notebook of this name (see build.py)."""

# %% [markdown]
# # Anatomy of an incident
#
# One incident from its first sign to its end, as the archive tells it. Set `SICKBAY_ARCHIVE` to the folder of
# `[archive] path`, and `SICKBAY_INCIDENT` to an incident's id; without one, the newest incident is taken.

# %%
import json
import os
from pathlib import Path

import polars as pl
from IPython.display import HTML, display

from dashboards.pictures import Plot, picture
from dashboards.timeline import cost, timeline
from sickbay.actions import Action, Outcome
from sickbay.clock import rfc3339
from sickbay.components import host_of
from sickbay.history import History, told
from sickbay.messages import Event, Incident, Placement

history = History(Path(os.environ.get("SICKBAY_ARCHIVE", "archive")))
known = history.incidents().select("id", "component", "fault", "state", "time").sort("time").collect()
assert known.height, "this archive holds no incident"
chosen = os.environ.get("SICKBAY_INCIDENT") or known["id"][-1]
incident = history.incident(chosen)
display(known)

# %% [markdown]
# ## What is said
#
# The verdict, in its newest state. A probability below one is not decoration: the rest is "something else".

# %%
said = {
    "incident": incident.id,
    "verdict": incident.verdict,
    "component": incident.component,
    "fault": incident.fault,
    "probability": round(incident.probability, 3),
    "action": incident.action,
    "onset": rfc3339(incident.onset_ms),
    "detected": rfc3339(incident.detected_ms),
    "state": incident.state,
    "summary": incident.summary,
}
display(pl.DataFrame({"what": list(said), "is": [str(value) for value in said.values()]}))

# %% [markdown]
# ## Time line
#
# What the suspect's host told, what was claimed, what was done, and what became of the job, in the order in which it
# happened. `after_s` counts from the onset.

# %%
ledger = told(history.scan("actions").filter(pl.col("incident") == incident.id).sort("offset"), Action)
states = told(history.scan("incidents").filter(pl.col("id") == incident.id).sort("offset"), Incident)
tests = told(history.scan("outcomes").filter(pl.col("incident") == incident.id).sort("offset"), Outcome)
placements = told(
    history.scan("placements").filter(pl.col("job").is_in(incident.affected.jobs)).sort("offset"), Placement
)

onset_ms = incident.onset_ms or incident.detected_ms or states[0].append_ms
last_ms = max([onset_ms, incident.detected_ms or 0, *(change.message.at_ms or 0 for change in ledger)])
since, until = onset_ms - 120_000, last_ms + 120_000
host = host_of(incident.component) or ""
named = [incident.component, *incident.dependants, *incident.affected.components]
rows = history.events(since, until).filter(
    pl.col("component").is_in(named) | (pl.col("sender") == host) | (pl.col("host") == host),
    pl.col("severity") != "info",
)
events = told(rows.sort("time"), Event)
claimed = dict(history.evidence().select("id", "append_ms").collect().iter_rows())
moments = timeline(states, ledger, tests, events=events, evidence=claimed, placements=placements)
story = pl.DataFrame(
    {
        "at": [rfc3339(row.at_ms) for row in moments],
        "after_s": [(row.at_ms - onset_ms) / 1000 for row in moments],
        "what": [row.what for row in moments],
        "told": [row.detail for row in moments],
    }
)
with pl.Config(tbl_rows=80, fmt_str_lengths=120):
    display(story)

# %% [markdown]
# ## The suspect against its peers
#
# Windows of ten seconds. The line is the suspect, or the parts of the suspect's host; the band is what most
# accelerators of the same jobs stay within. Where the line ends, the part went silent while its peers went on.

# %%
features = history.features("accelerator", onset_ms - 300_000, until).sort("end_ms").collect()
seen = features["component"].unique().to_list()
mine = [name for name in seen if name == incident.component] or [name for name in seen if host_of(name) == host]
ranked = {place.component for attempt in placements for place in attempt.message.ranks}
peers = [name for name in seen if name not in mine and (name in ranked or not ranked & set(seen))]


def compared(column: str, title: str, unit: str) -> Plot | None:
    """The suspect's values and the band of its peers, window by window; None where nobody measured."""
    if column not in features.columns or not mine or not peers:
        return None
    value = pl.col(column)
    band = features.filter(pl.col("component").is_in(peers)).group_by("end_ms").agg(
        middle=value.median(), low=value.quantile(0.1), high=value.quantile(0.9)
    )  # fmt: skip
    own = features.filter(pl.col("component").is_in(mine)).group_by("end_ms").agg(suspect=value.median())
    rows = band.join(own, on="end_ms", how="left").sort("end_ms").fill_null(float("nan"))
    lines = {name: rows[name].to_list() for name in ("suspect", "middle", "low", "high")}
    return Plot(incident.id, title, unit, rows["end_ms"].to_list(), **lines,
                onset_ms=onset_ms, detected_ms=incident.detected_ms)  # fmt: skip


shown = [
    compared("power_watts", "board power", "W"),
    compared("matrix_active_ratio", "matrix units active", "ratio"),
]
words = {"onset": "onset", "detected": "detected"}
drawn = [f"<h4>{plot.title}</h4>{picture(plot, words)}" for plot in shown if plot is not None]
display(HTML("".join(drawn) or "<p>No accelerator of this host or job was measured in these minutes.</p>"))

# %% [markdown]
# ## Evidence
#
# Each row is one detector's claim. `llr` is the logarithm of how much likelier the fault makes what was seen; rows of
# the same `source_group` are one physical fact and count once. Rows with `for` false speak against the verdict.

# %%
claims = [(one, True) for one in incident.evidence] + [(one, False) for one in incident.against]
evidence = pl.DataFrame(
    {
        "for": [good for _, good in claims],
        "detector": [one.detector for one, _ in claims],
        "component": [one.component for one, _ in claims],
        "llr": [one.llr for one, _ in claims],
        "source_group": [one.source_group for one, _ in claims],
        "onset_after_s": [None if one.onset_from_ms is None else (one.onset_from_ms - onset_ms) / 1000
                          for one, _ in claims],
        "facts": [json.dumps(one.facts, ensure_ascii=False) for one, _ in claims],
    },
    schema_overrides={"llr": pl.Float64, "onset_after_s": pl.Float64},
)  # fmt: skip
with pl.Config(tbl_rows=40, fmt_str_lengths=120):
    display(evidence)

# %% [markdown]
# ## What was done, and how long it took
#
# The ledger writes an action down before it is done (`intended`) and after it was read back (`verified`).

# %%
changes = [change.message for change in ledger]
done = pl.DataFrame(
    {
        "after_s": [None if one.at_ms is None else (one.at_ms - onset_ms) / 1000 for one in changes],
        "do": [one.do for one in changes],
        "target": [one.target for one in changes],
        "state": [one.state.value for one in changes],
        "mode": [one.mode.value for one in changes],
        "by": [one.by for one in changes],
        "why": [one.why for one in changes],
    },
    schema_overrides={"after_s": pl.Float64},
)


def first_s(verb: str) -> float | None:
    """Seconds from the onset until an action of this verb was first in force."""
    return done.filter(pl.col("do") == verb, pl.col("state").is_in(["done", "verified"]))["after_s"].min()


display(done)
delays = {
    "onset_to_detected_s": None if incident.detected_ms is None else (incident.detected_ms - onset_ms) / 1000,
    "onset_to_hold_s": first_s("drain_host"),
    "onset_to_requeue_s": first_s("requeue"),
    "onset_to_release_s": first_s("release"),
}
seconds = pl.Series("seconds", list(delays.values()), pl.Float64)
display(pl.DataFrame([pl.Series("from onset", list(delays)), seconds]))

# %% [markdown]
# ## What it cost
#
# The accelerators of the jobs that it hit, times the seconds from the onset until their next attempt began; and the
# work since their last checkpoint, which is done again. Nothing is guessed: where a job does not run again yet, or
# placements do not tell its accelerators, the cost is not known.

# %%
took = cost(incident, placements)
saved = (
    history.steps(until=onset_ms)
    .filter(pl.col("job").is_in(incident.affected.jobs), pl.col("phase") == "checkpoint_end")
    .select(pl.col("at_ms").max())
    .collect()
    .item()
)
repeated_s = None if saved is None else (onset_ms - saved) / 1000
hours = None if took.card_seconds is None else round((took.card_seconds + took.cards * (repeated_s or 0.0)) / 3600, 3)
costs = {
    "jobs": ", ".join(took.jobs),
    "do not run again": ", ".join(took.open_jobs),
    "accelerators": took.cards,
    "seconds of work done again": repeated_s,
    "accelerator hours": hours,
}
display(
    pl.DataFrame(
        {"what": list(costs), "is": ["not known" if value is None else str(value) for value in costs.values()]}
    )
)

# %% [markdown]
# ## In numbers

# %%
summary = {
    **{name: said[name] for name in ("incident", "verdict", "component", "fault")},
    **delays,
    "events": story.filter(pl.col("what") == "event").height,
    "claims": evidence.height,
    "changes_in_ledger": done.height,
    "accelerator_hours": hours,
}
print(json.dumps(summary, indent=1))
