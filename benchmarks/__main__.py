"""`python -m benchmarks NAME [--json]`: measures one thing and prints its numbers with their conditions."""

import argparse
import importlib
import json
import signal
import sys
from typing import Any

# name -> module with `measure(size: int | None, **options) -> dict`; `size` is what it scales with, None = its own.
# A module with `arguments(parser)` has options of its own, which `measure` is given.
BENCHMARKS = {
    "accuracy": "benchmarks.accuracy",
    "agent": "benchmarks.agent",
    "archive": "benchmarks.archive",
    "growth": "benchmarks.growth",
    "latency": "benchmarks.latency",
    "nights": "benchmarks.nights",
    "outage": "benchmarks.outage",
    "parse": "benchmarks.parse",
    "scale_horizon": "benchmarks.scale_horizon",
    "peers_vs_prometheus": "benchmarks.peers_vs_prometheus",
    "steps": "benchmarks.steps",
    "switches": "benchmarks.switches",
    "throughput": "benchmarks.throughput",
}
ENDED = 128 + signal.SIGTERM  # the exit status of a process that was asked to end


def main(arguments: list[str] | None = None) -> int:
    """Runs one benchmark. Exit status 0, or 2 for bad usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--size",
        type=int,
        help="how large: megabytes for parse, seconds for agent, events for latency, steps for steps, switches, "
        "accelerators for throughput, growth, outage and peers_vs_prometheus, windows with a fault for accuracy",
    )
    options, rest = parser.parse_known_args(arguments)
    module = importlib.import_module(BENCHMARKS[options.name])
    own = argparse.ArgumentParser(prog=f"python -m benchmarks {options.name}", description=module.__doc__)
    getattr(module, "arguments", lambda parser: None)(own)
    numbers: dict[str, Any] = module.measure(options.size, **vars(own.parse_args(rest)))
    print(json.dumps(numbers, indent=2) if options.json else _table(numbers))
    return 0


def _table(numbers: dict[str, Any]) -> str:
    flat = {key: value for key, value in numbers.items() if key != "conditions"} | numbers["conditions"]
    width = max(map(len, flat))
    return "\n".join(f"{key:{width}}  {value}" for key, value in flat.items())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))  # what was started is ended on the way out
    sys.exit(main())
