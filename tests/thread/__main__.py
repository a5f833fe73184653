"""`make thread`: the whole story on real Kafka, Slurm, Prometheus and Alertmanager, then on the embedded log; prints
the time line, and leaves report, board, notebook and logs in out/thread."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.services import alertmanager, slurm
from tests.services.kafka import running as kafka
from tests.thread import aftermath
from tests.thread.place import Way, placed
from tests.thread.story import Story, whole

OUT = Path("out/thread").absolute()


def main() -> int:
    """Both ways, one after the other. 0: all was right; else the failure is shown."""
    with tempfile.TemporaryDirectory(prefix="thread-") as name, ExitStack() as stack:
        folder = Path(name)
        for part in ("slurm", "alertmanager", "kafka"):
            (folder / part).mkdir()
        print("starting Slurm, Alertmanager and Kafka ...", flush=True)
        cluster = stack.enter_context(slurm.running(folder / "slurm"))
        alerts = stack.enter_context(alertmanager.running(folder / "alertmanager"))
        broker = stack.enter_context(kafka(folder / "kafka"))
        logs: dict[Way, str] = {
            "spread": f'[log]\nengine = "kafka"\nbrokers = "{broker.brokers}"\nreplication = 1\n',
            "single": f'[log]\nengine = "sqlite"\npath = "{folder}/single-log"\n',
        }
        for way, toml in logs.items():
            print(f"\n{WAYS[way]}", flush=True)
            with placed(folder / way, cluster, way, toml, alertmanager=alerts.url) as place:
                (folder / f"prometheus-{way}").mkdir()
                url = stack.enter_context(aftermath.scraped(place, folder / f"prometheus-{way}"))
                story = whole(place)
                tell(story)
                aftermath.keep(story, OUT / way, url)
            cluster.run("scancel", story.job)
    print(f"\nwhat it left behind: {OUT}")
    return 0


WAYS: dict[Way, str] = {
    "spread": "Every stage a process of its own, on Kafka:",
    "single": "Everything in one process (`sickbay up`), on the embedded log:",
}


def tell(story: Story) -> None:
    """The time line."""
    for line in story.shown():
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
