"""Values of Redfish resources: numbers, excerpts of sensors, states and words; what is null or odd is not told."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.formats.text import clean_text

_FOREIGN = {  # units of sensors other than their column's (UCUM, as Sensor.ReadingUnits has it) -> (offset, factor)
    "[degf]": (-32.0, 5 / 9), "degf": (-32.0, 5 / 9), "f": (-32.0, 5 / 9),
    "[gal_us]/min": (0.0, 3.785411784), "gal/min": (0.0, 3.785411784), "gpm": (0.0, 3.785411784),
    "l/h": (0.0, 1 / 60), "m3/h": (0.0, 1000 / 60), "l/s": (0.0, 60.0),
}  # fmt: skip

Resource = Mapping[str, Any]
Resources = Mapping[str, Resource]  # path -> what a GET of it answered

_TYPE = re.compile(r"^#(\w{1,60})\.")
_NUMBER = re.compile(r"\s*-?\d{1,12}(?:\.\d{1,9})?\s*", re.ASCII)
MAX_TEXT = 120
WORDS = {
    word.lower(): word for word in ("OK", "Warning", "Critical", "On", "Off", "Tripped", "Normal", "Enabled", "Absent")
}  # as the schemas write them; some controllers write `critical` or `Ok`


def type_of(resource: Resource) -> str:
    """The schema that a resource is of, "" where it does not tell."""
    told = resource.get("@odata.type")
    match = _TYPE.match(told) if isinstance(told, str) else None
    return match[1] if match else ""


def number(one: Resource, column: str) -> float:
    """A property as a number."""
    return reading(one.get(column))


def first(one: Resource, *columns: str) -> float:
    """The first of these properties that is told."""
    return next((value for column in columns if not math.isnan(value := number(one, column))), math.nan)


def reading(told: object) -> float:
    """A number, or the `Reading` of an excerpt, also as text without a unit; NaN for what is not told or is none."""
    told = told.get("Reading") if isinstance(told, dict) else told
    told = float(told) if isinstance(told, str) and _NUMBER.fullmatch(told) else told
    good = isinstance(told, int | float) and not isinstance(told, bool) and abs(told) < 1e12
    return float(told) if good else math.nan  # type: ignore[arg-type]


def sensor_of(one: Resource, column: str, resources: Resources) -> Resource:
    """The sensor that a property was read from, where that was asked too."""
    told = one.get(column)
    place = told.get("DataSourceUri") if isinstance(told, dict) else None
    return resources.get(place.rstrip("/"), {}) if isinstance(place, str) else {}


def measured(one: Resource, column: str, resources: Resources) -> float:
    """A property in the unit of its name: a number that was copied from a sensor in another unit is converted."""
    value, sensor = number(one, column), sensor_of(one, column, resources)
    told = text_of(sensor.get("ReadingUnits")).lower()
    if told in _FOREIGN and value == number(sensor, "Reading"):
        offset, factor = _FOREIGN[told]
        value = (value + offset) * factor
    return value if plausible(column, value) else math.nan


def plausible(column: str, value: float) -> bool:
    """Whether a reading can be one: controllers write -1 or -128 for a sensor that does not answer."""
    return -40 < value < 200 if "temperature" in column.lower() else value >= 0


def foreign(sensor: Resource) -> bool:
    """Whether a sensor speaks in another unit than the columns: its limits are good for its own reading only."""
    return text_of(sensor.get("ReadingUnits")).lower() in _FOREIGN


def total(values: Iterable[float]) -> float:
    """The sum of what is told; NaN for nothing."""
    told = list(values)
    return sum(told) if told else math.nan


def greatest(values: Iterable[float]) -> float:
    """The greatest that is told, else NaN."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def least(values: Iterable[float]) -> float:
    """The least that is told, else NaN."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def state_of(one: Resource) -> str:
    """Status.State, "" where it is not told."""
    status = one.get("Status")
    return word_of(status.get("State")) if isinstance(status, dict) else ""


def health_of(one: Resource) -> str:
    """Status.Health, "" where it is not told."""
    status = one.get("Status")
    return word_of(status.get("Health")) if isinstance(status, dict) else ""


def word_of(told: object) -> str:
    """A word of the schemas in their own spelling, any other text as it is; "" for anything else."""
    text = text_of(told)
    return WORDS.get(text.lower(), text)


def text_of(told: object) -> str:
    """A text, cut, without what a terminal would obey; "" for anything else."""
    return clean_text(told[:MAX_TEXT]).replace("\n", " ") if isinstance(told, str) else ""


def objects_in(told: object) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [one for one in told[:256] if isinstance(one, dict)] if isinstance(told, list) else []
