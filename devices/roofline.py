"""Tokens per second from a roofline, calibrated on published speeds.

The roof is physics: decode reads all weights once per token, prefill multiplies them once per token. What share of its
roof a device reaches is learnt by Bayesian regression (a Gaussian process with a linear kernel): a constant, slopes in
the logarithms of bits, size, bandwidth and clock, and one effect each for kernels, runtime, vendor, chip family, chip,
device and model. Every effect has the same prior width per unit, so a group with few rows is shrunk towards its
parents, and a chip nobody has measured is predicted from its family with the family's spread as uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.devices.workload import Workload

Floats = NDArray[np.float64]

DISPATCH_S = 1e-3
"""Seconds every decoded token costs beside reading weights (dispatch, synchronisation, sampling)."""

NOISE = 0.2
"""Standard deviation, in log units, of the same setup published twice (112 to 167 tokens/s on one iPhone 17 Pro)."""

GROUPS: tuple[tuple[str, ...], ...] = (
    ("kernels",),
    ("runtime",),
    ("vendor",),
    ("family",),
    ("chip",),
    ("chip", "runtime"),
    ("device",),
    ("model",),
    ("model", "chip"),
)

SPREADS = {
    ("decode", "cpu"): 0.3,
    ("decode", "gpu"): 0.2,
    ("decode", "npu"): 0.4,
    ("prefill", "cpu"): 0.3,
    ("prefill", "gpu"): 0.5,
    ("prefill", "npu"): 0.4,
}
"""Prior standard deviation of every effect and slope, in log units: round numbers, not fitted."""

_LEVEL_VARIANCE = 4.0


@dataclass(frozen=True)
class Calibration:
    """Measured workloads of one quantity and unit, ready to predict from.

    Attributes:
        quantity: ``decode`` or ``prefill``.
        log_shares: ln(measured tokens/s / roof), one per workload.
        precision: inverse of their prior covariance, [n, n].
    """

    quantity: str
    unit: str
    workloads: tuple[Workload, ...]
    log_shares: Floats
    precision: Floats


def calibrate(quantity: str, workloads: Sequence[Workload], tokens_per_s: Sequence[float]) -> Calibration:
    """Condition on measurements of one unit.

    Args:
        quantity: ``decode`` or ``prefill``.
        workloads: all on the same unit.
        tokens_per_s: measured speeds, aligned with ``workloads``.
    """
    unit = workloads[0].unit
    shares = [math.log(speed / roof(quantity, work)) for work, speed in zip(workloads, tokens_per_s, strict=True)]
    covariance = prior_covariance(quantity, unit, workloads, workloads) + NOISE**2 * np.eye(len(workloads))
    precision: Floats = np.linalg.inv(covariance).astype(np.float64)
    return Calibration(quantity, unit, tuple(workloads), np.array(shares), precision)


def predict(calibration: Calibration, work: Workload) -> tuple[float, float]:
    """Mean and standard deviation of ln(tokens/s) for a workload."""
    quantity, unit = calibration.quantity, calibration.unit
    cross = prior_covariance(quantity, unit, [work], calibration.workloads)[0]
    own = prior_covariance(quantity, unit, [work], [work])[0, 0] + NOISE**2
    mean = cross @ calibration.precision @ calibration.log_shares
    variance = own - cross @ calibration.precision @ cross
    return math.log(roof(quantity, work)) + float(mean), math.sqrt(float(variance))


def roof(quantity: str, work: Workload) -> float:
    """Tokens per second at full use; for prefill in arbitrary units, since no trustworthy peak is published."""
    if quantity == "decode":
        return 1 / (work.weight_bytes / work.bandwidth_bytes_per_s + DISPATCH_S)
    return _operations_per_s(work) / (2 * work.parameters)


def _operations_per_s(work: Workload) -> float:
    """CPU: clock times width of the integer dot product. GPU and NPU: one scale for all (see docs/plan.md)."""
    if work.unit != "cpu":
        return 1e12
    return (work.core_hz or _REFERENCE_HZ) * 100 * (1 if work.int8_matmul else 0.5)


_REFERENCE_HZ = 13e9
"""Four fast cores of a 2024 phone; the centre of the clock feature, and the value of an unknown clock."""

Feature = Callable[[Workload], float]


def _log_bits(work: Workload) -> float:
    return math.log(8 * work.weight_bytes / work.parameters / 4.5)


def _log_bytes(work: Workload) -> float:
    return math.log(work.weight_bytes / 1e9)


def _log_parameters(work: Workload) -> float:
    return math.log(work.parameters / 1e9)


def _log_bandwidth(work: Workload) -> float:
    return math.log(work.bandwidth_bytes_per_s / 60e9)


def _log_clock(work: Workload) -> float:
    return math.log((work.core_hz or _REFERENCE_HZ) / _REFERENCE_HZ)


def _log_gpu_cores(work: Workload) -> float:
    return math.log(work.gpu_cores / 6) if work.gpu_cores else 0.0


_SLOPES: dict[tuple[str, str], tuple[Feature, ...]] = {
    ("decode", "cpu"): (_log_bits, _log_bytes, _log_bandwidth, _log_clock),
    ("decode", "gpu"): (_log_bits, _log_bytes, _log_bandwidth),
    ("decode", "npu"): (_log_bits, _log_bytes, _log_bandwidth),
    ("prefill", "cpu"): (_log_bits, _log_parameters, _log_bandwidth, _log_clock),
    ("prefill", "gpu"): (_log_bits, _log_parameters, _log_bandwidth, _log_gpu_cores),
    ("prefill", "npu"): (_log_bits, _log_parameters, _log_bandwidth),
}


def prior_covariance(quantity: str, unit: str, left: Sequence[Workload], right: Sequence[Workload]) -> Floats:
    """How alike the shares of two lists of workloads are expected to be, [len(left), len(right)]."""
    same = sum(_same(group, left, right) for group in GROUPS)
    lines = sum(np.outer([slope(a) for a in left], [slope(b) for b in right]) for slope in _SLOPES[quantity, unit])
    return np.asarray(_LEVEL_VARIANCE + SPREADS[quantity, unit] ** 2 * (same + lines), dtype=np.float64)


def _same(group: tuple[str, ...], left: Sequence[Workload], right: Sequence[Workload]) -> Floats:
    numbers: dict[tuple[Any, ...], int] = {}

    def index(works: Sequence[Workload]) -> NDArray[np.int64]:
        return np.array([numbers.setdefault(tuple(getattr(w, f) for f in group), len(numbers)) for w in works])

    return np.equal.outer(index(left), index(right)).astype(np.float64)
