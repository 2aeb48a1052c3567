"""Whether a model's memory fits an app on a phone, and what to ask an export for where it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from edgec.devices.prediction.app_limit import AppLimit
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import Footprint, Widths


class Verdict(StrEnum):
    """The verdict on whether the peak memory stays below an app's limit.

    ``LIKELY`` and ``UNLIKELY`` stand for ``FITS`` and ``DOES_NOT_FIT`` where the limit is an estimate.
    """

    FITS = "fits"
    LIKELY = "likely fits"
    TIGHT = "may not fit"
    UNLIKELY = "unlikely to fit"
    DOES_NOT_FIT = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Narrower:
    """What else an export can be asked for: its options as one types them, and what they ask for."""

    options: tuple[str, ...]
    widths: Widths
    context: int


@dataclass(frozen=True)
class Proposal:
    """Options of an export with which a model fits, or fits better."""

    asked: Narrower
    peak_bytes: Range
    verdict: Verdict


WORTH_SHRINKING = (Verdict.TIGHT, Verdict.UNLIKELY, Verdict.DOES_NOT_FIT)
_GOOD = (Verdict.FITS, Verdict.LIKELY)


def judge(peak: Range, limit: AppLimit | None, memory: int | None) -> Verdict:
    """Compare a peak with an app's limit and the phone's memory, in bytes; None means unknown.

    The verdict is ``FITS`` where the upper end is below what is granted at least, ``DOES_NOT_FIT`` where the lower end
    is above what is granted at most, and ``TIGHT`` between. Of an estimated limit both are only likely, except that
    nothing fits that needs more than the memory.
    """
    if memory is not None and peak.low > memory:
        return Verdict.DOES_NOT_FIT
    if limit is None:
        return Verdict.UNKNOWN
    estimated = limit.how == "estimated"
    if peak.high <= limit.low_bytes:
        return Verdict.LIKELY if estimated else Verdict.FITS
    if peak.low <= limit.high_bytes:
        return Verdict.TIGHT
    return Verdict.UNLIKELY if estimated else Verdict.DOES_NOT_FIT


Needs = Callable[[Widths, int], Footprint]
"""The footprint for widths and a context."""


def mildest(options: Sequence[Narrower], limit: AppLimit | None, memory: int | None, needs: Needs) -> Proposal | None:
    """Propose the first option that fits; where none does, the one that needs the least memory.

    Args:
        options: what else an export can be asked for, the mildest first.
        limit: of one app.
        memory: of the phone, bytes.
        needs: the footprint for other widths and another context.
    """
    proposals = [_proposal(option, limit, memory, needs) for option in options]
    fitting = next((proposal for proposal in proposals if proposal.verdict in _GOOD), None)
    return fitting or min(proposals, key=lambda proposal: proposal.peak_bytes.high, default=None)


def _proposal(option: Narrower, limit: AppLimit | None, memory: int | None, needs: Needs) -> Proposal:
    peak = needs(option.widths, option.context).peak_bytes
    return Proposal(option, peak, judge(peak, limit, memory))
