"""`sickbay replay`: the same folds over the archive.

`replay_span` (from where to where, and what lacks), `replay_archive` (what is read), `replay` (the run), `replay_holds`
(the policy over it), `replay_compare` (what differs), `replay_report`.
"""
