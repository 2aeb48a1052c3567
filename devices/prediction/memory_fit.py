"""Whether a model's memory fits an app on a phone, and which smaller recipe to propose where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import Footprint, Widths
from edgec.devices.targets import Target

_SMALLEST_CONTEXT = 1024


class Verdict(StrEnum):
    """The verdict on whether the peak memory stays below an app's limit."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Proposal:
    """A smaller recipe that fits, or fits better."""

    widths: Widths
    context: int
    peak_bytes: Range
    verdict: Verdict


WORTH_SHRINKING = (Verdict.TIGHT, Verdict.DOES_NOT_FIT)


def judge(peak: Range, limit: int | None, memory: int | None) -> Verdict:
    """Compare a peak with an app's limit and the phone's memory, in bytes; None means unknown.

    The verdict is ``TIGHT`` where only the lower end of the range fits.
    """
    if memory is not None and peak.low > memory:
        return Verdict.DOES_NOT_FIT
    if limit is None:
        return Verdict.UNKNOWN
    if peak.high <= limit:
        return Verdict.FITS
    return Verdict.TIGHT if peak.low <= limit else Verdict.DOES_NOT_FIT


Needs = Callable[[Widths, int], Footprint]


def smaller(widths: Widths, target: Target, context: int, needs: Needs) -> Proposal | None:
    """Propose the mildest cut that fits; where none does, the one that needs the least memory.

    Args:
        widths: the recipe that does not fit.
        target: its legal bits and its limits.
        context: tokens that the KV cache holds.
        needs: the footprint for other widths and another context.
    """
    proposals = [_proposal(narrower, shorter, target, needs) for narrower, shorter in _cuts(widths, target, context)]
    fitting = next((proposal for proposal in proposals if proposal.verdict is Verdict.FITS), None)
    return fitting or min(proposals, key=lambda proposal: proposal.peak_bytes.high, default=None)


def _proposal(widths: Widths, context: int, target: Target, needs: Needs) -> Proposal:
    peak = needs(widths, context).peak_bytes
    return Proposal(widths, context, peak, judge(peak, target.app_limit_bytes, target.memory_bytes))


def _cuts(widths: Widths, target: Target, context: int) -> list[tuple[Widths, int]]:
    """Ever smaller recipes and contexts: first the KV cache shrinks, then the weights, then the context."""
    steps = [widths]
    steps += [replace(widths, kv_bits=bits) for bits in (16, 8) if bits < widths.kv_bits]
    for bits in sorted((b for b in target.weight_bits if 4 <= b < widths.weight_bits), reverse=True):
        head, table = (min(given, max(bits, 8)) for given in (widths.lm_head_bits, widths.embedding_bits))
        steps.append(replace(steps[-1], weight_bits=bits, lm_head_bits=head, embedding_bits=table))
    if 4 in target.weight_bits and steps[-1].lm_head_bits > 4:
        steps.append(replace(steps[-1], lm_head_bits=4, embedding_bits=4))
    halvings = range(1, (context // _SMALLEST_CONTEXT).bit_length())
    return [(step, context) for step in steps[1:]] + [(steps[-1], context >> half) for half in halvings]
