"""A table of the operators that work row by row, and of the input rows that a row of their output needs.

A rule gets an operator's arguments by name and the dimension of its output that has a row per token; it returns the
dimension of each input tensor whose same row is read, or None where rows mix. An operator without a rule is taken
not to work row by row.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from edgec.ir.experts import EXPERTS
from edgec.ir.operators import CACHED_ATTENTION, RMS_NORM, ROPE
from edgec.ir.quantized_form import CHOOSE, QUANTIZE, WEIGHT_FORMS
from edgec.passes.prefill.rows.row_shapes import Rows

aten = torch.ops.aten
RowShapes = Mapping[Node, Rows]
Reads = dict[Node, int]
# Arguments that stay as they are while the others are reduced to some rows.
WHOLE: Mapping[object, frozenset[str]] = {CACHED_ATTENTION: frozenset({"written"})}
# Composite operators, which lack the tag of the pointwise ones they stand for.
_POINTWISE = (
    *(aten.multiply.Tensor, aten.divide.Tensor, aten.subtract.Tensor, aten.negative.default, aten.absolute.default),
    *(aten.hardswish.default, aten.relu6.default, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar),
)
# Sizes among the arguments of these may be the number of tokens.
SIZED = frozenset({aten.view.default, aten.reshape.default, aten.expand.default})


@dataclass(frozen=True)
class OperatorCall:
    """An operator call, as rules see it.

    Attributes:
        arguments: values by the schema's names, defaults filled in.
        dim: the output dimension with a row per token.
        out: the output's rows.
        shapes: rows of every value.
    """

    arguments: Mapping[str, Any]
    dim: int
    out: Rows
    shapes: RowShapes

    def tensors(self) -> list[Node]:
        """The nodes among the arguments whose values are tensors."""
        nodes: list[Node] = []
        map_arg(list(self.arguments.values()), nodes.append)
        return [node for node in nodes if not self.shapes[node].count]

    def rank(self, name: str) -> int:
        """The rank of a named input."""
        return self.shapes[self.arguments[name]].rank


RowRule = Callable[[OperatorCall], Reads | None]


def rows_read(node: Node, shapes: RowShapes) -> Reads | None:
    """The inputs of a node that are read row by row and their row dimensions; None unless the node works by rows."""
    out = shapes[node]
    rule = _rule(node)
    if rule is None or out.dim is None:
        return None
    call = OperatorCall(_arguments(node), out.dim, out, shapes)
    reads = rule(call)
    if reads is None or not all(_fits(source, reads, node, shapes) for source in _reduced(node, call)):
        return None
    return {source: dim for source, dim in reads.items() if shapes[source].dim is not None}


def _arguments(node: Node) -> dict[str, Any]:
    if not isinstance(node.target, torch._ops.OpOverload):
        return {"self": node.args[0]}
    schema = node.target._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, node.args, strict=False)}
    return {argument.name: argument.default_value for argument in schema} | given | dict(node.kwargs)


def _reduced(node: Node, call: OperatorCall) -> list[Node]:
    """The inputs that the rewritten node reads in reduced form."""
    reduced: list[Node] = []
    whole = WHOLE.get(node.target, frozenset())
    map_arg([value for name, value in call.arguments.items() if name not in whole], reduced.append)
    return reduced


def _fits(source: Node, reads: Reads, node: Node, shapes: RowShapes) -> bool:
    """Whether an input's rows are those that the rule names, or it has none."""
    rows = shapes[source]
    if rows.count:
        return node.target in SIZED
    return rows.regular and (rows.dim is None or reads.get(source) == rows.dim)


def _rule(node: Node) -> RowRule | None:
    if node.op != "call_function":
        return None
    named = RULES.get(node.target)
    if named is not None or not isinstance(node.target, torch._ops.OpOverload):
        return named
    plain = torch.Tag.pointwise in node.target.tags and torch.Tag.nondeterministic_seeded not in node.target.tags
    return _pointwise if plain and not node.target._schema.is_mutable else None


def _pointwise(call: OperatorCall) -> Reads:
    """Rule of elementwise operators: broadcasting aligns dimensions from the right."""
    return {node: call.dim - call.out.rank + call.shapes[node].rank for node in call.tensors()}


def _same(call: OperatorCall) -> Reads:
    """Rule of operators that keep the dimensions of all their tensors."""
    return dict.fromkeys(call.tensors(), call.dim)


def _along(*names: str) -> RowRule:
    """The rule of operators that mix values along the named dimensions, where None flattens all dimensions."""

    def rule(call: OperatorCall) -> Reads | None:
        flattened = any(call.arguments[name] is None for name in names)
        return None if flattened or call.dim in _dims(call, *names) else _same(call)

    return rule


def _dims(call: OperatorCall, *names: str) -> set[int]:
    given = (call.arguments[name] for name in names)
    flat = [d for value in given for d in (value if isinstance(value, Iterable) else [value])]
    return {d % call.out.rank for d in flat}


def _reduction(call: OperatorCall) -> Reads | None:
    """Rule of sums, means and norms over other dimensions, kept as 1 or removed."""
    source, dims = call.arguments["self"], call.arguments["dim"]
    rank = call.rank("self")
    gone = {d % rank for d in (dims if isinstance(dims, Iterable) else [dims])} if dims else set(range(rank))
    kept = range(rank) if call.arguments["keepdim"] else [d for d in range(rank) if d not in gone]
    inner = kept[call.dim]
    return None if inner in gone else {source: inner}


