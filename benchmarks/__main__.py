"""`python -m benchmarks NAME [--json]`: measures one thing and prints its numbers with their conditions."""

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any, cast

# name -> module with `measure(size: int | None) -> dict`; `size` is what the benchmark scales with, None = its own.
BENCHMARKS = {
    "agent": "benchmarks.agent",
    "latency": "benchmarks.latency",
    "parse": "benchmarks.parse",
    "steps": "benchmarks.steps",
    "switches": "benchmarks.switches",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one benchmark. Exit status 0, or 2 for bad usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--size",
        type=int,
        help="how large: megabytes for parse, seconds for agent, events for latency, steps for steps, switches",
    )
    options = parser.parse_args(arguments)
    measure = cast(Callable[[int | None], dict[str, Any]], importlib.import_module(BENCHMARKS[options.name]).measure)
    numbers = measure(options.size)
    print(json.dumps(numbers, indent=2) if options.json else _table(numbers))
    return 0


def _table(numbers: dict[str, Any]) -> str:
    flat = {key: value for key, value in numbers.items() if key != "conditions"} | numbers["conditions"]
    width = max(map(len, flat))
    return "\n".join(f"{key:{width}}  {value}" for key, value in flat.items())


if __name__ == "__main__":
    sys.exit(main())
