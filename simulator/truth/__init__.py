"""What must be said of a scenario, and what must not be done: `expectation` (of each effect), `demand` (of a test)."""

FAMILIES = (
    "explicit",  # a line or a code names the part
    "hang",  # a job stands still
    "slow",  # a job goes on, slower
    "ramp",  # it gets worse, and later it hurts
    "link",  # a cable, a module or a port
    "shared",  # something that many hosts depend on
    "work",  # the job's own
    "telemetry",  # only the sensors are wrong
)  # fmt: skip
