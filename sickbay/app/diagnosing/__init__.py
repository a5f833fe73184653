"""Live diagnosis: a pure fold over the log, and the shell that reads and commits.

- What the log says: `diagnosis_fold`, with `diagnosis_inputs` and `window_clocks`.
- Memory: `horizon`, with its `kept_steps` and `feature_windows` (each a `window_table`; sieved by `card_screen` and
  `interest`; whole: `wide_windows`).
- What it says: `judge`, `wishes`; `explicit` makes evidence of single events, at once.
- The shell: `diagnoser`, with `diagnosis_reading`, `diagnosis_state`, `task_read` (how far).
"""
