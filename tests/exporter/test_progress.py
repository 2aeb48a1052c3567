"""What long work says where there is no terminal."""

from __future__ import annotations

from itertools import pairwise

from edgec.exporter.progress import ProgressLines


class Clock:
    """A clock that is moved by hand, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_stage_has_a_line_and_long_ones_have_more() -> None:
    clock, lines = Clock(), list[str]()
    log = ProgressLines(lines.append, every_s=60, clock=clock)
    for stage, seconds in [("capture", 0), ("lower", 0), ("lower", 30), ("lower", 31), ("lower", 3600), ("done", 1)]:
        clock.now += seconds
        log.tell(stage, "text")
    assert lines == [
        "0:00:00  capture    text",
        "0:00:00  lower      text",
        "0:01:01  lower      text",
        "1:01:01  lower      text",
        "1:01:02  done       text",
    ]


def test_a_stage_that_says_much_is_not_repeated() -> None:
    clock, lines = Clock(), list[str]()
    log = ProgressLines(lines.append, every_s=60, clock=clock)
    for _ in range(1000):
        clock.now += 1
        log.tell("rewrite", "quantize")
    assert 16 <= len(lines) <= 18
    times = [int(line.split()[0].replace(":", "")) for line in lines]
    assert all(one < other for one, other in pairwise(times))
