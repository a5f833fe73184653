"""Values of Redfish resources: numbers, excerpts of sensors, states and words; what is null or odd is not told."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

Resource = Mapping[str, Any]
Resources = Mapping[str, Resource]  # path -> what a GET of it answered

_TYPE = re.compile(r"^#(\w{1,60})\.")
MAX_TEXT = 120


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
    """A number, or the `Reading` of an excerpt; NaN for what is not told or is none."""
    told = told.get("Reading") if isinstance(told, dict) else told
    good = isinstance(told, int | float) and not isinstance(told, bool) and abs(told) < 1e12
    return float(told) if good else math.nan  # type: ignore[arg-type]


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
    return text_of(status.get("State")) if isinstance(status, dict) else ""


def health_of(one: Resource) -> str:
    """Status.Health, "" where it is not told."""
    status = one.get("Status")
    return text_of(status.get("Health")) if isinstance(status, dict) else ""


def text_of(told: object) -> str:
    """A text, cut; "" for anything else."""
    return told[:MAX_TEXT] if isinstance(told, str) else ""


def objects_in(told: object) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [one for one in told[:256] if isinstance(one, dict)] if isinstance(told, list) else []
