"""Sources in, records out: formats (pure), vendor codes (data), and what reads hosts, switches and schedulers."""
