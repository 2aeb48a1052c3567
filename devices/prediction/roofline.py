"""Tokens per second from a roofline that is calibrated on published speeds.

``roof.py`` models the roof. The share of it that a device reaches is learnt by Bayesian regression (a Gaussian
process with a linear kernel): a constant, slopes in the logarithms of bits, size, bandwidth, clock and cores, and one
effect each for what is in ``GROUPS``. Effects of one kind share a prior width, so a group with few rows is shrunk
towards its parents, and a chip that nobody has measured is predicted from its family, with the family's spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.devices.prediction.roof import REFERENCE_HZ, roof
from edgec.devices.prediction.workload import Workload

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Prior standard deviations, in log units.

    Attributes:
        software: of every effect of runtimes and kernels, also of kernels on a vendor's or on one chip.
        hardware: of every effect of vendor, family, chip, NPU generation and device.
        model: of every effect of the decoder, also on one chip.
        slope: of every slope.
        noise: between two published results of the same setup, beside what rounding explains.
    """

    software: float
    hardware: float
    model: float
    slope: float
    noise: float


SPREADS = {
    ("decode", "cpu"): Spread(software=0.1, hardware=0.2, model=0.1, slope=0.15, noise=0.15),
    ("decode", "gpu"): Spread(software=0.1, hardware=0.1, model=0.1, slope=0.15, noise=0.2),
    ("decode", "npu"): Spread(software=0.2, hardware=0.1, model=0.1, slope=0.1, noise=0.2),
    ("prefill", "cpu"): Spread(software=0.1, hardware=0.1, model=0.1, slope=0.05, noise=0.15),
    ("prefill", "gpu"): Spread(software=0.3, hardware=0.1, model=0.4, slope=0.05, noise=0.1),
    ("prefill", "npu"): Spread(software=0.4, hardware=0.2, model=0.2, slope=0.3, noise=0.1),
}
"""The spreads of greatest marginal likelihood over all rows, rounded to 0.05, those of effects at least 0.1. For
decoding on NPUs, where the likelihood is flat, the point near it that errs least on devices left out."""

GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "software": (("kernels",), ("runtime",), ("vendor", "kernels"), ("chip", "kernels")),
    "hardware": (("vendor",), ("family",), ("chip",), ("npu",), ("device",)),
    "model": (("model",), ("model", "chip")),
    "driver": (("driver",),),
    "arithmetic": (("floats_on",),),
    "floats elsewhere": (("floats_on", "chip"),),
    "recurrent": (("recurrent_on",),),
}

_LEVEL_VARIANCE = 4.0

_WIDE_SPREADS = {"driver": 0.5, "arithmetic": 0.4, "floats elsewhere": 0.3, "recurrent": 0.5}
"""The spreads of what nothing else tells, so that its own rows decide: of a chip whose driver limits the unit, of
floats against integers, and of states that are matrices with kernels that may not have them."""


@dataclass(frozen=True)
class FittedRoofline:
    """A roofline fitted to the measured workloads of one quantity and unit, ready to predict from.

    Attributes:
        quantity: ``decode`` or ``prefill``.
        log_shares: ln(measured tokens/s / roof), one per workload.
        precision: inverse of their prior covariance, [n, n].
    """

    quantity: str
    unit: str
    workloads: tuple[Workload, ...]
    log_shares: FloatArray
    precision: FloatArray


def calibrate(
    quantity: str, workloads: Sequence[Workload], tokens_per_s: Sequence[float], steps: Sequence[float] = ()
) -> FittedRoofline:
    """Fit the roofline to measurements on one unit.

    Args:
        quantity: ``decode`` or ``prefill``.
        workloads: all on the same unit.
        tokens_per_s: measured speeds, aligned with ``workloads``.
        steps: the last digit that is given of each speed, in tokens/s; empty: all were given exactly.
    """
    unit = workloads[0].unit
    shares = [math.log(speed / roof(quantity, work)) for work, speed in zip(workloads, tokens_per_s, strict=True)]
    noise = SPREADS[quantity, unit].noise ** 2 + rounding_variance(tokens_per_s, steps or [0.0] * len(workloads))
    covariance = prior_covariance(quantity, unit, workloads, workloads) + np.diag(noise)
    precision: FloatArray = np.linalg.inv(covariance).astype(np.float64)
    return FittedRoofline(quantity, unit, tuple(workloads), np.array(shares), precision)


