#!/usr/bin/env python3
"""Sickbay's Kafka topics as data, for brokers on which Sickbay may not create them: `topics.json`, made from the code.

python deploy/topics.py > deploy/topics.json
python deploy/topics.py --commands BROKER:9092 | sh     # with kafka-topics.sh on PATH
"""

import json
import shlex
import sys
from typing import Any

from sickbay.log.kafka_topics import options
from sickbay.topics import TOPICS

COPIES = 3  # of each partition: one broker may be lost, and one more be restarted


def topics() -> list[dict[str, Any]]:
    """Every topic as Kafka is asked for it."""
    return [
        {"name": topic.name, "partitions": topic.partitions, "replication": COPIES, "config": options(topic, COPIES)}
        for topic in TOPICS.values()
    ]


def text() -> str:
    """What `topics.json` holds."""
    return json.dumps(topics(), indent=2) + "\n"


def commands(brokers: str) -> list[str]:
    """One call of Kafka's own tool a topic."""
    return [
        shlex.join(
            ["kafka-topics.sh", "--bootstrap-server", brokers, "--create", "--if-not-exists", "--topic", topic["name"]]
            + ["--partitions", str(topic["partitions"]), "--replication-factor", str(topic["replication"])]
            + [part for key, value in topic["config"].items() for part in ("--config", f"{key}={value}")]
        )
        for topic in topics()
    ]


def main(arguments: list[str]) -> int:
    """Prints the one or the other."""
    if not arguments:
        sys.stdout.write(text())
    elif len(arguments) == 2 and arguments[0] == "--commands":
        print("\n".join(commands(arguments[1])))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
