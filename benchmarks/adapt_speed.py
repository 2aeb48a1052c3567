"""The time and memory of a step of ``edgec adapt``: python -m benchmarks.adapt_speed [--only NAME ...] [--json].

Each case trains for a few steps in a process of its own, on the GPU where there is one, else on the CPU. A step is its
forward and backward pass, the teacher's forward pass and the update. Real shapes have seeded random weights. Measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.grid import Grid
from benchmarks.harness.models import QWEN3, SMOL, Model, weights
from benchmarks.harness.processes import QUIET, ROOT, run

EXAMPLE = ROOT / "examples" / "tiny-stories"
RECIPE, WARM_UPS = "balanced2", 3
MODELS = {model.name: model for model in (SMOL, QWEN3)}


@dataclass(frozen=True)
class Case:
    """What is trained; a model that ``MODELS`` does not hold is the example."""

    model: str
    batch: int
    length: int
    recompute: bool = False


CASES = (
    Case("example", 4, 256),
    Case("example", 64, 256),
    Case("smol", 8, 512),
    Case("qwen3", 4, 512),
    Case("qwen3", 4, 512, recompute=True),
)


@dataclass(frozen=True)
class Row:
    """One case, measured.

    Attributes:
        device: the GPU's name, or the processor's.
        steps_s: seconds of each step after those to warm up.
        peak_bytes: most memory of the GPU that tensors held; on a CPU the process's most resident memory;
            None where the kernel does not report it.
    """

    case: Case
    device: str
    steps_s: tuple[float, ...]
    peak_bytes: int | None

    @property
    def deciles_ms(self) -> tuple[float, float, float]:
        """The first decile, the median and the last decile of a step."""
        cuts = [1e3 * cut for cut in quantiles(self.steps_s, n=10, method="inclusive")]
        return cuts[0], cuts[4], cuts[8]

    @property
    def tokens_per_s(self) -> float:
        """Tokens that are trained on in a second, at the median."""
        return 1e3 * self.case.batch * self.case.length / self.deciles_ms[1]


def measured(case: Case, steps: int, build: Path) -> Row:
    """Train a case in a process of its own; a model's weights are made once."""
    folder = EXAMPLE
    if model := MODELS.get(case.model):
        folder = model_folder(model, build)
    job = json.dumps({"model": str(folder), "steps": steps, "case": asdict(case)})
    fields = run([sys.executable, "-m", "benchmarks.adapt_speed", "--here", job], environment=QUIET).json()
    return Row(case, fields["device"], tuple(fields["steps_s"]), fields["peak_bytes"])


def model_folder(model: Model, build: Path) -> Path:
    """A real shape with random weights, and the example's tokenizer."""
    folder = build / model.name
    weights(model, folder)
    for file in EXAMPLE.glob("tokenizer*"):
        shutil.copy(file, folder)
    return folder


class _Enough(Exception):
    """Ends a training that has been timed."""


def train(model: Path, steps: int, case: Case) -> dict[str, Any]:
    """Train in this process, on the project's documents; the result is dropped."""
    import torch

    from benchmarks.harness.jobs import status_bytes
    from edgec.exporter.adapt.adapt import adapt
    from edgec.exporter.adapt.settings import Settings

    times: list[float] = []
    gpu = torch.cuda.is_available()

    def told(_: object) -> None:
        if gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter())
        if len(times) > WARM_UPS + steps:
            raise _Enough

    shape: dict[str, Any] = {"batch": case.batch, "length": case.length, "recompute": case.recompute}
    settings = Settings(steps=WARM_UPS + steps + 2, checkpoint_every=0, held_out_tokens=case.length, **shape)
    with TemporaryDirectory() as folder:
        out, text = Path(folder) / "out", [ROOT / "docs"]
        with suppress(_Enough):
            adapt(model, recipe=RECIPE, text=text, out=out, settings=settings, progress=told)
    kept = times[WARM_UPS:]
    return {
        "device": torch.cuda.get_device_name() if gpu else _processor(),
        "steps_s": [after - before for before, after in pairwise(kept)],
        "peak_bytes": torch.cuda.max_memory_allocated() if gpu else status_bytes("VmHWM"),
    }


def _processor() -> str:
    from benchmarks.harness.machine import host_facts

    return host_facts().cpu


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    heads = ("model", "tokens of a step", "step, ms [p10 .. p90]", "tokens/s", "peak memory, GB", "on")
    return Grid("", heads, tuple(map(_cells, rows))).markdown(0)


def _cells(row: Row) -> tuple[str, ...]:
    case, (low, median, high) = row.case, row.deciles_ms
    return (
        f"{case.model}, recomputed" if case.recompute else case.model,
        f"{case.batch} x {case.length}",
        f"{median:,.0f} [{low:,.0f} .. {high:,.0f}]",
        f"{row.tokens_per_s:,.0f}",
        "unavailable" if row.peak_bytes is None else f"{row.peak_bytes / 1e9:.2f}",
        row.device,
    )


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] = print) -> None:
    """Measure the chosen cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = tuple(dict.fromkeys(case.model for case in CASES))
    parser.add_argument("--only", nargs="+", default=names, choices=names, help="models; default: all")
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each case, 2 at least")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench" / "adapt-speed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", metavar="JOB", help="train in this process and print JSON")
    options = parser.parse_args(arguments)
    if options.here:
        job = json.loads(options.here)
        return write(f"\n{json.dumps(train(Path(job['model']), job['steps'], Case(**job['case'])))}")
    rows = [measured(case, max(2, options.steps), options.build) for case in CASES if case.model in options.only]
    write(json.dumps({"obtained": "measured", "rows": [*map(asdict, rows)]}) if options.json else table(rows))


if __name__ == "__main__":
    main()
