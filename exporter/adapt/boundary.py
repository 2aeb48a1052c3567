"""``boundary = "auto"``: as few layers keep keys and values as a divergence on text allows, measured before training.

    kept         1 ... 4        5 ... 8
    divergence   above max_kl | at most max_kl      ->  5

The more layers keep their own, the less sharing costs, so the boundary is found by bisection: six measurements for 32
layers. Where that order is broken, the result is still within the limit, and one layer fewer was measured to exceed it.
Training recovers most of the divergence (docs/adapt.md has both), which is why the limit is not a quality budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.adapt.losses import distillation
from edgec.exporter.progress import Progress
from edgec.ir.graph_run import first_output
from edgec.ir.kv_donors import AUTO, not_chosen
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_pass, run_passes
from edgec.passes.kv.shared_kv import SharedKv

if TYPE_CHECKING:
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.exporter.request import ExportRequest
    from edgec.ir.program import Program

TOKENS = 2048
_WINDOW = 256


@dataclass(frozen=True)
class Boundary:
    """How many layers keep their own keys and values, and why.

    Attributes:
        kept: how many of the first layers do.
        layers: how many the model has.
        measured: boundary -> KL of the untrained shared model from the original, nats per token.
    """

    kept: int
    layers: int
    measured: Mapping[int, float]

    def __str__(self) -> str:
        """The choice and what was measured, for reports."""
        points = ", ".join(f"{kept}: {nats:.2f}" for kept, nats in sorted(self.measured.items()))
        kept = f"{self.kept} of {self.layers} layers keep their own"
        return f"{kept}; KL by boundary, untrained, nats (measured): {points}"


def is_open(recipe: Recipe) -> bool:
    """Whether a recipe leaves the boundary to be chosen."""
    return recipe.shared_kv is not None and recipe.boundary == AUTO


def choose_boundary(program: Program, recipe: Recipe, rows: Sequence[Tensor]) -> Boundary:
    """The fewest layers with their own keys and values that stay within the recipe's limit.

    Args:
        program: an uncached decoder, tokens and positions in, logits of every position out.
        recipe: for its mode and limit.
        rows: token ids of text, int64 [S] each.

    Raises:
        InputError: E511, no boundary stays within the limit, or none is legal.
    """
    measured: dict[int, float] = {}

    def fits(kept: int) -> bool:
        measured[kept] = _divergence(program, run_pass(program, SharedKv(kept, recipe.shared_kv or "")), rows)
        return measured[kept] <= recipe.boundary_kl

    assert program.spec is not None
    layers = len(program.spec.layers)
    legal = [kept for kept in range(1, layers) if _is_legal(program, SharedKv(kept, recipe.shared_kv or ""))]
    if not legal or not fits(legal[-1]):
        raise _no_boundary(recipe, layers, measured)
    low, high = 0, len(legal) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(legal[middle]) else (middle + 1, high)
    return Boundary(legal[high], layers, measured)


def with_boundary(request: ExportRequest, progress: Progress) -> ExportRequest:
    """The request with a number for the boundary; an open one is chosen on the calibration text.

    Raises:
        InputError: E510, there is no text; E511 as ``choose_boundary``.
    """
    from edgec.exporter.sources.weights.streamed import LoadedWeights
    from edgec.exporter.stages.capturing import capture
    from edgec.passes.draft.early_exit import EarlyExit

    recipe, source = request.recipe, request.source
    if not is_open(recipe):
        return request
    if source.kind != "decoder" or source.weights is None or not request.calibration:
        raise not_chosen()
    progress.enter("search")
    early: list[Pass] = [EarlyExit(recipe.early_exit)] if recipe.early_exit else []
    program = capture(source, LoadedWeights(source.weights), request.spec, request.limits)
    program = run_passes(program, [RemoveNoops(), *early], in_place=True)
    tokens = torch.tensor(request.calibration[:TOKENS])
    chosen = choose_boundary(program, recipe, tokens.split(min(_WINDOW, request.limits.context)))
    return replace(request, recipe=replace(recipe, boundary=chosen.kept))


def _is_legal(program: Program, sharing: SharedKv) -> bool:
    try:
        sharing.requires(program)
    except InputError as error:
        if error.code != "E185":
            raise
        return False
    return True


@torch.no_grad()
def _divergence(original: Program, shared: Program, rows: Sequence[Tensor]) -> float:
    """Mean KL(original || shared), nats per token; both run row by row, so that few logits are held."""
    total = sum(float(distillation(_logits(shared, row), _logits(original, row), 1.0)) * len(row) for row in rows)
    return total / sum(map(len, rows))


def _logits(program: Program, row: Tensor) -> Tensor:
    """A program's logits for one sequence, float [S, V]."""
    outputs: Any = program.graph(row[None], torch.arange(len(row)))
    logits: Tensor = first_output(outputs)[0]
    return logits


def _no_boundary(recipe: Recipe, layers: int, measured: Mapping[int, float]) -> InputError:
    tried = [f"with {kept} of {layers} layers the model differs by {nats:.2f} nats" for kept, nats in measured.items()]
    return InputError(
        what="shared_kv: no boundary stays within the limit",
        where=f"recipe {recipe.name}, max_kl = {recipe.boundary_kl:g}",
        why=tried[0] if tried else "no layer has an earlier one of the same kind",
        fix='raise max_kl, give a number for boundary, or set mode = "project"',
        code="E511",
    )
