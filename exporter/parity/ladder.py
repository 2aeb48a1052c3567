"""The parity ladder: every stage against the one before it, and the result against the float model.

*Lowering* rungs compare two executions of the same arithmetic and are always gated. *Quality* rungs compare a rounded
model with the float one on text and are gated for trained models only: on random weights 4-bit rounding alone flips
most top-1 tokens. How far a rung may differ is its budget, which the manifest states next to what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.execution_noise import Noise
from edgec.exporter.parity.metrics import Difference, difference, tie_margin
from edgec.exporter.parity.output_difference import OutputDifference, output_difference
from edgec.exporter.parity.output_form import OutputForm
from edgec.exporter.parity.refusals import AT_LEAST, EXACT_EPSILON, refusal
from edgec.exporter.recipes.recipe import Recipe
from edgec.ir.program import Effect

# Float32 sums in another order: measured 1e-6 of the largest logit, ten layers deep; 1e-4 leaves room for 100 layers.
EXACT = {"max_relative": 1e-4}
# Another instruction order over the same integers: 8-bit activations may round one step apart, float16 sums too. These
# are the limits where nobody measured how far two right executions differ; else they are those of ``measured``.
ROUNDED_LOWERING = {"kl_mean": 1e-2, "top1_agreement": 0.97}
FLOAT_LOWERING = {"max_relative": 1e-3}
# Three executed methods after each other, each within FLOAT_LOWERING; measured 2e-3 on a tiny random T5, whose scores
# are not scaled, so that a sharp softmax makes more of the last bits.
WHOLE_LOWERING = {"max_relative": 1e-2, "kl_mean": 1e-3, "top1_agreement": 1.0}
# A float model in float16: measured 7e-3 of the largest logit at most, over five families of decoders.
HALF_LOWERING = {"max_relative": 3e-2, "kl_mean": 1e-2, "top1_agreement": 1.0}
# Few-bit weights in float16 artifacts, a decoder of 8 layers in three formats: intact at most KL 5.2e-5 nats and 0.6 %
# of the largest logit; with two 512-byte blocks of one 4-bit matrix swapped, at least 1.5e-4 and 1.1 %.
COMPRESSED_HALF_LOWERING = {"max_relative": 1e-2, "kl_mean": 1e-4, "top1_agreement": 1.0}
# The same for untrained weights (known_text.py), which let rounding grow: 27 artifacts of 14 random decoders of
# four shapes within KL 5.0e-4 and 3.2 % (in float32 1.2e-7 and 0.11 %); with two blocks swapped, 0.41 and 106 %.
UNTRAINED_HALF_LOWERING = {"max_relative": 6e-2, "kl_mean": 1e-3, "top1_agreement": 1.0}
# Outputs of a module are not distributions over tokens: their size is compared, and every channel's by itself.
HALF_MODULE = {"max_relative": 3e-2}
ROUNDED_MODULE = {"max_relative": 0.1}
# Of the divergence between two right executions (execution_noise.py). Over 87 positions its mean varies by a tenth from
# one to the next, and the artifact is one more: half as much again is five times that, and what lies beyond is judged
# with its own roundings (own_roundings.py). ALONE, where nothing judges again.
MULTIPLE, ALONE = 1.5, 4.0
# Sums in float32, and 16-bit keys that fall to the other side once in a text: at most 1e-6 nats on all models tried.
FLOOR = 1e-5
# Where two right executions differ by more than this, logits show no fault: only the artifact's own roundings do.
MOST_NOISE = 0.03
# Of calls that only show whether a method writes and reads where it should: swapped caches move a trained model's
# logits by nats, and few positions of a short text are noisier than a whole one.
MOST_NOISE_OF_CALLS = 0.5
QUALITY = {"kl_mean": 0.15, "top1_agreement": 0.80}
_EPSILON = {"exact": EXACT_EPSILON, "rounded": 0.1, "quality": 0.25}
# Values that lie on a boundary fall to either side of it: one in a thousand of a map, and none of a short list.
EQUAL = {"lowering": 0.999, "quality": QUALITY["top1_agreement"]}
AnyDifference = Difference | OutputDifference


@dataclass(frozen=True)
class Stage:
    """One form of the model and its logits, float32 [P, V]; or one output of a module [1, N], of a ``form``.

    ``further``: float32 [Q, V], at positions of a longer text where only quality is compared.
    """

    name: str
    logits: Tensor
    effect: Effect = Effect.EXACT
    form: OutputForm | None = None
    further: Tensor | None = None


def executed_budget(
    recipe: Recipe, *, rounded: bool, noise: Noise | None = None, multiple: float = MULTIPLE
) -> Mapping[str, float]:
    """How far a decoder may differ where it is executed another time on a CPU.

    Args:
        recipe: its budgets are about the difference from the float model, which the artifact is without rounding.
        rounded: values are rounded, so that two executions may rightly differ.
        noise: how far two right executions of its graph differ; None where that was not measured.
        multiple: of the noise that passes.
    """
    own = measured(ROUNDED_LOWERING, noise, multiple)
    return accepting(own, recipe) if rounded else {**FLOAT_LOWERING, **recipe.budgets}


def measured(
    budget: Mapping[str, float], noise: Noise | None, multiple: float, most: float = MOST_NOISE
) -> Mapping[str, float]:
    """A budget of lowering with the divergence that was measured of two right executions in place of a constant.

    ``most``: the largest divergence that passes.
    """
    if noise is None:
        return budget
    limits = {"kl_mean": min(multiple * noise.kl_mean + FLOOR, most)}
    return {name: limits.get(name, limit) for name, limit in budget.items() if name != "max_relative"}


def accepting(budget: Mapping[str, float], recipe: Recipe) -> Mapping[str, float]:
    """A budget of lowering, with what the caller accepts where that is looser; a recipe's own says nothing of it."""
    loosest = {name: min if name in AT_LEAST else max for name in budget}
    return {name: loosest[name](limit, recipe.accepted.get(name, limit)) for name, limit in budget.items()}


