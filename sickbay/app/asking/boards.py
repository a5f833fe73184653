"""`sickbay dashboards`: boards written to a folder, and their queries asked of a live Prometheus."""

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from collectors.inputs.prometheus_api import authorization
from dashboards.grafana import BOARDS
from dashboards.grafana.ask import Checked, check
from dashboards.grafana.build import containers, text
from dashboards.grafana.lint import problems
from sickbay import addresses

TIMEOUT_S = 10.0
MAX_ANSWER = 16 << 20  # bytes


def write(folder: Path) -> list[Path]:
    """Writes every board as `NAME.json`. Raises OSError where that cannot be done."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in BOARDS:
        path = folder / f"{name}.json"
        path.write_text(text(name), encoding="utf-8")
        paths.append(path)
    return paths


def linted() -> dict[str, list[str]]:
    """What is wrong with each board, by its name."""
    return {name: problems(containers(name)) for name in BOARDS}


def asked(url: str) -> dict[str, list[Checked]]:
    """Every query of every board, asked of a Prometheus. Raises ValueError for no address, OSError for no answer."""
    get = _get(url)
    return {name: check(containers(name), get, time.time()) for name in BOARDS}


def _get(url: str) -> Callable[[str], bytes]:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address such as http://127.0.0.1:9090")
    base, opener, pass_ = addresses.base_of(parts), addresses.opener(parts), authorization(parts)

    def get(path: str) -> bytes:
        request = urllib.request.Request(base + path)
        if pass_:  # unredirected: another host must not learn it
            request.add_unredirected_header("Authorization", pass_)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return bytes(answer.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            if error.code not in (400, 422):  # with these it tells what is wrong with the query
                raise
            with error:
                return error.read(MAX_ANSWER)

    return get
