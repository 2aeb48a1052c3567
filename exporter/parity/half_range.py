"""Whether float16 holds every value that a model computes: shown in the ladder, refused where it does not.

Values above 65,504 become infinite in float16, and everything after them is lost; those that only layers in float32 see
(``keep_float``) are not meant. They are measured in float32, on the
graphs that are lowered, so that what passes do about it (``fp16_safe_norm``) counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch.fx import Node

from edgec.errors import InputError
from edgec.ir.float_islands import is_kept
from edgec.ir.node_layers import layer_of
from edgec.ir.program import Program
from edgec.passes.graph.layer_names import layer_name

LIMIT = 6e4
"""float16 ends at 65,504; other texts make values a little larger than the ladder's."""
Ranges = Mapping[str, float]
"""Largest magnitude of each node of a graph, by name (``activation_ranges``)."""


@dataclass(frozen=True)
class LargestValue:
    """The largest magnitude of any value, and the layer that it belongs to; ``kept``: which can be kept in float32."""

    value: float
    layer: str
    kept: bool = False

    def __str__(self) -> str:
        return f"largest activation {self.value:,.0f}, in {self.layer}" if self.layer else ""


def largest_value(methods: Mapping[str, Program], ranges: Mapping[str, Ranges]) -> LargestValue:
    """The largest value of all methods; 0 in no layer where none was measured.

    Args:
        methods: graphs by name.
        ranges: what was measured of some of them.
    """
    nodes = {name: {node.name: node for node in program.graph.graph.nodes} for name, program in methods.items()}
    measured = [
        (value, method, node)
        for method, values in ranges.items()
        for node, value in values.items()
        if not _inside(nodes[method][node])
    ]
    if not measured:
        return LargestValue(0.0, "")
    # The first of equal values is where it came up: a residual stream carries it on.
    value, method, name = max(measured, key=lambda each: each[0])
    node = nodes[method][name]
    return LargestValue(value, layer_of(node) or layer_name(node), bool(layer_of(node)))


def _inside(node: Node) -> bool:
    """Whether float32 layers alone see a value."""
    return is_kept(node) and all(map(is_kept, node.users))


def refuse_overflow(largest: LargestValue) -> None:
    """Refuse a model whose values float16 does not hold.

    Raises:
        InputError: E830.
    """
    if largest.value <= LIMIT:
        return
    keep = f"keep it in float32 (--keep-float {largest.layer}), or " if largest.kept else ""
    raise InputError(
        what=f"the model computes values up to {largest.value:,.0f}, which float16 does not hold",
        where=largest.layer,
        why="this target computes in float16, whose values end at 65,504; larger ones become infinite",
        fix=f"{keep}export for a CPU, which computes in float32 (PHONE-cpu), or scale this layer's weights down",
        code="E830",
    )