def lowering_rung(
    before: Stage, after: Stage, budget: Mapping[str, float] = EXACT, *, note: str = "", rounded: bool = False
) -> Rung:
    """Compare two executions of the same arithmetic; always gated.

    A flipped top-1 token counts only where the margin of the two best logits is wider than the noise that explains the
    median divergence, and than the noise that the budget allows.
    """
    epsilon = _EPSILON["rounded" if rounded else "exact"]
    if before.form is not None:
        # A channel is as noisy as others, and may vary less than they do; rounding takes its finest digits.
        judged = _with_channels(budget, min(0.5, max(0.02, 10 * budget.get("max_relative", 0.0))))
        return _output_rung("lowering", before, after, judged, epsilon, gated=True, note=note)
    gap = difference(before.logits, after.logits, epsilon, tie_margin(budget.get("kl_mean", 0.0)))
    if "top1_agreement" in budget:
        note = "; ".join(filter(None, [note, f"top-1 compared at {gap.decided} of {gap.positions} positions"]))
    return _rung("lowering", before, after, gap, budget, gated=True, note=note)


def quality_rung(reference: Stage, after: Stage, budget: Mapping[str, float], *, gated: bool, note: str = "") -> Rung:
    """Compare a rounded model with the float one, on text or examples."""
    if reference.form is not None:
        # A channel whose difference is as large as all that it varies by says nothing any more.
        judged = _with_channels(budget, 1.0)
        return _output_rung("quality", reference, after, judged, _EPSILON["quality"], gated=gated, note=note)
    gap = difference(*_everywhere(reference, after), _EPSILON["quality"])
    return _rung("quality", reference, after, gap, budget, gated=gated, note=note)


def _everywhere(reference: Stage, after: Stage) -> tuple[Tensor, Tensor]:
    """The logits of two stages at all positions that both have."""
    if reference.further is None or after.further is None:
        return reference.logits, after.logits
    return torch.cat([reference.logits, reference.further]), torch.cat([after.logits, after.further])


