"""Composition root: what joins collectors, streams, diagnosis, remediation and dashboards into runs.

Where to look, by what runs:

- `sickbay diagnose`: `offline` (inputs to an answer), `merge` (who, when), `live_metrics`, `progress`; the answer as
  `terminal` (words: `labels`), `html` (numbers to draw: `plots`).
- `sickbay demo`: `demo`, `agents` (all agents of the cluster, in memory), `demo_report`.
- Any service: `service` (a thread a stage), `opening` (the log), `watched` (its calls, timed; less what the process was
  `starving`), `exposition` (`/metrics`, `/ready`).
- `sickbay process`: `stages` (their names; ticker), `live` (windows; all in one thread; `side_reader`: placements and
  edges for them), `lag` (and what stands still: `standstill`), `alerts`, `archiver` (`archive_frames`: what it takes
  of frames);
  diagnosis is `diagnosis_fold` (what the log says, with `diagnosis_inputs`, `window_clocks`, `horizon`: memory, with
  its `kept_steps` and `feature_windows` (each a `window_table`; sieved by `card_screen`, `interest`; whole:
  `wide_windows`); `judge`: says, `wishes`) in its shell `diagnoser` (reads, commits; `diagnosis_reading`,
  `diagnosis_state`, `task_read`: how far); `explicit` makes evidence of single events.
- `sickbay replay`: `replay_span` (from where to where, and what lacks), `replay_archive` (what is read), `replay` (the
  same folds over it), `replay_holds` (the policy over it), `replay_compare` (what differs), `replay_report`.
- `sickbay remediate`: `remediator`, `remediation_inputs`, `scheduler_view`, `errands` (tests and bundles, beside).
- `sickbay relay`, and what `sickbay up` listens to: `listener` (the stage), `listen_server`, `listen_sockets`,
  `tokens`, `intake` (a request to an answer), `hooks` (changes, work), `handing` (agents' records), `sink` (the log;
  packs); `frame_layouts` is what all readers of frames share.
- `sickbay poll`: `poller`. `sickbay up`: `up`, `simulated_site`. `sickbay doctor`: `setting_checks`.
- People's questions: `desk` (incidents, approvals), `declaring` (changes, maintenance; `strangers`: parts that nothing
  names), `letters` (dead letters), `topology_import` and `topology_shown`, `story` and `report`, `boards`; what they
  and the stages read: `incidents_topic`, `ledger_lines`.
"""
