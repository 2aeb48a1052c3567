"""Look-up tables of edgec and of coremltools side by side: python -m benchmarks.palettization [--json].

Both find the values that stand for groups of 16 output channels with the least squared error: edgec for all groups at
once on histograms; coremltools group by group, exactly (kmeans1d) from 10,000 float16 values on and with scikit-learn's
k-means below. Measured on the same float16 matrices: CPU seconds of one thread, and squared error of the values in the
tables. coremltools runs on a part; edgec also on the full set, the 64 million weights of four decoder layers 2,048
wide. All figures are measured except coremltools' time for the full set, which is its time per weight on the part
(estimated).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

GROUP_ROWS = 16
LAYER = ((2048, 2048), (512, 2048), (512, 2048), (2048, 2048), (1024, 2048), (1024, 2048), (2048, 1024))
"""Query, key, value, output, gate, up and down projections: 15.7 million weights."""
LAYERS = 4
PART_ROWS = 128
GOAL = 10.0
_ERROR = 1.005


@dataclass(frozen=True)
class Row:
    """The figures of one width of indices.

    Attributes:
        ours_ns: edgec's CPU time per weight on the part, nanoseconds.
        theirs_ns: coremltools' CPU time per weight on the part, nanoseconds.
        speedup: coremltools' time over edgec's, on the part.
        error_ratio: edgec's squared error over coremltools', on the part.
        full_s: edgec's CPU seconds on the full set.
        theirs_full_s: coremltools' CPU seconds on the full set, estimated from ``theirs_ns``.
    """

    bits: int
    ours_ns: float
    theirs_ns: float
    speedup: float
    error_ratio: float
    full_s: float | None
    theirs_full_s: float | None

    @property
    def passed(self) -> bool:
        """Whether it is fast enough, with an error at most half a percent above that of the exact optimum."""
        return self.speedup >= GOAL and self.error_ratio <= _ERROR


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", default="2,3,4,6,8", help="widths of indices")
    parser.add_argument("--full", default="2,4,8", help="of these, the widths to run on the full set as well")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    full = [int(bits) for bits in options.full.split(",") if bits]
    rows = measure([int(bits) for bits in options.bits.split(",")], full)
    if options.json:
        print(json.dumps({"weights": weights(), "rows": [asdict(row) for row in rows]}, indent=1))
        return
    print(f"Full set: {weights():,} weights.\n")
    print("| bits | edgec, ns/weight | coremltools, ns/weight | ratio | squared error, ratio | full set, s | goal |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(line(row), flush=True)


def line(row: Row) -> str:
    """The row as a line of Markdown."""
    full = "" if row.full_s is None else f"{row.full_s:.1f} against {row.theirs_full_s:.0f} (estimated)"
    parts = f"{row.ours_ns:.0f} | {row.theirs_ns:,.0f} | {row.speedup:.0f} | {row.error_ratio:.4f}"
    return f"| {row.bits} | {parts} | {full} | {'met' if row.passed else 'missed'} |"


def weights() -> int:
    """The number of weights in the full set."""
    return LAYERS * sum(rows * width for rows, width in LAYER)


def measure(widths: Sequence[int], full: Sequence[int]) -> Iterator[Row]:
    """Measure each width."""
    import torch

    torch.set_num_threads(1)
    part = [matrix(index, PART_ROWS, width) for index, (_, width) in enumerate(LAYER)]
    count = sum(each.numel() for each in part)
    for warm_up in (_edgec_error, _coremltools_error):
        warm_up(part[0], 4)
    for bits in widths:
        edgec_s, edgec_error = _timed(lambda bits=bits: sum(_edgec_error(each, bits) for each in part))
        peer_s, peer_error = _timed(lambda bits=bits: sum(_coremltools_error(each, bits) for each in part))
        full_s = full_set(bits) if bits in full else None
        estimated = peer_s / count * weights() if bits in full else None
        each_ns = (edgec_s / count * 1e9, peer_s / count * 1e9)
        yield Row(bits, *each_ns, peer_s / edgec_s, edgec_error / peer_error, full_s, estimated)


def matrix(seed: int, rows: int, width: int) -> Tensor:
    """Heavy-tailed values like those of trained layers: Student's t with 5 degrees of freedom, float16."""
    import torch

    random = np.random.default_rng(seed)
    return torch.from_numpy(random.standard_t(5, (rows, width)) * 0.02).half()


def full_set(bits: int) -> float:
    """The CPU seconds of tabulating every matrix of the full set, without making the matrices."""
    from edgec.ir.weight_scheme import lut
    from edgec.passes.compress.rounding.weight_tables import tabulate

    total = 0.0
    for seed in range(LAYERS):
        for index, shape in enumerate(LAYER):
            made = matrix(seed * len(LAYER) + index, *shape)
            total += _timed(lambda made=made: tabulate(made, lut(bits, GROUP_ROWS)))[0]
    return total


def _timed(work: Any) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def _edgec_error(weight: Tensor, bits: int) -> float:
    from edgec.ir.weight_scheme import lut
    from edgec.passes.compress.rounding.weight_tables import tabulate

    tabulated = tabulate(weight, lut(bits, GROUP_ROWS))
    return float((tabulated.dequantize() - weight.float()).double().square().sum())


def _coremltools_error(weight: Tensor, bits: int) -> float:
    """The squared error of the function that coremltools' palettiser calls for each group."""
    from coremltools.models.neural_network.quantization_utils import _get_kmeans_lookup_table_and_weight as palettize

    error = 0.0
    for rows in weight.numpy().reshape(-1, GROUP_ROWS, weight.shape[1]):
        table, index = palettize(bits, rows.reshape(-1))
        values = np.asarray(table).reshape(-1)[np.asarray(index).reshape(-1)].astype(np.float16)
        error += float(np.square(values.astype(np.float64) - rows.reshape(-1)).sum())

    return error


if __name__ == "__main__":
    main()
