"""`sickbay diagnose`: inputs to an answer.

`offline` (the run), `merge` (who, when), `live_metrics`, `progress`; the answer as `terminal` (words: `labels`) and as
`html` (numbers to draw: `plots`).
"""
