"""The accuracy of `edgec plan` as it is asked: by a decoder's config, a phone and bits, through plan's own code.

    config, phone, bits  ->  plan's footprint and task  ->  workload  ->  regression without what is held out  ->  range

A published row says which runtime ran: where that is not edgec's artifact, the workload takes the row's runtime and
kernels, and the calls and caches of that runtime, in place of edgec's. Bytes are never those of the row.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, sqrt
from pathlib import Path
from typing import Any

from edgec.devices.prediction.calibration import USUAL_CONTEXT, USUAL_PROMPT, Observation, read_observations
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.forecast import plan, speed_task
from edgec.devices.prediction.held_out import CONFIDENCE, Miss, calibrated, is_alike, misses, range_width, speed
from edgec.devices.prediction.parameters import DecoderShape
from edgec.devices.prediction.peak_speed import fastest_decode, fastest_prefill
from edgec.devices.prediction.roofline import FittedRoofline, predict
from edgec.devices.prediction.speed_forecast import planned_workload
from edgec.devices.prediction.workload import Workload
from edgec.devices.targets import Target, all_targets

HERE = Path(__file__).parent

_ANY_BITS = tuple(range(1, 33))
"""Other runtimes hold other bits than edgec's formats."""

_LENGTH = {"max_position_embeddings": 2**17}
"""Published rows never ask for more than their model takes."""

Shapes = Callable[[str], DecoderShape]


@dataclass(frozen=True)
class Answer:
    """What a plan says where a published row has the truth.

    Attributes:
        measured: tokens per second, as published; ``estimate``: as planned.
    """

    row: Observation
    target: Target
    measured: float
    estimate: Range

    @property
    def relative_error(self) -> float:
        """The relative error |planned / measured - 1|."""
        return abs(self.estimate.mid / self.measured - 1)

    @property
    def inside(self) -> bool:
        """Whether the stated range contains the measurement."""
        return self.estimate.low <= self.measured <= self.estimate.high

    @property
    def factor(self) -> float:
        """Half the width of the range, as a factor."""
        return sqrt(self.estimate.high / self.estimate.low)


def unfitted() -> tuple[Observation, ...]:
    """Published speeds that no calibration has seen (docs/plan.md says how they were chosen)."""
    return read_observations(HERE / "unfitted_speeds.csv")


@cache
def shape_of(decoder: str) -> DecoderShape:
    """A measured decoder's layers and parameters, from its published config."""
    from edgec.exporter.dimensions.parameters import decoder_shape

    configs = tomllib.loads((HERE / "measured_decoders.toml").read_text(encoding="utf-8"))
    return decoder_shape(_LENGTH | configs[decoder])


def without(rows: Sequence[Observation], field: str) -> Callable[[Observation], tuple[Observation, ...]]:
    """For one row: the rows of other devices, chips or models."""

    def others(row: Observation) -> tuple[Observation, ...]:
        own = getattr(row.workload, field)
        return tuple(each for each in rows if getattr(each.workload, field) != own)

    return others


def answers(
    quantity: str,
    asked: Sequence[Observation],
    known: Callable[[Observation], tuple[Observation, ...]],
    shapes: Shapes = shape_of,
) -> Iterator[Answer]:
    """What plan says of each row, knowing the rows that ``known`` gives for it.

    Left out are rows without a target, and those of which plan then says that nothing of their kind was measured.
    """
    fits: dict[tuple[object, str], tuple[FittedRoofline, tuple[Miss, ...]]] = {}
    for row in asked:
        measured, target = speed(row, quantity), target_of(row.workload)
        work = None if target is None else workload_of(quantity, row, target, shapes)
        if measured is None or target is None or work is None:
            continue
        rows = known(row)
        key = (tuple(each.row for each in rows), work.unit)
        if key not in fits:
            fits[key] = (calibrated(quantity, work.unit, rows)[0], tuple(misses(quantity, rows)))
        if not any(is_alike(work, each) for each in fits[key][0].workloads):
            continue
        yield Answer(row, target, measured, _estimate(quantity, *fits[key], work, target))


def _estimate(quantity: str, fit: FittedRoofline, past: Sequence[Miss], work: Workload, target: Target) -> Range:
    mean, deviation = predict(fit, work)
    half = range_width(past, work) * deviation
    bound = fastest_decode(work) if quantity == "decode" else fastest_prefill(work, target)
    return Range(exp(mean - half), exp(mean), exp(mean + half), CONFIDENCE).at_most(bound)


def target_of(work: Workload) -> Target | None:
    """The phone that a row names; where it names none that is known, one with its chip."""
    alike = [each for each in all_targets() if (each.chip, each.unit) == (work.chip, work.unit)]
    same = [each for each in alike if each.phone == work.device]
    return next(iter(same or alike), None)


def workload_of(quantity: str, row: Observation, target: Target, shapes: Shapes = shape_of) -> Workload | None:
    """What plan makes of a row's decoder, phone, bits and lengths, run by the row's software."""
    work, decoder = row.workload, shapes(row.workload.model)
    cached, prompt = round(row.context_tokens or USUAL_CONTEXT), round(row.prompt_tokens or USUAL_PROMPT)
    # Plan gives decoding at the prompt's end: what fills the cache is its prompt.
    any_bits = replace(target, weight_bits=_ANY_BITS)
    told = cached if quantity == "decode" else prompt
    planned = plan(decoder, any_bits, _widths(row), context=max(cached, prompt), prompt_tokens=told)
    tokens = (planned.prompt_tokens, planned.call_tokens, planned.context)
    task = speed_task(decoder.spec, decoder.parameters, target, planned.widths, planned.footprint, tokens)
    made = planned_workload(task, target, _software(work))
    return None if made is None else replace(made, device=work.device)


def _software(work: Workload) -> Mapping[str, Any]:
    return {"runtime": work.runtime, "kernels": work.kernels, "float_inputs": work.float_inputs}


def _widths(row: Observation) -> Widths:
    """What a user asks for: bits of the linear layers, floats everywhere where those are floats."""
    bits, cached = row.bits, 32 if row.workload.runtime in ("executorch", "mediapipe") else 16
    if bits >= 16:
        return Widths(bits, 0, bits, bits, cached)
    return Widths(weight_bits=bits, kv_bits=8 if row.workload.runtime == "qnn" else cached)
