"""How far two executions of a language model differ, in figures that a person can judge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK_VALUES = 1 << 17
# No model computes with larger numbers; masks are written by -1e30, float32's least number or an infinity.
_HIDDEN = 1e30


@dataclass(frozen=True)
class Difference:
    """A candidate's logits against a reference's, over P positions.

    Attributes:
        positions: P.
        max_abs: largest difference of a logit.
        mean_abs: mean difference of a logit.
        reference_max_abs: largest logit of the reference, the scale for ``max_abs``.
        kl_mean: mean over positions of KL(reference || candidate), nats.
        kl_max: largest of them.
        kl_error: two standard errors of ``kl_mean``, nats.
        top1_agreement: share of positions with the same most likely token; a difference counts only where the
            reference's two best logits are further apart than ``epsilon``.
        epsilon: in units of logits.
        decided: positions whose two best logits are further apart than that in the reference.
    """

    positions: int
    max_abs: float
    mean_abs: float
    reference_max_abs: float
    kl_mean: float
    kl_max: float
    top1_agreement: float
    epsilon: float
    decided: int
    kl_error: float = 0.0

    @property
    def max_relative(self) -> float:
        """``max_abs`` relative to the reference's scale; infinite when anything is not finite."""
        ratio = self.max_abs / max(self.reference_max_abs, 1e-12)
        return ratio if math.isfinite(ratio) else math.inf


def difference(reference: Tensor, candidate: Tensor, epsilon: float, widest: float = 0.0) -> Difference:
    """Compare logits, float [P, V] each; a candidate that is not finite where the reference is differs infinitely.

    Args:
        reference: the correct logits.
        candidate: the logits to judge.
        epsilon: the margin below which the reference's two best logits count as equal.
        widest: where the candidate's own noise explains flips at larger margins, ``epsilon`` grows up to this.
    """
    reference, candidate, _ = without_masks(reference.float(), candidate.float())
    if not bool(torch.isfinite(candidate).all()):
        scale = float(reference.abs().max())
        return Difference(reference.shape[0], math.inf, math.inf, scale, math.inf, math.inf, 0.0, epsilon, 0)
    gap = (reference - candidate).abs()
    kl = kl_rows(reference, candidate)
    epsilon = max(epsilon, min(widest, tie_margin(float(kl.median()))))
    best = reference.topk(min(2, reference.shape[-1]), -1).values
    margin = best[:, 0] - best[:, -1]
    same = (candidate.argmax(-1) == reference.argmax(-1)) | (margin <= epsilon)
    return Difference(
        positions=reference.shape[0],
        max_abs=float(gap.max()),
        mean_abs=float(gap.mean()),
        reference_max_abs=float(reference.abs().max()),
        kl_mean=float(kl.mean()),
        kl_max=float(kl.max()),
        top1_agreement=float(same.double().mean()),
        epsilon=epsilon,
        decided=int((margin > epsilon).sum()),
        kl_error=error_of_mean(kl),
    )


def without_masks(reference: Tensor, candidate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two executions with a plain number where both hide a value; and where that was, bool.

    A hidden value is an infinity, or a number beyond ``_HIDDEN``, in whose place float16 holds an infinity.
    """
    hidden = (reference.abs() >= _HIDDEN) & (candidate.abs() >= _HIDDEN) & (reference.sign() == candidate.sign())
    if not bool(hidden.any()):
        return reference, candidate, hidden
    kept = reference[~hidden]
    lowest, highest = (float(kept.min()), float(kept.max())) if kept.numel() else (0.0, 0.0)
    plain = torch.where(reference > 0, highest, lowest).to(reference.dtype)
    return torch.where(hidden, plain, reference), torch.where(hidden, plain, candidate), hidden


def tie_margin(kl: float) -> float:
    """The margin up to which noise of that KL divergence, in nats, may swap two logits.

    Noise of standard deviation s on every logit makes KL(reference || candidate) = s^2 / 2 to second order. The
    difference of two logits then varies by sqrt(2) s, and three standard deviations of that are 6 sqrt(KL).
    """
    return 6 * math.sqrt(max(kl, 0.0))


def error_of_mean(values: Tensor) -> float:
    """Two standard errors of the mean of values [P]; infinite for a single one."""
    return 2 * float(values.double().std()) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def kl_rows(reference: Tensor, candidate: Tensor) -> Tensor:
    """KL(reference || candidate) of each position, in float64, in blocks that fit a core's cache."""
    step = max(1, _BLOCK_VALUES // reference.shape[-1])
    pairs = zip(reference.split(step), candidate.split(step), strict=True)
    return torch.cat([_kl_of_rows(one, other) for one, other in pairs])


def _kl_of_rows(reference: Tensor, candidate: Tensor) -> Tensor:
    """Sum p (x - y) - lse(x) + lse(y), of logits x and y: one exponential of each, where log-softmaxes take three."""
    x, y = reference.double(), candidate.double()
    p = torch.softmax(x, -1)
    # The largest p is exp(max(x) - lse(x)).
    normalizer = x.amax(-1) - p.amax(-1).log()
    return (p.mul_(x - y).sum(-1) - normalizer + y.logsumexp(-1)).clamp_min(0)
