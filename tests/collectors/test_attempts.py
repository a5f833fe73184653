"""Which job a log speaks of: one run's files belong together, two attempts do not."""

from collectors.attempts import APART_MS, job_names
from collectors.formats.reading import Reading
from collectors.gather import Gathered
from sickbay.clock import Clock, Stamp
from sickbay.messages import Placement, Progress, RankPlace


def waiting(path: str, rank: int, ms: int) -> Gathered:
    return Gathered(path, readings=[Reading(Progress(rank=rank, state="waiting"), stamp=Stamp(Clock.ABSOLUTE, ms))])


def placed(path: str, rank: int, host: str) -> Gathered:
    place = Placement(job="?", ranks=(RankPlace(rank=rank, host=host),))
    return Gathered(path, readings=[Reading(place)])


def test_ranks_belong_to_the_only_job_known_else_to_their_folder() -> None:
    told = Gathered("/x/a.log", readings=[Reading(Progress(rank=0, job="4471"))])
    silent = Gathered("/y/b.log", readings=[Reading(Progress(rank=1))])
    assert job_names([told, silent]) == ["4471", "4471"]
    assert job_names([silent]) == ["~_y"]


def test_files_of_one_run_are_one_job() -> None:
    inputs = [waiting("/r/rank0.log", 0, 0), waiting("/r/rank1.log", 1, 5_000), placed("/r/init.log", 0, "h1")]
    assert job_names(inputs) == ["~_r"] * 3


def test_the_same_rank_elsewhere_is_another_attempt() -> None:
    names = job_names([placed("/r/4.log", 0, "h1"), placed("/r/5.log", 0, "h9")])
    assert names == ["~_r_4.log", "~_r_5.log"]


def test_the_same_rank_giving_up_twice_is_another_attempt() -> None:
    one, two = job_names([waiting("/r/4.log", 0, 0), waiting("/r/5.log", 0, APART_MS + 1)])
    assert one != two
