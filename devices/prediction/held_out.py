"""The roofline's errors on devices that it was not calibrated on, and the width of range that they call for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.devices.prediction.calibration import Observation
from edgec.devices.prediction.roof import roof
from edgec.devices.prediction.roofline import FittedRoofline, FloatArray, calibrate
from edgec.devices.prediction.workload import Workload

CONFIDENCE = 0.8
UNITS = ("cpu", "gpu", "npu")

_QUANTILE = 0.85
"""Of the past errors: more than is stated, since they are those of few chips. With it ranges hold what they state on
devices that were left out (docs/plan.md)."""

_VENDORS_DIFFER = ("gpu", "npu")

OTHER_KIND_ROWS = 5.0
"""How many rows all laptops together count as for phones on the same unit, and all phones for laptops."""

OTHER_UNIT_ROWS = 5.0
"""How many rows all phones on another unit together count as; they steady the width where a unit has few rows."""


@dataclass(frozen=True)
class Miss:
    """The prediction error for one measurement, made by a calibration without its device.

    Attributes:
        log_error: ln(measured / predicted), told the bytes that the source published.
        asked_error: the same, told the bits alone, as plan is asked; the widths of ranges are those of these errors.
        deviation: predicted standard deviation of ``log_error``.
        width: half the width of the range in deviations, also determined without the device; NaN until then.
    """

    observation: Observation
    log_error: float
    asked_error: float
    deviation: float
    width: float = math.nan

    @property
    def relative_error(self) -> float:
        """The relative error |predicted / measured - 1|."""
        return abs(math.exp(-self.log_error) - 1)

    @property
    def score(self) -> float:
        """The error in standard deviations, as plan is asked."""
        return abs(self.asked_error) / self.deviation

    @property
    def covered(self) -> bool:
        """Whether the stated range contains the measurement, told the bytes."""
        return abs(self.log_error) <= self.width * self.deviation


def speed(observation: Observation, quantity: str) -> float | None:
    """The measured tokens/s of a quantity (``decode`` or ``prefill``), if published."""
    return observation.decode_tokens_per_s if quantity == "decode" else observation.prefill_tokens_per_s


def step(observation: Observation, quantity: str) -> float:
    """The last digit that its source gives of a speed."""
    return observation.decode_step if quantity == "decode" else observation.prefill_step


def calibrated(quantity: str, unit: str, rows: Sequence[Observation]) -> tuple[FittedRoofline, list[Observation]]:
    """The calibration on the rows that measure a quantity on a unit, and those rows."""
    used = [row for row in rows if row.workload.unit == unit and speed(row, quantity) is not None]
    speeds = [value for row in used if (value := speed(row, quantity)) is not None]
    return calibrate(quantity, [row.workload for row in used], speeds, [step(row, quantity) for row in used]), used


def misses(quantity: str, rows: Sequence[Observation], leave_out: str = "chip") -> list[Miss]:
    """Predict every row from the rows of other chips (``leave_out="chip"``) or devices (``"device"``)."""
    measured = {row.workload.unit for row in rows if speed(row, quantity) is not None}
    units = (unit for unit in UNITS if unit in measured)
    return [miss for unit in units for miss in _unit_misses(*calibrated(quantity, unit, rows), leave_out)]


def _unit_misses(fit: FittedRoofline, used: Sequence[Observation], leave_out: str) -> list[Miss]:
    """Leave-block-out residuals of a Gaussian process in closed form (Rasmussen & Williams, section 5.4.2).

    Rows are left out of whose vendor the others have none, where plan gives no estimate.
    """
    names = np.array([getattr(row.workload, leave_out) for row in used])
    weighted = fit.precision @ fit.log_shares
    unit_misses: list[Miss] = []
    for name in dict.fromkeys(names.tolist()):
        block = np.flatnonzero(names == name)
        others = [row.workload for row, own in zip(used, names == name, strict=True) if not own]
        covariance: FloatArray = np.linalg.inv(fit.precision[np.ix_(block, block)]).astype(np.float64)
        errors, deviations = covariance @ weighted[block], np.sqrt(np.diag(covariance))
        unit_misses += [
            _miss(fit.quantity, used[i], e, d)
            for i, e, d in zip(*map(np.ndarray.tolist, (block, errors, deviations)), strict=True)
            if any(is_alike(used[i].workload, other) for other in others)
        ]
    return unit_misses


def is_alike(work: Workload, other: Workload) -> bool:
    """Whether a workload on a unit tells of another: of accelerators, one vendor's tell nothing of another's."""
    return work.unit == other.unit and (work.unit not in _VENDORS_DIFFER or work.vendor == other.vendor)


def _miss(quantity: str, row: Observation, error: float, deviation: float) -> Miss:
    asked = replace(row.workload, weight_bytes=row.asked_bytes) if row.asked_bytes else row.workload
    return Miss(row, error, error + math.log(roof(quantity, row.workload) / roof(quantity, asked)), deviation)


def range_width(past: Sequence[Miss], work: Workload) -> float:
    """Half the width of a workload's range, in deviations: it holds a little more than is stated of past misses.

    A conformal quantile: rows of the same unit and kind of machine count in full, the others as a few rows together.
    """
    shared = Counter(_kind(miss.observation) for miss in past)
    weights = np.array([_weight(_kind(miss.observation), work, shared) for miss in past])
    scores = np.array([miss.score for miss in past])
    order = np.argsort(scores)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(scores[order][np.searchsorted(reached, _QUANTILE)])


def _kind(observation: Observation) -> tuple[str, bool]:
    return observation.workload.unit, observation.workload.laptop


def _weight(kind: tuple[str, bool], work: Workload, shared: Mapping[tuple[str, bool], int]) -> float:
    unit, laptop = kind
    if unit == work.unit:
        return 1.0 if laptop == work.laptop else min(1.0, OTHER_KIND_ROWS / shared[kind])
    return 0.0 if laptop else OTHER_UNIT_ROWS / shared[kind]


def nested_misses(quantity: str, rows: Sequence[Observation], leave_out: str = "chip") -> list[Miss]:
    """:func:`misses` with the range widths that would be stated without the chip or device left out."""
    outer = misses(quantity, rows, leave_out)
    names = dict.fromkeys(getattr(miss.observation.workload, leave_out) for miss in outer)
    scored: list[Miss] = []
    for name in names:
        others = misses(quantity, [row for row in rows if getattr(row.workload, leave_out) != name])
        own = [miss for miss in outer if getattr(miss.observation.workload, leave_out) == name]
        scored += [replace(miss, width=range_width(others, miss.observation.workload)) for miss in own]
    return scored
