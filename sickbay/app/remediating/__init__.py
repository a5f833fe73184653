"""`sickbay remediate`: `remediator`, `remediation_inputs`, `scheduler_view`, `errands` (tests and bundles, beside)."""
