"""One night told in two ways: as an operator's files, and as agents' records in the log; and what is said of each."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sickbay.app.answering.offline import Options, run
from sickbay.app.demonstrating.demo import small_site
from sickbay.app.demonstrating.simulated_part import Part, parts
from sickbay.app.demonstrating.simulated_sinks import Appended
from sickbay.app.running.live import Pipeline
from sickbay.log.memory import MemoryLog
from simulator.output.files import write
from simulator.scenario import Scenario


class Said(NamedTuple):
    """What an incident says, without how sure it is."""

    component: str
    verdict: str
    fault: str


def from_files(made: Scenario, folder: Path, until_s: int) -> set[Said]:
    """What `sickbay diagnose` says of the night's folder."""
    answer = run([write(made, folder, until_s=until_s, cables=True)], Options()).answer
    return {Said(row.component, row.verdict, row.fault) for row in answer.incidents}


def from_log(made: Scenario, until_s: int) -> set[Said]:
    """What live diagnosis says at the night's end of what agents told."""
    now = [made.start_ms]
    log = MemoryLog(small_site(), clock=lambda: now[0], seed=made.seed)
    pipeline = Pipeline(log)
    with closing(log.appender()) as appender:
        own = [Part(made, hosts, Appended(appender)) for hosts in parts(len(made.cluster.hosts))]
        for part in own:
            part.facts(made.start_ms)
        for second in made.seconds(until_s):
            now[0] = second.at_ms + 1000
            for part in own:
                part.take(second)
            pipeline.second(now[0])
    assert not sum(part.unparsed for part in own)
    told = [one for one in pipeline.diagnoser.incidents if one.state != "merged"]
    return {Said(one.component, one.verdict, one.fault) for one in told}
