"""Files, folders, archives and saved answers as inputs of `sickbay diagnose`: walked, recognised, read, dated."""
