"""How many cores a step is shared among, on machines whose cores differ and in containers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from edgec.devices.prediction.thread_count import thread_count
from tests.engine.compiled import compiled

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.skipif(not CORES, reason="this system does not say which cores a process may use")


def said(*words: object) -> str:
    done = subprocess.run([compiled("cores_entry"), *map(str, words)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("capacities", "cores"),
    [
        # One fast core, some a little slower and some small; two kinds; equal ones. Numbers as large as Linux states.
        ([1024] + 4 * [760] + 4 * [250], 5),
        ([1024] + 5 * [860] + 2 * [330], 6),
        (4 * [1024] + 4 * [440], 4),
        (8 * [1024], 8),
        ([1024, 512], 1),
        ([1024, 513], 2),
        ([250, 1024], 1),
        ([7], 1),
        ([], 0),
    ],
)
def test_a_step_is_shared_among_the_cores_that_make_it_shorter(capacities: list[int], cores: int) -> None:
    assert said("gaining", *capacities) == str(cores)


def _stated(folder: Path, file: str, numbers: list[int]) -> Path:
    for core, number in zip(CORES, numbers, strict=False):
        path = folder / f"cpu{core}" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    return folder


def test_capacities_are_read_and_come_before_clocks(tmp_path: Path) -> None:
    capacities = [1024 - core for core in range(len(CORES))]
    _stated(_stated(tmp_path, "cpu_capacity", capacities), "cpufreq/cpuinfo_max_freq", [3_000_000] * len(CORES))
    assert said("capacities", tmp_path).split() == [str(each) for each in capacities]


def test_cores_of_low_clocks_are_small_ones(tmp_path: Path) -> None:
    clocks = [3_000_000, *[2_000_000] * (len(CORES) - 1)]
    assert said("capacities", _stated(tmp_path, "cpufreq/cpuinfo_max_freq", clocks)).split() == ["3e+06"]


@pytest.mark.parametrize("slow_khz", [2_900_000, 2_999_000, 3_000_000, 3_100_000])
def test_a_forecast_leaves_out_cores_from_the_same_clock_on(slow_khz: int, tmp_path: Path) -> None:
    clocks = [4_000_000, *[slow_khz] * (len(CORES) - 1)]
    kept = said("capacities", _stated(tmp_path, "cpufreq/cpuinfo_max_freq", clocks)).split()
    forecast = thread_count(((1, clocks[0] * 1e3), *((1, clock * 1e3) for clock in clocks[1:])))
    assert said("gaining", *kept) == str(forecast)
    assert len(kept) == (len(CORES) if slow_khz >= 3_000_000 else 1)


def test_a_core_that_states_nothing_leaves_all_unknown(tmp_path: Path) -> None:
    assert said("capacities", tmp_path) == ""
    if len(CORES) > 1:
        assert said("capacities", _stated(tmp_path, "cpu_capacity", [1024])) == ""


@pytest.mark.parametrize(
    ("limits", "granted"),
    [
        ({"": "max 100000", "a": "250000 100000", "a/b": "max 100000"}, "2.5"),
        ({"": "50000 100000", "a/b": "300000 100000"}, "0.5"),
        ({"a/b": "damaged"}, "0"),
        ({}, "0"),
    ],
)
def test_a_containers_share_is_the_least_of_the_groups_around_it(
    limits: dict[str, str], granted: str, tmp_path: Path
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder, text in limits.items():
        (tmp_path / folder / "cpu.max").write_text(text)
    assert said("granted", tmp_path, tmp_path / "a" / "b") == granted
