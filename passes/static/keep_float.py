"""Mark the layers that compute in float32 where all others compute in float16.

    x -> norm -> linear          ==>          x -> to(float32) -> norm -> to(float16) -> linear      (half_precision)

Float16 ends at 65,504 and keeps 11 bits: a norm of large values, a sum over a long axis or the difference of two large
numbers loses what the layers after it need. The casts follow in ``half_precision``, since nothing changes in float32.
Legality: every layer; what is computed from constants alone stays float16. Exact.
Measured on a network whose sums reach 128,035 (tests/exporter/float_layers.py), for iPhone: NaN before, 7e-4 of the
largest output off now.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from operator import getitem

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.float_islands import is_kept, keep_float
from edgec.ir.node_layers import layer_of, matches
from edgec.ir.program import Effect, Interface, Program


@dataclass(frozen=True)
class KeepFloat:
    """Mark layers that stay float32; exact.

    Attributes:
        layers: patterns on ``PATH:OPERATOR`` (``ir/node_layers.py``).
    """

    layers: tuple[str, ...]
    name: str = "keep_float"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Every pattern names a layer.

        Raises:
            InputError: E882.
        """
        known = dict.fromkeys(filter(None, map(layer_of, program.graph.graph.nodes)))
        for pattern in self.layers:
            if not any(matches(layer, pattern) for layer in known):
                raise _unknown(pattern, list(known))

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Mark the nodes of these layers."""
        fixed: set[Node] = set()
        for node in graph.graph.nodes:
            if node.op == "get_attr" or (node.op == "call_function" and _reads_only(node, fixed)):
                fixed.add(node)
            elif node.op == "call_function" and (self._names(node) or _is_part(node)):
                keep_float(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: a layer that passes folded into others has nothing left to mark."""

    def _names(self, node: Node) -> bool:
        return _is_single(node) and any(matches(layer_of(node), pattern) for pattern in self.layers)


def _reads_only(node: Node, fixed: set[Node]) -> bool:
    return set(node.all_input_nodes) <= fixed


def _is_part(node: Node) -> bool:
    """Whether a node is a part of a kept call's result."""
    source = node.args[0] if node.target is getitem else None
    return isinstance(source, Node) and is_kept(source)


def _is_single(node: Node) -> bool:
    """Whether a node computes with floats of 32 bits, or with none."""
    value = node.meta.get("val")
    return not isinstance(value, Tensor) or value.dtype not in (torch.bfloat16, torch.float64)


def _unknown(pattern: str, layers: list[str]) -> InputError:
    paths = list(dict.fromkeys(layer.partition(":")[0] for layer in layers if not layer.startswith(":")))
    near = get_close_matches(pattern, [*paths, *layers], n=3, cutoff=0.4) or [*paths, *layers][:5]
    return InputError(
        what=f"no layer of the network is called {pattern!r}",
        where="--keep-float",
        why="it names neither a module's path nor an operator of one (PATH:OPERATOR) in the rewritten graph",
        fix=f"use one of {', '.join(near)}" if near else "leave --keep-float out: this network's layers have no names",
        code="E882",
    )
