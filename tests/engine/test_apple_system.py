"""What the engine does on a Mac, by the Mac's own sources, over stand-ins of macOS's answers: nothing of it ran on a Mac."""

from __future__ import annotations

import subprocess

import pytest

from tests.engine.compiled import compiled

pytestmark = pytest.mark.long
FEATURES = "hw.optional.arm.FEAT_"
# `sysctl hw.optional.arm`: Apple's first chip of a Mac has products of bytes, those from M2 on of matrices of bytes too.
M1 = (f"{FEATURES}DotProd=1", f"{FEATURES}I8MM=0", "hw.perflevel0.physicalcpu=4")
M2 = (f"{FEATURES}DotProd=1", f"{FEATURES}I8MM=1", "hw.perflevel0.physicalcpu=8")
NO_CLASS, DEFAULT, USER_INITIATED, INTERACTIVE, BACKGROUND = "0", "15", "19", "21", "9"


def answered(*words: str) -> list[list[str]]:
    """The lines that the program prints, each as its words."""
    done = subprocess.run([compiled("apple_entry"), *words], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("chip", "kernels"),
    [(M1, ["dotprod", "plain"]), (M2, ["i8mm", "dotprod", "plain"]), ((), ["plain"])],
    ids=("M1", "M2", "unknown"),
)
def test_a_chip_gets_the_kernels_whose_instructions_it_has(chip: tuple[str, ...], kernels: list[str]) -> None:
    assert answered(DEFAULT, *chip)[0] == kernels


@pytest.mark.parametrize(("chip", "first"), [(M1, "4"), (M2, "8"), ((), "10")], ids=("M1", "M2", "unknown"))
def test_the_pool_begins_with_a_thread_for_each_performance_core(chip: tuple[str, ...], first: str) -> None:
    assert answered(DEFAULT, *chip)[1] == [first, "3"], "and has what is asked for afterwards"


@pytest.mark.parametrize(
    ("caller", "shared", "changes"),
    [
        (NO_CLASS, USER_INITIATED, "2"),
        (DEFAULT, USER_INITIATED, "2"),
        (USER_INITIATED, USER_INITIATED, "1"),
        (INTERACTIVE, INTERACTIVE, "1"),
        (BACKGROUND, BACKGROUND, "1"),
    ],
)
def test_the_threads_of_a_step_work_in_the_callers_class(caller: str, shared: str, changes: str) -> None:
    """A thread of the pool has none; one that has the class already is not told again."""
    assert answered(caller, *M2)[2] == [shared, shared, changes]
