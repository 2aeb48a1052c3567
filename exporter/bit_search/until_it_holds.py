"""Compile a model with more and more bits until its quality is the wanted one.

A default never ends at a refusal of a healthy model: it spends bytes, and says how many. A recipe that a user named
stays as it is: where it misses its own limits, the export says so. A limit that a user gave, by ``--budget``, by
``--max-kl`` or in a recipe file, refuses what misses it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.bundle.manifest import MoreBits
from edgec.bundle.tried_recipe import TriedRecipe
from edgec.errors import BudgetError, InputError
from edgec.exporter.bit_search.allocation import WidthChoice
from edgec.exporter.bit_search.wanted_quality import MARGIN, Widened, most_bits, schemes_of_layer, widen
from edgec.exporter.parity.refusals import QualityMissed
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import named_recipes
from edgec.ir.weight_scheme import WeightScheme

if TYPE_CHECKING:
    from edgec.exporter.options import ExportOptions
    from edgec.exporter.pipeline import CompiledModel
    from edgec.exporter.progress import Progress
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stage_cache import StageCache

# A first point from the estimate, and a second one from what the first was measured to be.
_POINTS = 2
_LOSSES = "losses.json"
_WINDOW = 256
_SEARCHING = ("edgec.exporter.bit_search.expected_loss", "edgec.exporter.bit_search.wanted_quality")
BROKEN = {"kl_mean": 2.0, "top1_agreement": 0.5}
"""What no default lets through: a model that says other words than the float one half of the time."""


@dataclass(frozen=True)
class WantedQuality:
    """The quality that an export must reach.

    Attributes:
        kl: the divergence from the float model that a user asked for, nats; None: the recipe's own budget.
        refuses: whether to refuse a model that cannot have it.
        spends: whether layers may have more bits than the recipe gives them.
    """

    kl: float | None
    refuses: bool
    spends: bool = True


def wanted_quality(options: ExportOptions, request: ExportRequest) -> WantedQuality | None:
    """What an export must reach, and how; None where its limits refuse what misses them.

    Raises:
        InputError: E822, ``--max-kl`` with other limits of the same; E823, on a model whose layers cannot be searched.
    """
    from edgec.exporter.recipes.adapt_record import recorded_recipe

    possible = request.source.kind == "decoder" and request.source.trained and request.recipe.weights is not None
    if options.max_kl is not None:
        _check(options, possible)
        return WantedQuality(options.max_kl, refuses=True)
    own_limits = options.recipe is not None and str(options.recipe) not in named_recipes() and request.recipe.budgets
    if options.budgets or own_limits or options.target_bits is not None or not possible:
        return None
    named = options.recipe is not None or recorded_recipe(options.model) is not None
    return WantedQuality(None, refuses=False, spends=not named)


def _check(options: ExportOptions, possible: bool) -> None:
    if options.target_bits is not None or "kl_mean" in (options.budgets or {}):
        raise InputError(
            what="--max-kl has company that says something else",
            where="--max-kl",
            why="--target-bits fixes the size, and --budget kl_mean is the same limit without a search",
            fix="give one of them",
            code="E822",
        )
    if not possible:
        raise InputError(
            what="bits cannot be chosen for a wanted quality",
            where="--max-kl",
            why="it needs a trained decoder, and a recipe that rounds its weights",
            fix="leave --max-kl out, or choose a recipe with more bits",
            code="E823",
        )


def compile_until_it_holds(
    request: ExportRequest, wanted: WantedQuality, cache: StageCache, progress: Progress
) -> tuple[ExportRequest, CompiledModel]:
    """Compile a decoder, with more bits where its quality is not the wanted one.

    Returns:
        The request that was compiled, and the result.

    Raises:
        BudgetError: E821, ``--max-kl`` is out of reach; E201 lowering, or quality that no default lets through.
    """
    from edgec.exporter.pipeline import compile_model

    request = replace(request, spends_bits=True)
    if wanted.kl is not None:
        request = replace(request, recipe=_limited(request, {"kl_mean": wanted.kl}))
    try:
        return request, compile_model(request, cache, progress)
    except QualityMissed as first:
        missed = first
    if not wanted.spends:
        return _as_it_is(request, missed, cache, progress)
    layers, plain, kl = _losses(request, cache, progress), request.recipe, _kl(missed)
    measured, aim = kl, kl * _needed(missed)
    for _ in range(_POINTS):
        widened = widen(plain, layers, measured, MARGIN * aim)
        try:
            return _compiled(request, widened, kl, cache, progress)
        except QualityMissed as again:
            missed = again
        # Twice what the estimate made of it, and twice what is missing.
        measured *= max(1.0, _kl(missed) / max(widened.expected_kl, 1e-12))
        aim = min(aim, _kl(missed) * _needed(missed))
    widened = most_bits(plain, layers, measured)
    if wanted.refuses:
        return _or_refuse(request, widened, kl, cache, progress)
    budget = request.recipe.budgets.get("kl_mean")
    loose = replace(request, recipe=_limited(request, BROKEN))
    widened = replace(widened, recipe=replace(widened.recipe, budgets=loose.recipe.budgets))
    return _compiled(loose, widened, kl, cache, progress, over=budget)


def _as_it_is(
    request: ExportRequest, missed: QualityMissed, cache: StageCache, progress: Progress
) -> tuple[ExportRequest, CompiledModel]:
    """Compile a recipe that somebody named, and that misses its own limits: only nonsense is refused."""
    from edgec.exporter.pipeline import compile_model

    tried = TriedRecipe(recipe=request.recipe.name, missed=missed.why)
    loose = replace(request, recipe=_limited(request, BROKEN), spends_bits=False, tried=(tried,))
    return loose, compile_model(loose, cache, progress)


def _or_refuse(
    request: ExportRequest, widened: Widened, kl: float, cache: StageCache, progress: Progress
) -> tuple[ExportRequest, CompiledModel]:
    try:
        return _compiled(request, widened, kl, cache, progress)
    except QualityMissed as missed:
        raise BudgetError(
            what=f"KL {_kl(missed):.2g} is the least that {request.target.name} can have of this model",
            where="--max-kl",
            why=f"every layer has the most bits that {request.recipe.backend} stores; {missed.why}",
            fix=f"ask for --max-kl {1.05 * _kl(missed):.2g}, or use --recipe float on a CPU",
            code="E821",
        ) from missed


def _limited(request: ExportRequest, budgets: Mapping[str, float]) -> Recipe:
    return replace(request.recipe, budgets={**request.recipe.budgets, **budgets})


def _kl(missed: QualityMissed) -> float:
    return missed.rung.kl_mean if missed.rung is not None and missed.rung.kl_mean is not None else 10.0


def _needed(missed: QualityMissed) -> float:
    """The share of its divergence that a missed rung may have: KL grows with the square of what flips top tokens."""
    rung = missed.rung
    if rung is None or not rung.kl_mean or rung.top1_agreement is None:
        return 0.1
    share = rung.budget.get("kl_mean", rung.kl_mean) / rung.kl_mean
    flips = (1 - rung.budget.get("top1_agreement", 0.0)) / max(1 - rung.top1_agreement, 1e-9)
    return min(share, flips**2, 1.0)


def _compiled(
    request: ExportRequest,
    widened: Widened,
    kl: float,
    cache: StageCache,
    progress: Progress,
    over: float | None = None,
) -> tuple[ExportRequest, CompiledModel]:
    """Compile the wider recipe, and say what it bought; ``over``: the budget that it misses."""
    from edgec.exporter.pipeline import compile_model

    check_recipe(widened.recipe, request.target.backend)
    own = replace(request, recipe=widened.recipe)
    compiled = compile_model(own, cache, progress)
    return replace(own, more_bits=_record(widened, kl, compiled, over)), compiled


def _record(widened: Widened, kl: float, compiled: CompiledModel, over: float | None) -> MoreBits:
    after = next((rung.kl_mean for rung in reversed(compiled.rungs) if rung.half == "quality"), None)
    size = _bytes(compiled.artifact)
    return MoreBits(
        matrices=widened.layers,
        layers={name: str(scheme) for name, scheme in widened.chosen.items()},
        widths=dict(Counter(scheme.bits for scheme in widened.chosen.values())),
        kl_before=kl,
        kl_after=after if after is not None else kl,
        bytes_share=widened.added_bytes / max(1, size - widened.added_bytes),
        missed_budget=over,
    )


def _bytes(artifact: Path) -> int:
    files = [artifact] if artifact.is_file() else [file for file in artifact.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _losses(request: ExportRequest, cache: StageCache, progress: Progress) -> dict[str, list[WidthChoice]]:
    """What each width of each layer costs, measured once and kept in the stage cache."""
    from edgec.exporter.provenance import source_digest
    from edgec.exporter.request import request_inputs
    from edgec.exporter.stage_cache import stage_key

    inputs = {**request_inputs(request, cache), "stage": "losses", "edgec": source_digest(_SEARCHING)}
    known = cache.get(key := stage_key(inputs))
    progress.enter("search", "more bits where they pay", cached=known is not None)
    folder = known or cache.put(key, lambda place: _measure(request, place))
    read = json.loads((folder / _LOSSES).read_text())
    return {name: [_choice(each) for each in choices] for name, choices in read.items()}


def _choice(plain: Mapping[str, object]) -> WidthChoice:
    scheme: dict[str, object] = plain["scheme"]  # type: ignore[assignment]
    return WidthChoice(WeightScheme(**scheme), float(plain["bits"]), float(plain["loss"]))  # type: ignore[arg-type]


def _measure(request: ExportRequest, folder: Path) -> None:
    import torch

    from edgec.exporter.bit_search.expected_loss import expected_losses
    from edgec.exporter.bit_search.search import open_layers
    from edgec.exporter.bit_search.stage import plain_program
    from edgec.passes.graph.calibration import Calibration

    program, recipe = plain_program(request), request.recipe
    tokens, size = _tokens(request), min(_WINDOW, request.limits.context)
    windows = [tokens[start : start + size] for start in range(0, len(tokens), size)]
    text = Calibration(
        calls=[[torch.tensor([list(each)]), torch.arange(len(each))] for each in windows if len(each) > 1]
    )
    sizes = open_layers(program, recipe)
    losses = expected_losses(
        program, text, lambda name, shape: schemes_of_layer(shape, recipe) if name in sizes else ()
    )
    (folder / _LOSSES).write_text(json.dumps({name: [asdict(each) for each in own] for name, own in losses.items()}))


def _tokens(request: ExportRequest) -> tuple[int, ...]:
    """The calibration text where there is one, else the ladder's own: 768 tokens at most."""
    return (request.calibration or (*request.probe.tokens, *request.probe.further))[: 3 * _WINDOW]
