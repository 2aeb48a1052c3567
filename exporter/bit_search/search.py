"""``--target-bits``: choose bits for each layer under a budget, and write them into the recipe as rules.

calibration text -> 3/4: gradients and second moments -> what every width of every layer would cost -> path
-> 1/4: the divergence measured at points of that path, and at the point chosen
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.manifest import BitSearch, TradeOffPoint
from edgec.errors import InputError
from edgec.exporter.bit_search.allocation import (
    ChosenWidths,
    WidthChoice,
    allocate,
    total_bits,
    total_loss,
    trade_off_path,
)
from edgec.exporter.bit_search.sensitivity import mean_square_gradients, measure_choices
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import Support, support_of
from edgec.ir.graph_run import first_output, run_calls
from edgec.ir.kernel_grids import fit
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_name, parameter_of
from edgec.ir.weight_scheme import WeightScheme, fit_tables, lut
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.graph.calibration import Calibration
from edgec.passes.prefill.last_logits import lm_head_linear

_WINDOW, _WINDOWS = 256, 32
_MEASURED = 5
"""Points of the path, besides the chosen one, at which the divergence is measured."""
_TABLE_ROWS = 8
"""Output channels per table where the recipe names none."""


def search_bits(
    program: Program, recipe: Recipe, tokens: Sequence[int], target_bits: float, window: int, progress: Progress
) -> tuple[Recipe, BitSearch]:
    """Choose the bits of each linear layer that no rule names; ``lm_head`` and embeddings keep theirs.

    Args:
        program: the captured decoder as it will be stored, unfused, in float.
        recipe: resolved for its backend.
        tokens: calibration text.
        target_bits: average per weight of those layers, with scales, tables and the sums of rows that kernels read.
        window: the largest number of positions in a sequence.
        progress: told of each step.

    Returns:
        The recipe with a rule for each layer, and the search's record for the manifest.

    Raises:
        InputError: E530, too little text; E531, the backend cannot store anything that small.
    """
    text = _Text.split(tokens, min(_WINDOW, window))
    layers, weights = _layers(program, recipe, text.known, progress)
    points = list(trade_off_path(layers))
    chosen = allocate(layers, target_bits * weights)
    if chosen is None:
        raise _too_small(target_bits, total_bits(points[0]) / weights, recipe)
    progress.step(0.6, "measured points")
    shown = _spread(points, chosen)
    measured = _measure(program, recipe, shown, text)
    curve = [
        TradeOffPoint(bits=total_bits(point) / weights, expected_kl=total_loss(point), measured_kl=kl)
        for point, kl in zip(shown, measured, strict=True)
    ]
    schemes = {name: str(choice.scheme) for name, choice in chosen.items()}
    bits = total_bits(chosen) / weights
    sizes = {"tokens": _count(text.known), "held_out_tokens": _count(text.held_out)}
    search = BitSearch(target_bits=target_bits, bits=bits, **sizes, curve=curve, layers=schemes)
    return with_choice(recipe, chosen, bits), search


def _layers(
    program: Program, recipe: Recipe, known: Calibration, progress: Progress
) -> tuple[dict[str, list[WidthChoice]], int]:
    """The cost of every width of every open layer, and the number of weights in these layers."""
    progress.step(0.0, "gradients")
    fisher = mean_square_gradients(program, known)
    wanted, sizes = candidate_schemes(recipe), open_layers(program, recipe)

    def schemes(name: str, shape: tuple[int, int]) -> Sequence[WeightScheme]:
        return schemes_for_layer(shape, wanted, recipe) if name in sizes else ()

    progress.step(0.3, "widths")
    layers = measure_choices(program, known, fisher, schemes, recipe.algorithm)
    return layers, sum(sizes[name] for name in layers)


def candidate_schemes(recipe: Recipe) -> tuple[WeightScheme, ...]:
    """The forms in which the recipe's backend can store a linear layer: tables of 2 bits and more, and integers.

    Integers have float activations where the backend's do, and where the recipe asks for them.
    """
    support = _support(recipe)
    rows = recipe.weights.group_rows if recipe.weights and recipe.weights.group_rows else _TABLE_ROWS
    schemes = [lut(bits, rows) for bits in support.table_bits if bits > 1]
    blocks = support.block_scales or recipe.allow_block_scales
    in_float = recipe.weights is not None and not (recipe.weights.is_table or recipe.weights.activation_bits)
    dynamic = support.dynamic_activations and not in_float
    for grid in support.kernels:
        groups = (*(grid.groups if blocks else ()), *([0] if grid.channel_multiple else []))
        schemes += [_integer_scheme(grid.bits, group, dynamic) for group in groups]
    return tuple(schemes)


def _support(recipe: Recipe) -> Support:
    support = support_of(recipe.backend, recipe.kernels)
    assert support is not None, recipe.backend
    return support


def _integer_scheme(bits: int, group: int, dynamic: bool) -> WeightScheme:
    return WeightScheme(bits, group, activation_bits=8 if dynamic else 0, scale_bits=16 if group else 32)


def schemes_for_layer(shape: tuple[int, int], wanted: tuple[WeightScheme, ...], recipe: Recipe) -> list[WeightScheme]:
    """The candidates that fit a matrix [N, K], as they would be stored for it.

    A group as wide as a row is left out beside the scale per channel that it would be stored with.
    """
    kernels = _support(recipe).kernels
    by_row = {scheme.bits for scheme in wanted if not scheme.is_table and not scheme.group_size}
    fitting: dict[WeightScheme, None] = {}
    for scheme in wanted:
        used = fit_tables(scheme, shape[0])[0] if scheme.is_table else fit(scheme, shape[1], kernels)[0]
        if used is None or (used.group_size == shape[1] and used.bits in by_row):
            continue
        if used.bits == scheme.bits:
            fitting[used] = None
    return list(fitting)


@dataclass(frozen=True)
class _Text:
    """Windows of text to choose by, and others to measure on."""

    known: Calibration
    held_out: Calibration

    @classmethod
    def split(cls, tokens: Sequence[int], size: int) -> _Text:
        """Cut tokens into windows and hold out every fourth.

        Raises:
            InputError: E530.
        """
        windows = [tokens[start : start + size] for start in range(0, len(tokens) - size + 1, size)][:_WINDOWS]
        if len(windows) < 4:
            raise InputError(
                what=f"{len(tokens)} tokens are too few to tell layers apart",
                where="--calibrate",
                fix=f"give a text of at least {4 * size} tokens; {_WINDOWS * size} are used",
                code="E530",
            )
        calls = [[torch.tensor([list(window)]), torch.arange(len(window))] for window in windows]
        known = [call for i, call in enumerate(calls) if i % 4 != 3]
        return cls(Calibration(calls=known), Calibration(calls=calls[3::4]))


def _count(calibration: Calibration) -> int:
    return sum(int(call[0].shape[1]) for call in calibration.given)


def with_choice(recipe: Recipe, chosen: ChosenWidths, bits: float) -> Recipe:
    """The recipe with a rule for each layer; its own rules come first and so win."""
    rules = tuple((name, choice.scheme) for name, choice in chosen.items())
    return replace(recipe, name=f"{recipe.name}, {bits:.2f} bits", rules=(*recipe.rules, *rules))


def open_layers(program: Program, recipe: Recipe) -> dict[str, int]:
    """The layers whose bits are open, with their number of weights."""
    lm_head, sizes = lm_head_linear(program.graph), dict[str, int]()
    for layer in nodes_of(program.graph, torch.ops.aten.linear.default):
        parameter = parameter_of(layer.args[1])
        if parameter is None or layer is lm_head:
            continue
        name = parameter_name(parameter)
        if not any(fnmatchcase(name, pattern) for pattern, _ in recipe.rules):
            sizes[name] = program.graph.get_parameter(str(parameter.target)).numel()
    return sizes


def _spread(points: Sequence[ChosenWidths], chosen: ChosenWidths) -> list[ChosenWidths]:
    """The ends of the path, the chosen point, and some between them at even distances in bits."""
    low, high = total_bits(points[0]), total_bits(points[-1])
    marks = [low + (high - low) * i / (_MEASURED - 1) for i in range(_MEASURED)]
    near = [min(points, key=lambda point: abs(total_bits(point) - mark)) for mark in marks]
    unique = {total_bits(point): point for point in [*near, chosen]}
    return [unique[bits] for bits in sorted(unique)]


def _measure(program: Program, recipe: Recipe, points: Sequence[ChosenWidths], text: _Text) -> list[float]:
    """The divergence from the float model on held-out windows, nats per token, with nothing else compressed."""
    plain = replace(recipe, weights=None, lm_head=None, embedding=None)
    reference = _log_probabilities(program, text.held_out)
    divergences = []
    for point in points:
        changed = run_passes(program, passes_for(with_choice(plain, point, 0.0), text.known))
        pairs = zip(reference, _log_probabilities(changed, text.held_out), strict=True)
        divergences.append(float(torch.cat([(a.exp() * (a - b)).sum(-1) for a, b in pairs]).mean()))
    return divergences


def _log_probabilities(program: Program, calibration: Calibration) -> list[Tensor]:
    with torch.no_grad():
        outputs: list[Any] = run_calls(program, list(calibration.given))
    return [first_output(out)[0].log_softmax(-1) for out in outputs]


def _too_small(target_bits: float, least: float, recipe: Recipe) -> InputError:
    return InputError(
        what=f"no choice of widths has {target_bits:g} bits per weight",
        where="--target-bits",
        why=f"the smallest that {recipe.backend} stores is {least:.2f}, scales and tables included",
        fix=f"ask for {least + 0.01:.2f} or more, or export for a target with look-up tables (iphone)",
        code="E531",
    )
