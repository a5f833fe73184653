"""A host's exporters over HTTP, as an agent or a Prometheus scrapes them: accelerators, and the host with its ports."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from sickbay.components import Name
from sickbay.schema import Samples
from simulator.output.prometheus import SERIES, labels_of, number
from simulator.parts.cluster import Card

HANGS_S = 30.0  # how long the exporter of a host with a lost card keeps a scrape waiting
Page = Callable[[str, str], str | None]  # (host, "accelerators" or "node") -> text; None: it hangs


def exposition(told: Iterable[Samples], cards: Mapping[Name, Card]) -> str:
    """Samples of one host in the Prometheus text format."""
    return "".join(line + "\n" for samples in told for line in _lines(samples, cards))


def _lines(samples: Samples, cards: Mapping[Name, Card]) -> Iterator[str]:
    labels = [_shown(labels_of(samples.table, component, cards)) for component in samples.component]
    for metric in SERIES[samples.table]:
        yield f"# TYPE {metric.name} {'counter' if metric.column.endswith('_total') else 'gauge'}"
        for label, value in zip(labels, samples.values[metric.column] * metric.factor, strict=True):
            if not np.isnan(value):
                yield f"{metric.name}{label} {number(float(value))}"


def _shown(labels: dict[str, str]) -> str:
    # `instance` and `job` are put on by Prometheus, not by the exporter.
    own = ",".join(f'{key}="{value}"' for key, value in labels.items() if key not in ("instance", "job"))
    return f"{{{own}}}" if own else ""


class Exporters:
    """All exporters of a simulated site behind one port: `/HOST/accelerators` and `/HOST/node`."""

    def __init__(self, page: Page) -> None:
        self._gone = threading.Event()
        gone = self._gone

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host, _, what = self.path.strip("/").partition("/")
                text = page(host, what)
                if text is None:
                    gone.wait(HANGS_S)
                    return
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporters", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where they listen."""
        return int(self._server.server_address[1])

    def url(self, host: str, what: str) -> str:
        """Where to scrape."""
        return f"http://127.0.0.1:{self.port}/{host}/{what}"

    def close(self) -> None:
        """Stop answering."""
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
