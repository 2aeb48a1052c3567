"""The roofline's proposal of which unit of a phone should read the prompt, and which should decode.

Prefill multiplies each weight that it reads with many tokens, so it is bound by operations; decode reads every weight
for a single token, so it is bound by the memory's bandwidth, which all units of a phone share. What share of it a unit
reaches was learnt in the calibration (docs/plan.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.forecast import Plan

_MULTIPLY_ADD = 2


@dataclass(frozen=True)
class UnitSpeed:
    """The speed expected of one unit in a phase; None: unavailable."""

    unit: str
    target: str
    tokens_per_s: Range | None


@dataclass(frozen=True)
class PhaseUnit:
    """The proposed unit for one phase.

    Attributes:
        phase: ``prefill`` or ``decode``.
        unit: the unit with the highest estimate; None where no unit has one.
        reason: why, in words.
        speeds: of all units of the phone, the proposed one first.
    """

    phase: str
    unit: str | None
    reason: str
    speeds: tuple[UnitSpeed, ...]


def unit_choice(plans: Mapping[str, Plan]) -> tuple[PhaseUnit, PhaseUnit]:
    """Propose a unit for prefill and one for decode.

    Args:
        plans: by unit; the one that was asked for first.
    """
    return (
        _phase("prefill", plans, lambda one: one.speeds.prefill_tokens_per_s, _prefill_reason),
        _phase("decode", plans, lambda one: one.speeds.decode_tokens_per_s, partial(_decode_reason, plans)),
    )


def _phase(
    name: str, plans: Mapping[str, Plan], speed: Callable[[Plan], Range | None], why: Callable[[Plan], str]
) -> PhaseUnit:
    speeds = [UnitSpeed(unit, one.target.name, speed(one)) for unit, one in plans.items()]
    speeds.sort(key=lambda each: each.tokens_per_s.mid if each.tokens_per_s else 0.0, reverse=True)
    best = speeds[0]
    if best.tokens_per_s is None:
        notes = "; ".join(next(iter(plans.values())).speeds.notes)
        return PhaseUnit(name, None, notes or "no unit has an estimate", tuple(speeds))
    reason = "; ".join((why(plans[best.unit]), *_doubts(best.tokens_per_s, speeds[1:])))
    return PhaseUnit(name, best.unit, reason, tuple(speeds))


def _doubts(best: Range, others: list[UnitSpeed]) -> Iterator[str]:
    """Reasons why a measurement might choose another unit."""
    near = [other.unit for other in others if other.tokens_per_s and other.tokens_per_s.high > best.low]
    unknown = [other.unit for other in others if other.tokens_per_s is None]
    if near:
        yield f"{' or '.join(near)} may be as fast: only a measurement can decide"
    if unknown:
        yield f"{' and '.join(unknown)}: unavailable"


def _prefill_reason(one: Plan) -> str:
    many = f"{one.call_tokens * _intensity(one):,.0f} for each byte of weights read"
    return f"bound by operations: {many}, {one.call_tokens} tokens at once"


def _decode_reason(plans: Mapping[str, Plan], one: Plan) -> str:
    bandwidth = one.target.bandwidth_bytes_per_s or 0.0
    reached = {unit: share for unit, other in plans.items() if (share := _share(other)) is not None}
    shares = ", ".join(f"{unit} {share:.0%}" for unit, share in sorted(reached.items(), key=lambda item: -item[1]))
    bound = f"bound by bandwidth: {_intensity(one):.1f} operations for each byte of weights read"
    return f"{bound}; of the memory's {bandwidth / 1e9:.3g} GB/s, units are estimated to reach: {shares}"


def _intensity(one: Plan) -> float:
    """Arithmetic intensity of one token: operations with weights for each byte of them."""
    return _MULTIPLY_ADD * one.macs_per_token / one.footprint.read_bytes


def _share(one: Plan) -> float | None:
    """Share of the peak bandwidth at which the estimated tokens read weights; None where unavailable."""
    speed, bandwidth = one.speeds.decode_tokens_per_s, one.target.bandwidth_bytes_per_s
    return speed.mid * one.footprint.read_bytes / bandwidth if speed and bandwidth else None
