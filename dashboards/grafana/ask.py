"""Every query of a board, asked of a Prometheus: which are wrong there, and which have no data. Pure but for `get`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dashboards.grafana.lint import expressions

STEP_S, SPAN_S = 15, 900  # of a range query
# What Grafana would fill in.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$__interval": "15s", "$cluster": ".*"}

Get = Callable[[str], bytes]  # path and query of an address in, body out; raises OSError


@dataclass(frozen=True, slots=True)
class Checked:
    """One query. `error`: what the server says is wrong; `series`: how many it found."""

    panel: str
    expr: str
    series: int = 0
    error: str = ""


def check(board: Mapping[str, Any], get: Get, now_s: float) -> list[Checked]:
    """All queries of a board, asked as its panels would ask them. Raises OSError where nobody answers."""
    return [_asked(panel, _filled(expr), instant, get, now_s) for panel, expr, instant in expressions(board)]


def _filled(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def _asked(panel: str, expr: str, instant: bool, get: Get, now_s: float) -> Checked:
    if instant:
        path = f"/api/v1/query?{urlencode({'query': expr, 'time': now_s})}"
    else:
        times = {"start": now_s - SPAN_S, "end": now_s, "step": STEP_S}
        path = f"/api/v1/query_range?{urlencode({'query': expr, **times})}"
    try:
        answer = json.loads(get(path))
        if answer.get("status") != "success":
            return Checked(panel, expr, error=str(answer.get("error") or "no answer of a Prometheus")[:300])
        return Checked(panel, expr, series=len(answer["data"]["result"]))
    except (ValueError, AttributeError, KeyError, TypeError):
        return Checked(panel, expr, error="no answer of a Prometheus")