def _with_channels(budget: Mapping[str, float], share: float) -> Mapping[str, float]:
    """The budget with that of a channel, where there is one for outputs and none for channels."""
    return {"channel_relative": max(share, budget.get("max_relative", 0.0)), **budget} if budget else budget


def _output_rung(
    half: str, before: Stage, after: Stage, budget: Mapping[str, float], epsilon: float, *, gated: bool, note: str
) -> Rung:
    assert before.form is not None
    gap = output_difference(before.logits, after.logits, before.form, epsilon)
    if before.form.counts:
        budget = {"equal_share": budget.get("equal_share", EQUAL[half])} if budget else {}
    elif before.form.probability and "probability" in budget:
        # A tenth of a probability of 0.02 is nothing, and a tenth of 0.9 is much.
        budget = {"probability": budget["probability"]}
    return _rung(half, before, after, gap, budget, gated=gated, note=note)


def _rung(
    half: str, before: Stage, after: Stage, gap: AnyDifference, budget: Mapping[str, float], *, gated: bool, note: str
) -> Rung:
    return Rung(
        half="lowering" if half == "lowering" else "quality",
        stage=after.name,
        reference=before.name,
        effect=after.effect.value,
        positions=gap.positions,
        max_abs=_finite(gap.max_abs),
        mean_abs=_finite(gap.mean_abs),
        reference_max_abs=_finite(gap.reference_max_abs),
        kl_mean=_finite(getattr(gap, "kl_mean", None)),
        kl_max=_finite(getattr(gap, "kl_max", None)),
        kl_error=_finite(getattr(gap, "kl_error", None)) if half == "quality" else None,
        channel_relative=_finite(getattr(gap, "channel_relative", None)),
        top1_agreement=getattr(gap, "top1_agreement", None),
        probability=_finite(getattr(gap, "probability", None)),
        equal_share=getattr(gap, "equal_share", None),
        place=getattr(gap, "place", ""),
        epsilon=getattr(gap, "epsilon", 0.0),
        budget=(limits := {name: limit for name, limit in budget.items() if getattr(gap, name, None) is not None}),
        gated=gated,
        passed=not excesses(gap, limits),
        note=note,
    )


def excesses(gap: AnyDifference, budget: Mapping[str, float]) -> list[str]:
    """The figures outside the budget, in words."""
    measured = {name: float(getattr(gap, name)) for name in budget}
    return [
        f"{name} {measured[name]:.3g} {'below' if name in AT_LEAST else 'above'} {limit:.3g}"
        for name, limit in budget.items()
        if (measured[name] < limit if name in AT_LEAST else not measured[name] <= limit)
    ]


def with_error(rung: Rung) -> Rung:
    """A rung of quality that fails by no more than its figures' error passes, since a later one judges on more text."""
    kl, top1, error = rung.kl_mean, rung.top1_agreement, rung.kl_error
    known = rung.half == "quality" and rung.budget.keys() <= {"kl_mean", "top1_agreement"}
    if rung.passed or not known or kl is None or top1 is None or error is None:
        return rung
    best = {"kl_mean": kl - error, "top1_agreement": top1 + 2 * math.sqrt(top1 * (1 - top1) / rung.positions)}
    beyond = [best[name] < limit if name in AT_LEAST else best[name] > limit for name, limit in rung.budget.items()]
    note = "; ".join(filter(None, [rung.note, "within its error: judged on more text with the last change"]))
    return rung if any(beyond) else rung.model_copy(update={"passed": True, "note": note})


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def of_method(rung: Rung, method: str) -> Rung:
    """A rung that says which method of several it is about."""
    return rung.model_copy(update={"stage": f"{method}: {rung.stage}", "reference": f"{method}: {rung.reference}"})


def gate(rungs: Sequence[Rung], fix: str = "") -> None:
    """Stop at the first gated rung that missed its budget; ``fix``: what to do then, where that is known better.

    Raises:
        BudgetError: E201, E202 a channel of an output is lost, E203 integers differ; nothing was written.
    """
    for rung in rungs:
        if rung.gated and not rung.passed:
            raise refusal(rung, fix)
