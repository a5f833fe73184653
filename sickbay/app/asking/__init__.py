"""People's questions and words.

`desk` (incidents, approvals), `declaring` (changes, maintenance; `strangers`: parts that nothing names), `letters`
(dead letters), `topology_import` and `topology_shown`, `story` and `report`, `boards`; what they and the stages read:
`incidents_topic`, `ledger_lines`.
"""
