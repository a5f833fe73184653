"""`diagnose --prometheus`: a live server as one more input."""

from collectors.formats.reading import Tally
from collectors.inputs.gather import Gathered
from collectors.inputs.prometheus_api import PrometheusError, fetch
from sickbay.clock import Clock


def ask(url: str, from_ms: int, to_ms: int) -> Gathered:
    """Everything known that the server holds between two times; what stopped it is told, what came before is kept."""
    tally, shown = Tally(), url.rpartition("@")[2] if "@" in url else url
    found = Gathered(shown, kind="prometheus", tally=tally, clock=Clock.ABSOLUTE)
    try:
        for reading in fetch(url, from_ms, to_ms, tally=tally):
            found.readings.append(reading)
    except (PrometheusError, ValueError) as error:
        found.problem = str(error)
    tally.records = len(found.readings)
    if found.problem and not found.readings:
        found.kind = "unknown"  # nothing answered there as a Prometheus does
    return found