def _last(name: str, width: Callable[[OperatorCall], int] = lambda call: 1) -> RowRule:
    """The rule of operators that mix the named input along its last dimensions only."""

    def rule(call: OperatorCall) -> Reads | None:
        return {call.arguments[name]: call.dim} if call.dim < call.rank(name) - width(call) else None

    return rule


def _matmul(call: OperatorCall) -> Reads | None:
    left, right = call.arguments["self"], call.arguments["other"]
    if min(call.rank("self"), call.rank("other")) < 2 or call.dim == call.out.rank - 1:
        return None
    aligned = _pointwise(call)
    return aligned if call.dim < call.out.rank - 2 else {left: aligned[left], right: -1}


def _reshape(call: OperatorCall) -> Reads | None:
    """Rule of reshapes: rows stay rows when the dimensions before them hold as many values as before."""
    source = call.arguments["self"]
    inner = call.shapes[source].dim
    if inner is None:
        return None
    before = math.prod(call.shapes[source].sizes[:inner])
    return {source: inner} if before == math.prod(call.out.sizes[: call.dim]) else None


def _unsqueeze(call: OperatorCall) -> Reads:
    new = call.arguments["dim"] % call.out.rank
    return {call.arguments["self"]: call.dim - (call.dim > new)}


def _removed(call: OperatorCall) -> Reads:
    """Rule of operators that remove one dimension of the input (``select``, ``squeeze``)."""
    gone = call.arguments["dim"] % call.rank("self")
    # ``squeeze`` leaves a dimension whose size is not 1.
    shorter = call.out.rank < call.rank("self")
    return {call.arguments["self"]: call.dim + (shorter and call.dim >= gone)}


def _stacked(call: OperatorCall) -> Reads:
    new = call.arguments["dim"] % call.out.rank
    return dict.fromkeys(call.tensors(), call.dim - (call.dim > new))


def _select_scatter(call: OperatorCall) -> Reads | None:
    filled = call.arguments["dim"] % call.out.rank
    if call.dim == filled:
        return None
    return {call.arguments["self"]: call.dim, call.arguments["src"]: call.dim - (call.dim > filled)}


def _repeated(call: OperatorCall) -> Reads | None:
    return _pointwise(call) if call.arguments["repeats"][call.dim] == 1 else None


def _transposed(call: OperatorCall) -> Reads:
    a, b = (call.arguments[name] % call.out.rank for name in ("dim0", "dim1"))
    return {call.arguments["self"]: {a: b, b: a}.get(call.dim, call.dim)}


def _permuted(call: OperatorCall) -> Reads:
    return {call.arguments["self"]: call.arguments["dims"][call.dim] % call.out.rank}


def _blocks(call: OperatorCall) -> Reads | None:
    """Rule of integer grids: each row, or a part of it, has its own scale."""
    return _same(call) if call.arguments["block_size"][call.dim] == 1 else None


def _attended(call: OperatorCall) -> Reads | None:
    return {call.arguments["q"]: 1, call.arguments["positions"]: 0} if call.dim == 1 else None


def _rotated(call: OperatorCall) -> Reads | None:
    return _same(call) if call.dim == 1 else None


def _routed(call: OperatorCall) -> Reads | None:
    return {call.arguments["x"]: 0, call.arguments["index"]: 0} if call.dim == 0 else None


RULES: Mapping[object, RowRule] = {
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys((operator.getitem, aten.to.dtype, aten.to.device, aten.to.dtype_layout), _same),
    **dict.fromkeys((aten._to_copy.default, aten.contiguous.default, aten.clone.default, aten.alias.default), _same),
    **dict.fromkeys((aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default), _reduction),
    **dict.fromkeys((aten.std.correction, aten.std.dim, aten.var.correction, aten.var.dim), _reduction),
    **dict.fromkeys((aten.softmax.int, aten.log_softmax.int, aten.cumsum.default, aten.cat.default), _along("dim")),
    **dict.fromkeys((aten.slice.Tensor, aten.slice_scatter.default, aten.chunk.default), _along("dim")),
    **dict.fromkeys((aten.split.Tensor, aten.split_with_sizes.default), _along("dim")),
    aten.repeat_interleave.self_int: _along("dim"),
    aten.repeat.default: _repeated,
    aten.select_scatter.default: _select_scatter,
    **dict.fromkeys((aten.select.int, aten.squeeze.dim), _removed),
    **dict.fromkeys((aten.view.default, aten.reshape.default, aten.flatten.using_ints), _reshape),
    aten.layer_norm.default: _last("input", lambda call: len(call.arguments["normalized_shape"])),
    aten.linear.default: _last("input"),
    aten.matmul.default: _matmul,
    aten.embedding.default: _last("indices", lambda call: 0),
    aten.expand.default: _pointwise,
    aten.unsqueeze.default: _unsqueeze,
    aten.stack.default: _stacked,
    aten.transpose.int: _transposed,
    aten.permute.default: _permuted,
    **dict.fromkeys((CHOOSE, QUANTIZE, *WEIGHT_FORMS), _blocks),
    RMS_NORM: _last("x"),
    ROPE: _rotated,
    CACHED_ATTENTION: _attended,
    EXPERTS: _routed,
}
