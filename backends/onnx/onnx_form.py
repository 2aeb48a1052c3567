"""The graph in ONNX's forms: matrices as ONNX multiplies them, integers as its DequantizeLinear reads them.

    linear(x, W [N,K])                                ==>   matmul(x, W^T [K,N])
    linear(x, dequantize_affine(w [N,K], s [N,K/g]))  ==>   matmul(x, edgec::dequantize_blocks(w^T [K,N], s^T [K/g,N]))
    embedding(dequantize_affine(w, s), ids)           ==>   embedding(w, ids) -> float -> * embedding(s, ids)
    embedding(W, ids), W also a layer's weight        ==>   columns of W^T
    edgec::rms_norm(x, w, eps)                        ==>   x / sqrt(mean(x * x) + eps) * w, or whole, with a weight
    table[positions int32]                            ==>   table[positions int64]

A transposition of constants at run time would hide a matrix from ONNX Runtime's kernels, and a dequantised table would
be multiplied out on every call. Legality: every matrix; integers are symmetric throughout edgec. Exact.
Counted in the prefill of examples/tiny-stories at 4 bits: 57 linear layers are rewritten, 17 norms written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, read_shared
from edgec.ir.operators import NAMESPACE
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
RMS_NORM = torch.ops.edgec.rms_norm.default
LAYER_NORM = aten.layer_norm.default


def dequantize_blocks(integers: Tensor, scale: Tensor, bits: int) -> Tensor:
    """ONNX's DequantizeLinear along the first dimension.

    Args:
        integers: int8 [K, N].
        scale: float32 [K / g, N]; or [N], a scale for each column.
        bits: width of an integer.
    """
    rows = scale.reshape(-1, integers.shape[1])
    return integers.to(scale.dtype) * rows.repeat_interleave(integers.shape[0] // rows.shape[0], dim=0)


def _fake(integers: Tensor, scale: Tensor, bits: int) -> Tensor:
    return scale.new_empty(integers.shape)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LIBRARY.define(
    "dequantize_blocks(Tensor integers, Tensor scale, int bits) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,)
)
_LIBRARY.impl("dequantize_blocks", dequantize_blocks, "CPU")
torch.library.register_fake(f"{NAMESPACE}::dequantize_blocks", _fake, lib=_LIBRARY)
DEQUANTIZE_BLOCKS = torch.ops.edgec.dequantize_blocks.default


@dataclass(frozen=True)
class OnnxForm:
    """Linear layers, look-ups and norms as ONNX has them; exact.

    Attributes:
        whole_norms: RMS norms stay one operator, which ONNX has from opset 23 on.
    """

    whole_norms: bool = False
    name: str = "onnx_form"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: every matrix has a form."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every linear layer, look-up and norm."""
        _rewrite(graph, _ONNX)
        if self.whole_norms:
            _give_weights(graph)
        else:
            _rewrite(graph, (RMS_NORM,))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No layer is left that ONNX lacks."""
        graph = program.graph
        graph.graph.eliminate_dead_code()
        assert not nodes_of(graph, aten.linear.default, DEQUANTIZE, *(() if self.whole_norms else (RMS_NORM,)))


@dataclass(frozen=True)
class WrittenNorms:
    """Layer norms in operators that every layout and format has; exact.

    Attributes:
        rms: RMS norms, too.
    """

    rms: bool = False
    name: str = "written_norms"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every norm."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every norm."""
        _rewrite(graph, self._written)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No such norm is left whole."""
        assert not nodes_of(program.graph, *self._written)

    @property
    def _written(self) -> tuple[Any, ...]:
        return (LAYER_NORM, RMS_NORM) if self.rms else (LAYER_NORM,)


def _rewrite(graph: GraphModule, targets: Iterable[Any]) -> None:
    for node in nodes_of(graph, *targets):
        with graph.graph.inserting_before(node):
            result = _REWRITES[node.target](graph, Emitter(graph.graph), node)
        node.replace_all_uses_with(result)
        graph.graph.erase_node(node)


def _linear(graph: GraphModule, emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, weight, *bias = given
    result = emit(aten.matmul.default, x, _transposed_weight(graph, emit, weight))
    return emit(aten.add.Tensor, result, bias[0]) if bias and bias[0] is not None else result


def _transposed_weight(graph: GraphModule, emit: Emitter, weight: Node) -> Node:
    if weight.op == "get_attr":
        return constant(graph, weight, f"{weight.target}_onnx", attribute(graph, str(weight.target)).t())
    if weight.target is not DEQUANTIZE:
        return emit(aten.t.default, weight)
    integers, scale, bits = quantized_parts(weight)
    held = constant(graph, integers, f"{integers.target}_onnx", attribute(graph, str(integers.target)).t())
    rows = attribute(graph, str(scale.target)).float().t().squeeze(0)
    return emit(DEQUANTIZE_BLOCKS, held, constant(graph, scale, f"{scale.target}_onnx", rows), bits)


def quantized_parts(node: Node) -> tuple[Node, Node, int]:
    """Integers, scales and width of a dequantised weight."""
    given: Any = node.args
    return given[0], given[2], int(given[6] - given[5] + 1).bit_length() - 1


def _embedding(graph: GraphModule, emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    table, ids = given[0], given[1]
    if table.target is not DEQUANTIZE:
        return _looked_up(graph, emit, table, ids)
    integers, scale, _ = quantized_parts(table)
    held = attribute(graph, str(scale.target)).float()
    rows = emit(aten.to.dtype, _looked_up(graph, emit, integers, ids), torch.float32)
    scales = emit(aten.embedding.default, constant(graph, scale, f"{scale.target}_rows", held), ids)
    places, width, groups = _sizes(emit, ids), int(rows.meta["val"].shape[-1]), held.shape[1]
    blocks = emit(aten.reshape.default, rows, [*places, groups, width // groups])
    product = emit(aten.mul.Tensor, blocks, emit(aten.unsqueeze.default, scales, -1))
    return emit(aten.reshape.default, product, [*places, width])


def _sizes(emit: Emitter, value: Node) -> list[int | Node]:
    """A value's shape, where sizes that vary are nodes."""
    return [emit.size(value, place) for place in range(value.meta["val"].dim())]


