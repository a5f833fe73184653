"""Numbers from numbers: telemetry frames in, window features out. No claim and no threshold stands here."""
