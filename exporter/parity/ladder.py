"""The parity ladder: every stage against the one before it, and the result against the float model.

*Lowering* rungs compare two executions of the same arithmetic and are always gated. *Quality* rungs compare a rounded
model with the float one on text and are gated for trained models only: on random weights 4-bit rounding alone flips
most top-1 tokens. How far a rung may differ is its budget, which the manifest states next to what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.errors import BudgetError
from edgec.exporter.parity.metrics import Difference, difference, tie_margin
from edgec.ir.program import Effect

# Float32 sums in another order: measured 1e-6 of the largest logit, ten layers deep; 1e-4 leaves room for 100 layers.
EXACT = {"max_relative": 1e-4}
# Another instruction order over the same integers: 8-bit activations may round one step apart, float16 sums too.
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
# Outputs of a module are not distributions over tokens: only their size is compared.
HALF_MODULE = {"max_relative": 3e-2}
ROUNDED_MODULE = {"max_relative": 0.1}
QUALITY = {"kl_mean": 0.15, "top1_agreement": 0.80}
MORE_BITS = "choose a recipe with more bits, keep sensitive layers in float by a rule, or loosen its budgets"
_EPSILON = {"exact": 1e-3, "rounded": 0.1, "quality": 0.25}
_AT_LEAST = frozenset({"top1_agreement"})


@dataclass(frozen=True)
class Stage:
    """One form of the model and its logits, float32 [P, V]."""

    name: str
    logits: Tensor
    effect: Effect = Effect.EXACT


def executed_budget(budgets: Mapping[str, float], *, rounded: bool) -> Mapping[str, float]:
    """How far a decoder may differ where it is executed another time on a CPU.

    Args:
        budgets: the recipe's: without rounding the artifact is the float model, and they are about that difference.
        rounded: values are rounded, so that two executions may rightly differ.
    """
    return ROUNDED_LOWERING if rounded else {**FLOAT_LOWERING, **budgets}


def lowering_rung(
    before: Stage, after: Stage, budget: Mapping[str, float] = EXACT, *, note: str = "", rounded: bool = False
) -> Rung:
    """Compare two executions of the same arithmetic; always gated.

    A flipped top-1 token counts only where the margin of the two best logits is wider than the noise that explains the
    median divergence, and than the noise that the budget allows.
    """
    epsilon = _EPSILON["rounded" if rounded else "exact"]
    gap = difference(before.logits, after.logits, epsilon, tie_margin(budget.get("kl_mean", 0.0)))
    if "top1_agreement" in budget:
        note = "; ".join(filter(None, [note, f"top-1 compared at {gap.decided} of {gap.positions} positions"]))
    return _rung("lowering", before, after, gap, budget, gated=True, note=note)


def quality_rung(reference: Stage, after: Stage, budget: Mapping[str, float], *, gated: bool, note: str = "") -> Rung:
    """Compare a rounded model with the float one, on text."""
    gap = difference(reference.logits, after.logits, _EPSILON["quality"])
    return _rung("quality", reference, after, gap, budget, gated=gated, note=note)


def _rung(
    half: str, before: Stage, after: Stage, gap: Difference, budget: Mapping[str, float], *, gated: bool, note: str
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
        kl_mean=_finite(gap.kl_mean),
        kl_max=_finite(gap.kl_max),
        top1_agreement=gap.top1_agreement,
        epsilon=gap.epsilon,
        budget=dict(budget),
        gated=gated,
        passed=not excesses(gap, budget),
        note=note,
    )


def excesses(gap: Difference, budget: Mapping[str, float]) -> list[str]:
    """The figures outside the budget, in words."""
    measured = {name: float(getattr(gap, name)) for name in budget}
    return [
        f"{name} {measured[name]:.3g} {'below' if name in _AT_LEAST else 'above'} {limit:.3g}"
        for name, limit in budget.items()
        if (measured[name] < limit if name in _AT_LEAST else not measured[name] <= limit)
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def of_method(rung: Rung, method: str) -> Rung:
    """A rung that says which method of several it is about."""
    return rung.model_copy(update={"stage": f"{method}: {rung.stage}", "reference": f"{method}: {rung.reference}"})


def gate(rungs: Sequence[Rung], fix: str = "") -> None:
    """Stop at the first gated rung that missed its budget; ``fix``: what to do then, where that is known better.

    Raises:
        BudgetError: E201; nothing was written.
    """
    for rung in rungs:
        if rung.gated and not rung.passed:
            raise BudgetError(
                what=f"the {rung.half} check failed: {rung.stage} differs from {rung.reference}",
                where=_where(rung),
                why=_why(rung),
                fix=fix or _fix(rung),
                code="E201",
            )


def _where(rung: Rung) -> str:
    layer = rung.first_diverging_layer
    return f"stage {rung.stage}" if layer is None else f"stage {rung.stage}, first at layer {layer}"


def _why(rung: Rung) -> str:
    parts = [f"{name} {_shown(_figure(rung, name))} (budget {limit:.3g})" for name, limit in rung.budget.items()]
    return ", ".join(parts) + f" over {rung.positions} positions"


def _figure(rung: Rung, name: str) -> float | None:
    """The measured figure of a rung that a budget of this name limits."""
    if name != "max_relative":
        value: float | None = getattr(rung, name)
        return value
    return rung.max_abs / rung.reference_max_abs if rung.max_abs is not None and rung.reference_max_abs else None


def _shown(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}"


def _fix(rung: Rung) -> str:
    if rung.half == "quality":
        return MORE_BITS
    return "a pass or the lowering is at fault, not the model: export with --recipe float, and report it"