def rounding_variance(tokens_per_s: Sequence[float], steps: Sequence[float]) -> FloatArray:
    """Variance of ln(speed) from rounding to a step: uniform in half a step either way."""
    variance: FloatArray = (np.array(steps) / 2 / np.array(tokens_per_s)) ** 2 / 3
    return variance


def predict(calibration: FittedRoofline, work: Workload) -> tuple[float, float]:
    """Mean and standard deviation of ln(tokens/s) for a workload."""
    quantity, unit = calibration.quantity, calibration.unit
    cross = prior_covariance(quantity, unit, [work], calibration.workloads)[0]
    own = prior_covariance(quantity, unit, [work], [work])[0, 0] + SPREADS[quantity, unit].noise ** 2
    mean = cross @ calibration.precision @ calibration.log_shares
    variance = own - cross @ calibration.precision @ cross
    return math.log(roof(quantity, work)) + float(mean), math.sqrt(float(variance))


RooflineTerm = Callable[[Workload], float]


def _log_bits(work: Workload) -> float:
    return math.log(work.bits_per_weight / 4.5)


def _log_bytes(work: Workload) -> float:
    return math.log(work.weight_bytes / 1e9)


def _log_prompt_parameters(work: Workload) -> float:
    return math.log(work.prompt_parameters / 1e9)


def _log_bandwidth(work: Workload) -> float:
    return math.log(work.bandwidth_bytes_per_s / 60e9)


def _log_clock(work: Workload) -> float:
    return math.log((work.core_hz or REFERENCE_HZ) / REFERENCE_HZ)


def _log_gpu_cores(work: Workload) -> float:
    return math.log(work.gpu_cores / 6) if work.gpu_cores else 0.0


_SLOPES: dict[tuple[str, str], tuple[RooflineTerm, ...]] = {
    ("decode", "cpu"): (_log_bits, _log_bytes, _log_bandwidth, _log_clock),
    ("decode", "gpu"): (_log_bits, _log_bytes, _log_bandwidth),
    ("decode", "npu"): (_log_bits, _log_bytes, _log_bandwidth),
    ("prefill", "cpu"): (_log_bits, _log_prompt_parameters, _log_bandwidth, _log_clock),
    ("prefill", "gpu"): (_log_bits, _log_prompt_parameters, _log_bandwidth, _log_gpu_cores),
    ("prefill", "npu"): (_log_bits, _log_prompt_parameters, _log_bandwidth),
}


def prior_covariance(quantity: str, unit: str, left: Sequence[Workload], right: Sequence[Workload]) -> FloatArray:
    """Prior covariance between the shares of two lists of workloads, [len(left), len(right)]."""
    spread = SPREADS[quantity, unit]
    kinds = {
        "software": spread.software,
        "hardware": spread.hardware,
        "model": spread.model,
        **_WIDE_SPREADS,
    }
    same = sum(width**2 * _same(group, left, right) for kind, width in kinds.items() for group in GROUPS[kind])
    lines = sum(np.outer([slope(a) for a in left], [slope(b) for b in right]) for slope in _SLOPES[quantity, unit])
    return np.asarray(_LEVEL_VARIANCE + same + spread.slope**2 * lines, dtype=np.float64)


def _same(group: tuple[str, ...], left: Sequence[Workload], right: Sequence[Workload]) -> FloatArray:
    """Where two workloads share an effect; those whose first field is empty have none."""
    numbers: dict[tuple[Any, ...], int] = {}

    def index(works: Sequence[Workload]) -> NDArray[np.int64]:
        return np.array([numbers.setdefault(tuple(getattr(w, f) for f in group), len(numbers)) for w in works])

    has = np.array([bool(getattr(work, group[0])) for work in left])
    shared: FloatArray = (np.equal.outer(index(left), index(right)) & has[:, None]).astype(np.float64)
    return shared
