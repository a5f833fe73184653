"""One file per command; each imports what it needs inside the function, so that `sickbay --help` stays fast."""