def _looked_up(graph: GraphModule, emit: Emitter, table: Node, ids: Node) -> Node:
    """Rows of a table; where a layer also multiplies by the table, columns of the matrix stored for that layer."""
    if not _multiplied(graph, table):
        return emit(aten.embedding.default, table, ids)
    value = attribute(graph, str(table.target))
    held = constant(graph, table, f"{table.target}_onnx", value.t())
    columns = emit(aten.index_select.default, held, 1, emit(aten.reshape.default, ids, [-1]))
    return emit(aten.reshape.default, emit(aten.t.default, columns), [*_sizes(emit, ids), value.shape[1]])


def _index(graph: GraphModule, emit: Emitter, node: Node) -> Node:
    """Rows of a table by positions, which GatherND reads in 64 bits only."""
    given: Any = node.args
    return emit(aten.index.Tensor, given[0], [_wide(emit, place) for place in given[1]])


def _wide(emit: Emitter, place: Node | None) -> Node | None:
    narrow = place is not None and place.meta["val"].dtype == torch.int32
    return emit(aten.to.dtype, place, torch.int64) if narrow else place


def _multiplied(graph: GraphModule, table: Node) -> bool:
    for linear in nodes_of(graph, aten.linear.default):
        weight: Any = linear.args[1]
        source = quantized_parts(weight)[0] if weight.target is DEQUANTIZE else weight
        if source.op == "get_attr" and source.target == table.target:
            return True
    return False


def _give_weights(graph: GraphModule) -> None:
    """Give ones to norms without a weight, since ONNX's operator reads one."""
    for node in (each for each in nodes_of(graph, RMS_NORM) if each.args[1] is None):
        width = int(node.meta["val"].shape[-1])
        with graph.graph.inserting_before(node):
            node.update_arg(1, constant(graph, node, f"edgec_ones_{width}", torch.ones(width)))


def _rms_norm(graph: GraphModule, emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, weight, eps = given
    squares = emit(aten.mean.dim, emit(aten.mul.Tensor, x, x), [-1], True)
    root = emit(aten.sqrt.default, emit(aten.add.Tensor, squares, eps))
    scaled = emit(aten.div.Tensor, x, root)
    return scaled if weight is None else emit(aten.mul.Tensor, scaled, weight)


def _layer_norm(graph: GraphModule, emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, dims = given[0], list(range(-len(given[1]), 0))
    weight, bias, eps = _optional(given[2:], (None, None, 1e-5))
    centred = emit(aten.sub.Tensor, x, emit(aten.mean.dim, x, dims, True))
    variance = emit(aten.mean.dim, emit(aten.mul.Tensor, centred, centred), dims, True)
    scaled = emit(aten.div.Tensor, centred, emit(aten.sqrt.default, emit(aten.add.Tensor, variance, eps)))
    scaled = scaled if weight is None else emit(aten.mul.Tensor, scaled, weight)
    return scaled if bias is None else emit(aten.add.Tensor, scaled, bias)


def _optional(given: Sequence[Any], defaults: Sequence[Any]) -> tuple[Any, ...]:
    """The given arguments, with defaults for those left out; further ones are ignored."""
    return (*given[: len(defaults)], *defaults[len(given) :])


def constant(graph: GraphModule, source: Node, name: str, value: Tensor) -> Node:
    """Read a rearranged constant, which is made once for all its readers."""
    held = read_shared(graph, name, lambda: value.detach().contiguous())
    # Constants that passes brought along know no fake tensor; inputs do.
    mode = next(node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder").fake_mode
    held.meta["val"] = mode.from_tensor(attribute(graph, name), static_shapes=True)
    return held


_REWRITES: dict[Any, Any] = {
    aten.linear.default: _linear,
    aten.embedding.default: _embedding,
    aten.index.Tensor: _index,
    RMS_NORM: _rms_norm,
    LAYER_NORM: _layer_norm,
}
_ONNX = (aten.linear.default, aten.embedding.default, aten.index.Tensor)
