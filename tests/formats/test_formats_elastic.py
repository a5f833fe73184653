"""torchrun's blocks: endings with rank and host, victims apart from crashes."""

from collectors.formats.bodies.elastic import Elastic
from collectors.formats.reading import Line, Record
from sickbay.messages import Event, Severity

FAILURE = """Root Cause (first observed failure):
[0]:
  time      : 2025-06-02_18:40:01
  host      : h-{host}
  rank      : {rank} (local_rank: 6)
  exitcode  : {code} (pid: 3123)
  error_file: <N/A>"""


def read(lines: list[tuple[str, str]]) -> list[Record]:
    body = Elastic()
    return [
        record
        for number, (stream, line) in enumerate(lines, 1)
        for record in body.read(Line(line, number, stream=stream))
    ]


def events(text: str) -> list[Event]:
    return [record for record in read([("", line) for line in text.split("\n")]) if isinstance(record, Event)]


def test_endings_by_signal() -> None:
    info, warning = Severity.INFO, Severity.WARNING
    wanted = {-6: info, -15: info, -9: info, -11: warning, -7: warning, 1: warning, 0: info}
    for code, severity in wanted.items():
        (found,) = events(FAILURE.format(host=1, rank=14, code=code))
        assert (found.severity, found.attributes["exitcode"]) == (severity, str(code))
        assert (found.component, found.host) == ("rank:?/14", "h-1")


def test_interleaved_blocks_do_not_mix() -> None:
    first, second = (FAILURE.format(host=n, rank=n, code=-6).split("\n") for n in (1, 2))
    mixed = [pair for one, two in zip(first, second, strict=True) for pair in (("a", one), ("b", two))]
    found = [record for record in read(mixed) if isinstance(record, Event)]
    assert [(event.component, event.host) for event in found] == [("rank:?/1", "h-1"), ("rank:?/2", "h-2")]


def test_fields_outside_a_block_are_not_read() -> None:
    assert events("  rank      : 3 (local_rank: 3)\n  exitcode  : -11 (pid: 8)") == []


def test_a_block_cut_before_its_rank_tells_nothing() -> None:
    assert events("Failures:\n[0]:\n  time      : 2025-06-02_18:40:01\n  exitcode  : 1 (pid: 3)") == []


def test_open_blocks_are_bounded() -> None:
    body = Elastic()
    for number in range(10_000):
        list(body.read(Line("Failures:", stream=str(number))))
    assert len(body._blocks) <= 256
