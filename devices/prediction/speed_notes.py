"""What a plan says about its speeds: what they assume, what was learned, and why one is unavailable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from edgec.devices.prediction.footprint import OWN_KERNELS
from edgec.devices.prediction.peak_speed import fastest_prefill
from edgec.devices.prediction.speed import (
    Measured,
    calibrated_parameters,
    is_measured,
    known_speeds,
    reading_bytes_per_s,
)
from edgec.devices.prediction.workload import Workload
from edgec.devices.targets import Target

_REACH = 2.0
"""The factor by which a model may lie outside the measured sizes and still get an estimate."""


def unmeasured(quantity: str, work: Workload, target: Target, measured: Measured) -> str:
    """Why there is no estimate, as nothing alike was measured: the kind of unit, or the model's size; else empty."""
    if not is_measured(quantity, work, measured):
        kind = f" ({target.gpu})" if work.unit == "gpu" and target.gpu else ""
        return f"no {work.unit} of this vendor{kind} was measured, and those of others tell nothing of it"
    low, high = calibrated_parameters(quantity, work.unit, measured)
    if low / _REACH <= work.parameters <= high * _REACH:
        return ""
    sizes = f"{low / 1e9:.2g} to {high / 1e9:.2g} billion parameters"
    return f"on this kind of unit it was calibrated on {sizes}"


def unavailable(reasons: Mapping[str, str]) -> tuple[str, ...]:
    """Notes on speeds without an estimate, one where all have the same reason; ``reasons``: by quantity, or empty."""
    said = {quantity: reason for quantity, reason in reasons.items() if reason}
    if len(said) == len(reasons) and len(set(said.values())) == 1:
        return (f"speeds are unavailable: {next(iter(said.values()))}",)
    return tuple(f"{quantity} speed is unavailable: {reason}" for quantity, reason in said.items())


def notes_on(work: Workload, target: Target, measured: Measured) -> tuple[str, ...]:
    """What a plan's speeds were learned from, assume, and are limited by."""
    said = (_learned(work, measured), _published(work), _assumptions(work, target), _limits(work, target))
    return (*chain(*said), *_unbounded(work, target))


def _learned(work: Workload, measured: Measured) -> Iterator[str]:
    """A note on which of the user's own measurements count most here: those of the phone, else the chip, else any."""
    here = [each for each in measured if each.workload.unit == work.unit]
    for words, field in (("this phone", "device"), ("its chip", "chip"), ("other phones", "unit")):
        alike = [each.row for each in here if getattr(each.workload, field) == getattr(work, field)]
        if alike:
            yield f"learned from your measurements of {words}: {'; '.join(alike)}"
            return


def _published(work: Workload) -> Iterator[str]:
    """How near the published speeds are that the estimate rests on: why a newer chip may get less than an older one."""
    here, chip = (known_speeds(work, field) for field in ("device", "chip"))
    of_chip = f"{chip} of its chip's {work.unit}" if chip else f"none of its chip's {work.unit}"
    yield f"rests on published speeds: {here or 'none'} of this phone, {of_chip}"


def _limits(work: Workload, target: Target) -> Iterator[str]:
    """A note where the driver holds the unit back, whatever the memory could deliver."""
    if target.unit in target.driver_limited:
        low, high = (value / 1e9 for value in reading_bytes_per_s(work.chip, work.unit))
        peak = work.bandwidth_bytes_per_s / 1e9
        yield (
            f"the driver limits this chip's {work.unit}: where it was measured, it read {low:.0f} to {high:.0f} "
            f"of the memory's {peak:.0f} GB/s, so more bandwidth does not make it faster"
        )


def _unbounded(work: Workload, target: Target) -> Iterator[str]:
    if fastest_prefill(work, target) is None:
        yield f"the {work.unit}'s peak of arithmetic is not published: no bound ends the range of prefill"


def _assumptions(work: Workload, target: Target) -> Iterator[str]:
    if work.kernels == OWN_KERNELS:
        yield (
            "edgec's own kernels have not been measured on a phone yet: estimated from other software on this chip, "
            "with a wider range"
        )
    if work.runtime == "mlx":
        yield "no artifact of edgec's was measured on this GPU: the speeds are those of MLX"
    if target.bandwidth_low_bytes_per_s is not None and target.bandwidth_bytes_per_s is not None:
        low, high = (rate / 1e9 for rate in (target.bandwidth_low_bytes_per_s, target.bandwidth_bytes_per_s))
        yield f"which memory the phone has is not known: its {low:.3g} to {high:.3g} GB/s widen the ranges"
    if target.unit == "cpu" and target.core_clocks_hz is None:
        yield "core clocks unknown: those of a typical phone of 2024 assumed"
    if target.unit == "cpu" and target.instruction_set is None:
        yield "instruction set unknown: a speed between those with and without int8 matrix instructions is assumed"
    if target.unit == "cpu" and work.arithmetic == "float":
        yield (
            "prompts in floats were measured on one phone alone, two models of 64 tokens: a quarter of the speed of "
            "integers, with a wide range"
        )
