"""What tells that something is wrong: `lag` (how far behind the stages are), `standstill` (what does not move at all),
`alerts` (to Alertmanager)."""
