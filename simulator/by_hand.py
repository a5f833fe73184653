"""What a scenario file makes happen word by word, where no fault and no decoy does it: a line, a reading, a person's
word. These have no truth of their own: the file tells what is right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sickbay.actions import Control
from sickbay.components import Name
from simulator.parts.overlay import Rows
from simulator.printing.lines import Printed, Source
from simulator.truth.expectation import Expectation
from simulator.world import World

How = Literal["put", "scale", "count", "hide"]


@dataclass(slots=True)
class Line:
    """A program prints a line, `times` times, `every_ms` apart."""

    at: int
    source: Source
    text: str
    host: str = ""
    job: str = ""
    plus_ms: int = 0
    times: int = 1
    every_ms: int = 1000
    speaker: str = "kernel"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """The lines of this second."""
        for place in range(self.times):
            at_ms = self.at * 1000 + self.plus_ms + place * self.every_ms
            if at_ms // 1000 == at_s:
                yield Printed(
                    world.start_ms + at_ms, self.source, self.text, host=self.host, job=self.job,
                    dated=self.source == "job", speaker=self.speaker,
                )  # fmt: skip

    def expect(self, world: World) -> Expectation:
        """Nothing of its own."""
        return Expectation(name="line", title="a line", at_ms=world.ms(self.at), touched=frozenset())


@dataclass(slots=True)
class Reading:
    """A sensor reads a value (put), a multiple (scale), counts more each second (count), or has none (hide)."""

    at: int
    table: str
    column: str
    rows: Rows
    value: float = 0.0
    how: How = "put"
    lasts_s: int | None = None

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """What is read in this second."""
        if at_s >= self.at and (self.lasts_s is None or at_s < self.at + self.lasts_s):
            over = world.now.overlay
            if self.how == "hide":
                over.hide(self.table, self.rows, (self.column,))
            else:
                {"put": over.put, "scale": over.scale, "count": over.count}[self.how](
                    self.table, self.column, self.rows, self.value
                )
        return iter(())

    def expect(self, world: World) -> Expectation:
        """Nothing of its own."""
        return Expectation(name="reading", title="a reading", at_ms=world.ms(self.at), touched=frozenset())


@dataclass(slots=True)
class Word:
    """A person tells the system something: maintenance of a part, no stop of a job, who restarts a job."""

    at: int
    kind: str
    target: Name
    by: str = "carol"
    note: str = ""
    lasts_s: int | None = None

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """It is said once."""
        if at_s == self.at:
            until = None if self.lasts_s is None else world.ms(self.at + self.lasts_s)
            world.declared.append(
                Control(
                    kind=self.kind, target=self.target, by=self.by, at_ms=world.ms(self.at), from_ms=world.ms(self.at),
                    until_ms=until, note=self.note,
                )
            )  # fmt: skip
        return iter(())

    def expect(self, world: World) -> Expectation:
        """Nothing of its own."""
        return Expectation(name="word", title="a word", at_ms=world.ms(self.at), touched=frozenset())


@dataclass(slots=True)
class Restart:
    """Somebody starts the job anew at a step, on the same hosts or on others."""

    at: int
    job: str
    hosts: tuple[str, ...] = ()
    back_steps: int = 0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """The new attempt, and its placement."""
        run = world.runs.get(self.job)
        if at_s == self.at and run is not None:
            run.restart(at_s, max(1, run.step - self.back_steps), self.hosts)
            world.news.append(run.placement(world.ms(at_s)))
        return iter(())

    def expect(self, world: World) -> Expectation:
        """Nothing of its own."""
        return Expectation(name="restart", title="a restart", at_ms=world.ms(self.at), touched=frozenset())


BY_HAND = {"line": Line, "reading": Reading, "word": Word, "restart": Restart}
