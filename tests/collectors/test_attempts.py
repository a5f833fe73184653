"""Which job a log speaks of: one run's files belong together, two attempts do not."""

from collectors.formats.reading import Reading
from collectors.inputs.attempts import APART_MS, job_names
from collectors.inputs.gather import Gathered
from sickbay.clock import Clock, Stamp
from sickbay.messages import Placement, Progress, RankPlace


def waiting(path: str, rank: int, ms: int) -> Gathered:
    return Gathered(path, readings=[Reading(Progress(rank=rank, state="waiting"), stamp=Stamp(Clock.ABSOLUTE, ms))])


def placed(path: str, rank: int, host: str) -> Gathered:
    place = Placement(job="?", ranks=(RankPlace(rank=rank, host=host),))
    return Gathered(path, readings=[Reading(place)])


def scheduled(job: str, *hosts: str) -> Gathered:
    return Gathered("/x/scontrol.txt", readings=[Reading(Placement(job=job, hosts=hosts, state="running"))])


def test_a_log_is_of_the_job_that_its_name_or_its_hosts_tell() -> None:
    jobs = [scheduled("4471", "h1", "h2"), scheduled("4472", "h3")]
    assert job_names([*jobs, waiting("/y/slurm-4472.out", 0, 0)])[-1] == "4472"
    assert job_names([*jobs, placed("/y/nccl.log", 0, "h2")])[-1] == "4471"
    assert job_names([*jobs, waiting("/y/144711.out", 0, 0)])[-1] == "~_y"


def test_the_only_job_is_adopted_only_where_no_host_is_outside_it() -> None:
    log, job = waiting("/y/b.log", 0, 0), scheduled("4471", "h1")
    assert job_names([log, job])[0] == "4471"
    assert job_names([log, job, placed("/y/other.log", 0, "h9")])[0] == "~_y"
    assert job_names([placed("/y/nccl.log", 0, "h9"), job])[0] == "~_y"


def test_what_the_log_itself_tells_comes_first() -> None:
    told = Gathered("/y/slurm-1.out", readings=[Reading(Progress(rank=0, job="4471"))])
    assert job_names([told, scheduled("1", "h1")])[0] == "4471"


def test_files_of_one_run_are_one_job() -> None:
    inputs = [waiting("/r/rank0.log", 0, 0), waiting("/r/rank1.log", 1, 5_000), placed("/r/init.log", 0, "h1")]
    assert job_names(inputs) == ["~_r"] * 3


def test_files_of_one_run_in_several_folders_are_one_job() -> None:
    names = job_names([waiting("/r/err/0.log", 0, 0), waiting("/r/out/1.log", 1, 0), Gathered("/r/metrics.json")])
    assert names == ["~_r", "~_r", ""]


def test_the_same_rank_elsewhere_is_another_attempt() -> None:
    names = job_names([placed("/r/4.log", 0, "h1"), placed("/r/5.log", 0, "h9")])
    assert names == ["~_r_4.log", "~_r_5.log"]


def test_the_same_rank_giving_up_twice_is_another_attempt() -> None:
    one, two = job_names([waiting("/r/4.log", 0, 0), waiting("/r/5.log", 0, APART_MS + 1)])
    assert one != two
