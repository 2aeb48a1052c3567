"""What an export says that ends at a rung of the parity ladder: what differs, by how much, and what can be done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from edgec.bundle.findings import Rung
from edgec.errors import BudgetError

# In units of logits; a rung that allows rounding compares top tokens at a wider margin.
EXACT_EPSILON = 1e-3
AT_LEAST = frozenset({"top1_agreement", "equal_share"})
JUDGED = ("E201", "E202", "E203")
"""What the ladder refuses: a difference that is too large, a lost channel, other integers."""
MORE_BITS = "choose a recipe with more bits, or keep sensitive layers in float by a rule"
WRONG = "a pass or the lowering is at fault, not the model: export with --recipe float, and report it"
_ROUNDED = (
    "export with --recipe float for a CPU, which rounds nothing: if that fails too, the lowering is at fault: report "
    "it; if it passes, the model makes more of rounding than edgec expects"
)
_CHANNEL = (
    "if this format cannot hold values of such different sizes, give these as an output of their own, or scaled so "
    "that they vary around 0; a CPU target computes in float32"
)
_COUNTED = "return the scores that decide, too, so that they are compared; if they are equal, report it"
_CODES: Mapping[str, tuple[str, str]] = {"channel_relative": ("E202", _CHANNEL), "equal_share": ("E203", _COUNTED)}


@dataclass
class QualityMissed(BudgetError):
    """A rounded model differs from the float one by more than its budget; ``rung``: what was measured."""

    rung: Rung | None = None


def refusal(rung: Rung, fix: str = "") -> BudgetError:
    """The error for a gated rung that missed its budget; ``fix``: what to do, where that is known better."""
    missed = [name for name, limit in rung.budget.items() if _misses(name, _figure(rung, name), limit)]
    code, own_fix = _CODES.get(missed[0], ("", "")) if len(missed) == 1 else ("", "")
    own_fix = own_fix if rung.half == "lowering" else ""
    missed_quality = rung.half == "quality"
    return (partial(QualityMissed, rung=rung) if missed_quality else BudgetError)(
        what=f"the {rung.half} check failed: {rung.stage} differs from {rung.reference}",
        where=_where(rung, lost=code == "E202"),
        why=_why(rung),
        fix=fix or "; ".join(filter(None, [own_fix or _fix(rung), _acceptance(rung, missed)])),
        code=code or "E201",
    )


def _misses(name: str, figure: float | None, limit: float) -> bool:
    return figure is None or (figure < limit if name in AT_LEAST else figure > limit)


def keeps_budget(rung: Rung) -> bool:
    """Whether all figures of a rung are inside its budget."""
    return not any(_misses(name, _figure(rung, name), limit) for name, limit in rung.budget.items())


def used_share(rung: Rung, name: str, limit: float) -> float:
    """How much of a limit a rung's figure uses up: above 1 where it misses it."""
    figure = _figure(rung, name)
    if figure is None:
        return math.inf
    used, most = (1 - figure, 1 - limit) if name in AT_LEAST else (figure, limit)
    return used / most if most else (math.inf if used else 0.0)


def _where(rung: Rung, *, lost: bool) -> str:
    layer = rung.first_diverging_layer
    parts = [f"stage {rung.stage}"]
    if lost:
        parts.append(rung.place)
    elif layer is not None:
        parts.append(f"first at layer {layer}")
    return ", ".join(parts)


def _why(rung: Rung) -> str:
    if rung.in_words:
        return rung.note if rung.top1_agreement is None else f"{rung.top1_agreement:.0%} of {rung.positions} tokens"
    parts = [f"{name} {_shown(_figure(rung, name))} (budget {limit:.3g})" for name, limit in rung.budget.items()]
    where = f"over {rung.positions} positions" if rung.top1_agreement is not None else "on the example inputs"
    return "; ".join(filter(None, [f"{', '.join(parts)} {where}", rung.values]))


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
    return _ROUNDED if _may_differ(rung) else WRONG


def _may_differ(rung: Rung) -> bool:
    """Whether two right executions of this rung's stages differ by more than the order of sums."""
    return rung.epsilon > EXACT_EPSILON


def _acceptance(rung: Rung, missed: list[str]) -> str:
    """How to accept what was measured, where a caller may; two executions that should be the same stay refused."""
    if rung.half == "lowering" and not _may_differ(rung):
        return ""
    limits = " ".join(f"--budget {name}=LIMIT" for name in missed)
    return f"to accept the difference that was measured: {limits}"
