"""More bits for the layers where a bit buys most, until a divergence holds: the bit search the other way round.

    all layers as the recipe has them, KL measured -> what every wider form of every layer would save, expected
    -> the fewest bytes whose expected KL is the wanted one -> measured by the export itself

The expected losses are scaled so that the recipe's own sum is the KL that was measured of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.exporter.bit_search.allocation import ChosenWidths, WidthChoice, trade_off_path
from edgec.exporter.bit_search.expected_loss import total
from edgec.exporter.bit_search.search import candidate_schemes, schemes_for_layer
from edgec.exporter.recipes.recipe import Recipe, bits_per_weight
from edgec.ir.weight_scheme import WeightScheme

# Rounding of activations and keys costs the same at any width, and no estimate is exact.
MARGIN = 0.8


@dataclass(frozen=True)
class Widened:
    """A recipe with more bits for some layers.

    Attributes:
        recipe: with a rule for each of them.
        chosen: their schemes, by parameter name.
        layers: how many layers there are to choose from.
        added_bytes: what their weights take more.
        expected_kl: nats.
    """

    recipe: Recipe
    chosen: Mapping[str, WeightScheme]
    layers: int
    added_bytes: int
    expected_kl: float


def wider_schemes(recipe: Recipe) -> tuple[WeightScheme, ...]:
    """The forms of a backend that hold more bits than a recipe's weights, from few to many."""
    assert recipe.weights is not None
    own = bits_per_weight(recipe.weights)
    more = [
        each for each in candidate_schemes(recipe) if each.bits > recipe.weights.bits and bits_per_weight(each) > own
    ]
    return tuple(sorted(more, key=bits_per_weight))


def schemes_of_layer(shape: tuple[int, int], recipe: Recipe) -> Sequence[WeightScheme]:
    """The forms that a matrix [N, K] may have: the recipe's own first, then wider ones that fit it."""
    assert recipe.weights is not None
    own = schemes_for_layer(shape, (recipe.weights,), recipe)
    return [*own, *schemes_for_layer(shape, wider_schemes(recipe), recipe)] if own else ()


def widen(recipe: Recipe, layers: Mapping[str, Sequence[WidthChoice]], measured: float, wanted: float) -> Widened:
    """The fewest bytes whose expected divergence is ``wanted``; the most bits there are where none is.

    Args:
        recipe: resolved for its backend.
        layers: the choices of each layer, the recipe's own first.
        measured: the divergence of the recipe as it is, nats.
        wanted: nats.
    """
    own = {name: choices[0] for name, choices in layers.items()}
    nats = measured / max(total(own), 1e-30)
    # The recipe's own stays the least, however little a wider form would cost.
    point: ChosenWidths = own
    for point in trade_off_path(layers):
        if nats * total(point) <= wanted:
            break
    changed = {name: choice.scheme for name, choice in point.items() if choice != own[name]}
    added = sum(choice.bits - own[name].bits for name, choice in point.items()) / 8
    rules = (*recipe.rules, *changed.items())
    return Widened(replace(recipe, rules=rules), changed, len(layers), round(added), nats * total(point))


def most_bits(recipe: Recipe, layers: Mapping[str, Sequence[WidthChoice]], measured: float) -> Widened:
    """The recipe with the form of least expected loss for every layer."""
    return widen(recipe, layers, measured, -1.0)
