"""The limits of this machine: bytes read per second, integer and float operations per second.

``limits.c`` is compiled for this CPU; without a compiler numpy measures what it can, and the rest is unavailable.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.harness.processes import run

SOURCE = Path(__file__).with_name("limits.c")
FIGURES = ("read_gb_per_s", "int8_gops", "fp32_gflops")
_FLAGS = ("-O3", "-march=native", "-pthread")
_NUMPY_BYTES, _NUMPY_WIDTH = 1 << 28, 1024


def measure_limits(build: Path, threads: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Measure one row per number of threads: the best repetition of each figure, and how it was obtained."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return [_by_numpy(repeats)]
    program = build / "limits"
    run([compiler, *_FLAGS, SOURCE, "-o", program])
    obtained = f"measured: limits.c, {Path(compiler).name} {' '.join(_FLAGS)}, best of {repeats}"
    return [{"threads": n, **_best(program, n, repeats), "obtained": obtained} for n in threads]


def _best(program: Path, threads: int, repeats: int) -> dict[str, float | None]:
    """The fastest of all repetitions, since a limit is what was reached once."""
    lines = run([program, str(threads), str(repeats)]).stdout.strip().splitlines()
    rows = [json.loads(line) for line in lines]
    return {name: max((row[name] for row in rows), default=None) if rows[0][name] else None for name in FIGURES}


def _by_numpy(repeats: int) -> dict[str, Any]:
    """Measure one thread's read bandwidth by a sum and its float32 rate by a matrix product; no integer rate."""
    import numpy as np

    memory = np.ones(_NUMPY_BYTES // 8)
    matrix = np.ones((_NUMPY_WIDTH, _NUMPY_WIDTH), np.float32)
    reads = [_NUMPY_BYTES / _seconds(memory.sum) / 1e9 for _ in range(repeats)]
    products = [2 * _NUMPY_WIDTH**3 / _seconds(lambda: matrix @ matrix) / 1e9 for _ in range(repeats)]
    obtained = f"measured: numpy, no compiler found, median of {repeats}"
    figures = {"read_gb_per_s": statistics.median(reads), "int8_gops": None, "fp32_gflops": statistics.median(products)}
    return {"threads": 1, **figures, "obtained": obtained}


def _seconds(work: Any) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began
