"""Grafana boards as code: queries over Sickbay's own metrics, built with the typed SDK, linted, committed as JSON.

A board is a module here with `board()`; BOARDS lists them. `sickbay dashboards build` writes them to deploy/grafana/.
"""

BOARDS = {"fleet": "dashboards.grafana.fleet:board"}
