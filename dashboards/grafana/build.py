"""Boards as the JSON that Grafana takes: the same text every time, so that a committed copy can be compared."""

import json
from importlib import import_module
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.grafana import BOARDS


def text(name: str) -> str:
    """The JSON of a board of the catalogue. Raises KeyError for an unknown one."""
    module, _, attribute = BOARDS[name].partition(":")
    board = getattr(import_module(module), attribute)()
    return json.dumps(board, cls=JSONEncoder, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def containers(name: str) -> dict[str, Any]:
    """A board as plain containers."""
    told: dict[str, Any] = json.loads(text(name))
    return told
