"""How many threads the engine takes on a phone, and that the forecast and the engine decide alike."""

from __future__ import annotations

import subprocess

import pytest

from edgec.devices.prediction.thread_count import thread_count, thread_words
from edgec.devices.targets import all_targets
from tests.engine.compiled import compiled


@pytest.mark.parametrize(
    ("phone", "threads", "cores"),
    [("pixel-8", 5, 9), ("galaxy-s24-ultra", 6, 8), ("iphone-13", 2, 6)],
)
def test_small_cores_do_not_join(phone: str, threads: int, cores: int) -> None:
    clocks = next(each.core_clocks_hz for each in all_targets() if each.phone == phone)
    assert clocks is not None and thread_count(clocks) == threads
    assert thread_words(clocks).startswith(f"{threads} of {cores} cores")


def test_equal_cores_all_work() -> None:
    assert thread_words(((4, 2e9), (4, 2e9))) == "8, one for each core"


@pytest.mark.parametrize(
    "clocks", [((1, 4e9), (1, 3.1e9)), ((2, 4.3e9), (6, 3.5e9)), ((1, 3.9e9), (3, 3.3e9), (4, 3e9))]
)
def test_the_engine_takes_as_many(clocks: tuple[tuple[int, float], ...]) -> None:
    each = [str(clock) for cores, clock in clocks for _ in range(cores)]
    done = subprocess.run([compiled("cores_entry"), "gaining", *each], capture_output=True, text=True, check=True)
    assert int(done.stdout) == thread_count(clocks)
