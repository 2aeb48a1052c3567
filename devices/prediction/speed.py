"""Speed estimates from the calibrated roofline: tokens per second of decoding and of prefill, as ranges."""

from __future__ import annotations

import math
from functools import cache

from edgec.devices.prediction.calibration import Observation, observations
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.held_out import CONFIDENCE, Miss, calibrated, is_alike, misses, range_width
from edgec.devices.prediction.roofline import FittedRoofline, predict
from edgec.devices.prediction.workload import Workload

Measured = tuple[Observation, ...]
"""The user's own measurements, which count beside the published ones."""


def decode_tokens_per_s(work: Workload, measured: Measured = ()) -> Range:
    """Tokens per second of one decoding stream, as a range meant to hold 80 % of cases."""
    return _speed("decode", work, measured)


def prefill_tokens_per_s(work: Workload, measured: Measured = ()) -> Range:
    """Prompt tokens per second for prompts of a hundred tokens or more, as a range meant to hold 80 % of cases."""
    return _speed("prefill", work, measured)


def calibrated_parameters(quantity: str, unit: str, measured: Measured = ()) -> tuple[float, float]:
    """Parameter counts of the smallest and the largest model that ``decode`` or ``prefill`` was calibrated on."""
    sizes = [work.parameters for work in _calibration(quantity, unit, measured).workloads]
    return min(sizes), max(sizes)


def is_measured(quantity: str, work: Workload, measured: Measured = ()) -> bool:
    """Whether ``decode`` or ``prefill`` was calibrated on a unit of the workload's kind."""
    return any(is_alike(work, known) for known in _calibration(quantity, work.unit, measured).workloads)


def known_speeds(work: Workload, field: str) -> int:
    """How many speeds were published on the unit of a workload's device or chip, as ``field`` says."""
    alike = [row for row in observations() if row.workload.unit == work.unit]
    return sum(getattr(row.workload, field) == getattr(work, field) for row in alike)


def reading_bytes_per_s(chip: str, unit: str) -> tuple[float, float]:
    """The lowest and highest rate at which published decoding on a chip's unit read weights and cache."""
    rates = [
        (row.workload.weight_bytes + row.workload.cache_bytes) * row.decode_tokens_per_s
        for row in observations()
        if row.decode_tokens_per_s is not None and (row.workload.chip, row.workload.unit) == (chip, unit)
    ]
    return min(rates), max(rates)


def _speed(quantity: str, work: Workload, measured: Measured) -> Range:
    mean, deviation = predict(_calibration(quantity, work.unit, measured), work)
    half = range_width(_misses(quantity), work) * deviation
    return Range(math.exp(mean - half), math.exp(mean), math.exp(mean + half), CONFIDENCE)


@cache
def _calibration(quantity: str, unit: str, measured: Measured) -> FittedRoofline:
    return calibrated(quantity, unit, (*observations(), *measured))[0]


@cache
def _misses(quantity: str) -> tuple[Miss, ...]:
    return tuple(misses(quantity, observations()))
