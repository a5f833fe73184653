"""A scenario as files: what an operator would have, and what `sickbay diagnose` is given."""
