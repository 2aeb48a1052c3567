"""Pruning: its loss of quality, and its real gain in bytes and time."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks.quality_parts.measure import Reference, Row

if TYPE_CHECKING:
    from edgec.ir.program import Program
    from edgec.passes.contract import Pass

_STEPS, _ROUNDS = 64, 9


def rows(reference: Reference) -> Iterator[Row]:
    """Measure half of the weights as zeros, in float; bits as in Core ML's sparse form (a mask and float16 values)."""
    from edgec.passes.compress.prune import Prune
    from edgec.passes.compress.rounding.sparse_weights import METHODS
    from edgec.passes.contract import run_pass

    for form, block in {"50 % zeros": 0, "50 % zeros, 2:4": 4}.items():
        for method in METHODS:
            changed = run_pass(reference.subject.program, Prune(0.5, block, method, reference.subject.calibration))
            yield reference.row(changed, form, method, 1 + 16 * 0.5)


@dataclass(frozen=True)
class Gain:
    """The size and speed of an artifact for the CPU (4-bit integers in groups of 32, 8-bit activations).

    Attributes:
        artifact_bytes: size of the .pte.
        zipped_bytes: size after gzip, as a download would be.
        decode_ms: CPU time of one token, median, one thread, measured in turn with the other artifacts.
        spread_ms: smallest and largest CPU time.
    """

    model: str
    weights: str
    artifact_bytes: int
    zipped_bytes: int
    decode_ms: float
    spread_ms: tuple[float, float]


HEADER = "| weights in the .pte | bytes | gzip, bytes | CPU ms/token | from - to |"


def line(gain: Gain) -> str:
    """The row as a line of Markdown."""
    low, high = gain.spread_ms
    size = f"{gain.artifact_bytes:,} | {gain.zipped_bytes:,}"
    return f"| {gain.weights} | {size} | {gain.decode_ms:.3f} | {low:.3f} - {high:.3f} |"


def gains(reference: Reference) -> list[Gain]:
    """Measure dense against pruned weights, executed by ExecuTorch."""
    from edgec.passes.compress.prune import Prune

    subject = reference.subject
    ways: dict[str, list[Pass]] = {
        "dense": [],
        "50 % zeros": [Prune(0.5, 0, "wanda", subject.calibration)],
        "50 % zeros, 2:4": [Prune(0.5, 4, "wanda", subject.calibration)],
    }
    with TemporaryDirectory() as folder:
        artifacts = {name: _artifact(subject.program, passes, Path(folder)) for name, passes in ways.items()}
        times = _timed(artifacts)
        return [
            Gain(
                subject.name,
                name,
                path.stat().st_size,
                len(gzip.compress(path.read_bytes())),
                median(times[name]),
                (min(times[name]), max(times[name])),
            )
            for name, path in artifacts.items()
        ]


def _artifact(program: Program, passes: list[Pass], folder: Path) -> Path:
    from edgec.backends.cpu.lower import lower
    from edgec.ir.weight_scheme import WeightScheme
    from edgec.passes.cleanup.fold_constants import FoldConstants
    from edgec.passes.compress.quantize import Quantize
    from edgec.passes.contract import run_passes
    from edgec.passes.fuse.fuse_rope import FuseRope
    from edgec.passes.kv.kv_cache import KvCache
    from edgec.passes.prefill.last_logits import LastLogits

    rounding = Quantize(default=WeightScheme(4, 32, scale_bits=16), lm_head=WeightScheme(8, 0))
    rest: list[Pass] = [LastLogits(1), FuseRope(), KvCache(256, 64), rounding, FoldConstants()]
    path = folder / f"{len(list(folder.iterdir()))}.pte"
    path.write_bytes(lower(run_passes(program, [*passes, *rest])).artifact)
    return path


def _timed(artifacts: dict[str, Path]) -> dict[str, list[float]]:
    """Measure the CPU ms per decoded token of each artifact, in turn."""
    from edgec.exporter.parity.execution import artifact_step

    steps = {name: artifact_step(path) for name, path in artifacts.items()}
    times: dict[str, list[float]] = {name: [] for name in artifacts}
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            times[name].append(_decode_ms(step))
    return times


def _decode_ms(step: Any) -> float:
    import torch

    began = process_time()
    for position in range(_STEPS):
        step(torch.tensor([[position % 100 + 3]]), torch.tensor([position]), torch.tensor([0]))
    return 1e3 * (process_time() - began) / _STEPS
