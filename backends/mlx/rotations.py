"""The frequencies by which a graph rotates queries and keys, found by computing its tables.

    cos, sin [1, S, R] of positions  ->  angles = position x frequency [R / 2], x a factor of all

``mlx::rope`` takes frequencies and computes angles in float32 itself, so that tables of positions need not be stored.
Legality: the tables follow from positions alone, and are cosines and sines of such angles; anything else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.passes.static.parts.position_values import computed, positional

# Steps of a table in float32 differ by rounding alone.
_TOLERANCE = 2e-4
_TRIED = (0, 1, 2, 5, 17, 100)
# What a frequency from float32 cosines is off by, radians for each position.
_DRIFT = 2e-7


@dataclass(frozen=True)
class Rotation:
    """How a table of cosines rotates.

    Attributes:
        periods: what positions are divided by to become angles: float32 [R / 2].
        factor: of cosines and sines (YaRN's attention factor).
    """

    periods: Tensor
    factor: float

    def __eq__(self, other: object) -> bool:
        """Whether two tables rotate alike."""
        return isinstance(other, Rotation) and torch.equal(self.periods, other.periods) and self.factor == other.factor

    __hash__ = None  # type: ignore[assignment]


def rotation_of(graph: GraphModule, cos: Node, sin: Node, positions: Node, last: int) -> Rotation:
    """The rotation that two tables stand for.

    Args:
        graph: holds both.
        cos: the table of cosines.
        sin: that of sines.
        positions: what they follow from.
        last: the largest position, where models with long contexts may rotate otherwise.

    Raises:
        InputError: E870, they are not cosines and sines of positions times frequencies.
    """
    values = positional(graph, positions)
    if not {cos, sin} <= values:
        raise _unlike(cos, "they follow from more than the positions")
    c0, c1, s1 = (_row(graph, node, positions, at) for node, at in ((cos, 0), (cos, 1), (sin, 1)))
    factor = float(c0[0])
    half = len(c0) // 2
    angles = torch.atan2(s1.double(), c1.double())[:half] % (2 * torch.pi)
    rotation = Rotation((1.0 / angles).float(), 1.0 if abs(factor - 1.0) < _TOLERANCE else factor)
    for at in (*_TRIED, last):
        wanted = torch.cat([at * angles] * 2)
        for node, function in ((cos, torch.cos), (sin, torch.sin)):
            if not torch.allclose(
                _row(graph, node, positions, at).double(), factor * function(wanted), atol=1e-3 + at * _DRIFT
            ):
                raise _unlike(node, f"at position {at} they are not those of position 1, {at} times")
    return rotation


def _row(graph: GraphModule, node: Node, positions: Node, at: int) -> Tensor:
    # Three positions, since sizes of 1 broadcast where they should not.
    given = torch.tensor([at, at + 1, at + 2]).reshape([-1 if size != 1 else 1 for size in positions.meta["val"].shape])
    return computed(graph, node, {positions: given}).reshape(3, -1)[0].float()


def _unlike(node: Node, why: str) -> InputError:
    return InputError(
        "MLX cannot rotate queries and keys as this model does.",
        where=node.name,
        why=f"its tables are not angles of one frequency for each pair of values: {why}",
        fix="export with --format mlpackage, which stores the tables",
        code="E870",
    )
