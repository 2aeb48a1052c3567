"""Rounded matrices as the operators of ONNX Runtime that keep them rounded while they multiply.

    linear(x, dequantize_affine(w int8 [N,K], s [N,K/g]))          ==>  edgec::block_matmul(x, packed, scales)
    linear(x rounded in groups of 32, the same)                    ==>  the same, which rounds x itself
    embedding(dequantize_affine(w, s), ids)                        ==>  edgec::block_rows(packed, scales, ids)

``packed`` uint8 [N, K/b, b * bits / 8] holds the integers plus half their range, the first of a byte in its low bits;
``scales`` float32 [N, K/b]. The integers and scales are edgec's own. A matrix with one scale a row repeats it where its
inputs are rounded, since the operator rounds inputs in blocks of its own; else it stays ONNX's DequantizeLinear.

Legality: integers of 4 or 8 bits around 0, in blocks of 16, 32, 64, 128 or 256; where inputs are rounded, in groups of
32, which is then the block. Exact: on x86-64 the products are those of the graph to 1e-6 of the largest. In float
inputs ONNX Runtime has no kernel for 8 bits (a layer of 2048 x 2048 takes 40 ms in place of 0.2), so that edgec's
recipes round the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.onnx.onnx_form import constant, quantized_parts
from edgec.ir.attributes import attribute
from edgec.ir.operators import NAMESPACE
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE, rounded_input
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_BITS, _BLOCKS = (4, 8), (16, 32, 64, 128, 256)
_ROUNDED_BLOCK = 32
_EVEN = 127


def pack(integers: Tensor, bits: int, block: int) -> Tensor:
    """Integers [N, K] as the operators read them, uint8 [N, K / block, block * bits / 8]."""
    codes: Tensor = (integers.to(torch.int16) + (1 << bits - 1)).to(torch.uint8).unflatten(1, (-1, block))
    return codes if bits == 8 else codes[..., ::2] | codes[..., 1::2] << 4


def unpack(packed: Tensor, bits: int) -> Tensor:
    """The integers [N, K / block, block] of ``pack``, float32."""
    codes = packed if bits == 8 else torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    return codes.float() - (1 << bits - 1)


def block_matmul(x: Tensor, packed: Tensor, scales: Tensor, bits: int, rounded: bool) -> Tensor:
    """ONNX Runtime's MatMulNBits; ``rounded``: each block of ``x`` [..., K] is rounded to 8 bits around 0."""
    weight = (unpack(packed, bits) * scales.unsqueeze(-1)).flatten(1)
    if rounded:
        groups = x.unflatten(-1, (scales.shape[1], -1))
        step = groups.abs().amax(-1, keepdim=True) / _EVEN
        x = (torch.round(groups / torch.where(step == 0, 1.0, step)) * step).flatten(-2)
    return x @ weight.t()


def block_rows(packed: Tensor, scales: Tensor, ids: Tensor, bits: int) -> Tensor:
    """ONNX Runtime's GatherBlockQuantized: rows of a rounded table, float32 [..., K]."""
    rows = unpack(packed[ids].flatten(0, -3), bits) * scales[ids].flatten(0, -2).unsqueeze(-1)
    return rows.reshape(*ids.shape, -1)


def _fake_matmul(x: Tensor, packed: Tensor, scales: Tensor, bits: int, rounded: bool) -> Tensor:
    return x.new_empty(*x.shape[:-1], packed.shape[0])


def _fake_rows(packed: Tensor, scales: Tensor, ids: Tensor, bits: int) -> Tensor:
    return scales.new_empty(*ids.shape, packed.shape[1] * packed.shape[2] * 8 // bits)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")


def _define(schema: str, meaning: Callable[..., Tensor], fake: Callable[..., Tensor]) -> Any:
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, meaning, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.edgec, name).default


BLOCK_MATMUL = _define(
    "block_matmul(Tensor x, Tensor packed, Tensor scales, int bits, bool rounded) -> Tensor", block_matmul, _fake_matmul
)
BLOCK_ROWS = _define("block_rows(Tensor packed, Tensor scales, Tensor ids, int bits) -> Tensor", block_rows, _fake_rows)


@dataclass(frozen=True)
class BlockForm:
    """Rounded matrices and tables as ONNX Runtime's operators read them; exact."""

    name: str = "block_form"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: what has no such form is left as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every rounded matrix and table that the operators can hold."""
        for node in nodes_of(graph, aten.linear.default, aten.embedding.default):
            with graph.graph.inserting_before(node):
                made = _REWRITES[node.target](graph, Emitter(graph.graph), node)
            if made is not None:
                made.meta.update(node.meta)
                node.replace_all_uses_with(made)
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No rounded input is left: ONNX has no operator for it."""
        assert not [node for node in nodes_of(program.graph, aten.linear.default) if rounded_input(node.args[0])]


def _linear(graph: GraphModule, emit: Emitter, node: Node) -> Node | None:
    given: Any = node.args
    x, weight, *bias = given
    source = rounded_input(x)
    held = _held(graph, weight, _ROUNDED_BLOCK if source else 0)
    if held is None:
        return None
    packed, scales, bits = held
    inner = source[0] if source else x
    result = emit(BLOCK_MATMUL, inner, packed, scales, bits, source is not None)
    return emit(aten.add.Tensor, result, bias[0]) if bias and bias[0] is not None else result


def _embedding(graph: GraphModule, emit: Emitter, node: Node) -> Node | None:
    given: Any = node.args
    held = _held(graph, given[0], 0)
    return None if held is None else emit(BLOCK_ROWS, held[0], held[1], given[1], held[2])


def _held(graph: GraphModule, weight: Node, block: int) -> tuple[Node, Node, int] | None:
    """The packed matrix, its scales and its bits; None where the operators hold no such matrix.

    ``block``: values of a row that are to share a scale; 0: as many as do.
    """
    if weight.target is not DEQUANTIZE:
        return None
    integers, scale, bits = quantized_parts(weight)
    codes, rows = attribute(graph, str(integers.target)), attribute(graph, str(scale.target)).float()
    rows = rows.reshape(len(codes), -1)
    own = codes.shape[1] // rows.shape[1]
    block = block or own
    if bits not in _BITS or block not in _BLOCKS or own % block:
        return None
    packed = constant(graph, integers, f"{integers.target}_blocks", pack(codes, bits, block))
    spread = rows.repeat_interleave(own // block, 1)
    return packed, constant(graph, scale, f"{scale.target}_blocks", spread), bits


_REWRITES: dict[Any, Callable[[GraphModule, Emitter, Node], Node | None]] = {
    aten.linear.default: _linear,
    aten.embedding.default: _embedding,
}
