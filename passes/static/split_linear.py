"""Split wide linear layers into several narrow ones, because the Neural Engine has limits.

    x -> linear(W [3072,K]) -> y                      ==>    x -> linear(W[:1024]), linear(W[1024:2048]), .. -> cat -> y
    x -> linear(W [151936,K]) -> softcap? -> logits   ==>    x -> linear(W[:15194]) -> softcap? -> logits_0 .. logits_9

No dimension of a tensor may exceed 16384 there, so the lm_head yields several outputs whose concatenation is
the logits; other layers are cut where a convolution's output no longer fits the engine's own memory. Pieces are views
of the stored weight: rows of floats, of integers with their scales, of look-up indices with the tables of their groups
(cuts lie between groups). An embedding that shares the lm_head looks tokens up in the pieces, so that the
table is stored once. Legality: a weight that is a parameter or its quantised form. Exact. Measured on the vocabulary of
Qwen3 (151,936): 10 outputs of 15,194 logits or less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute, read_shared
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE, parameter_of
from edgec.passes.contract import nodes_of, output_node
from edgec.passes.graph.emit import Emitter
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten
LINEAR, EMBEDDING = aten.linear.default, aten.embedding.default
LIMIT = 16384


@dataclass(frozen=True)
class SplitLinear:
    """Replace a wide linear layer by several narrow ones; exact.

    Attributes:
        width: the most outputs of a layer inside the model; 0 leaves all as they are.
        vocabulary: the most logits of one output.
    """

    width: int = 1024
    vocabulary: int = LIMIT
    name: str = "split_linear"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: a linear layer that does not fit stays as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Cut the lm_head, then every other layer."""
        last = lm_head_linear(graph) if program.spec else None
        for linear in nodes_of(graph, LINEAR):
            limit = self.vocabulary if linear is last else self.width
            rows = _pieces(graph, linear, limit)
            if len(rows) > 1 and linear is not last:
                with graph.graph.inserting_before(linear):
                    parts = list(_parts(graph, linear, rows))
                    linear.replace_all_uses_with(Emitter(graph.graph)(aten.cat.default, parts, -1))
            elif len(rows) > 1:
                return self._with_outputs(graph, program.interface, linear, rows)
        return program.interface

    def _with_outputs(self, graph: GraphModule, before: Interface, linear: Node, rows: Sequence[range]) -> Interface:
        """Make one output of each piece of the vocabulary; other outputs come after them."""
        output = output_node(graph)
        given: Any = output.args[0]
        results = list(given) if isinstance(given, tuple | list) else [given]
        for look_up in tied_look_ups(linear):
            _gather(graph, look_up, rows)
        with graph.graph.inserting_before(linear):
            parts = list(_parts(graph, linear, rows))
        pieces = [_repeated(graph, linear, results[0], part) for part in parts]
        output.args = ((*pieces, *results[1:]),)
        logits, *others = before.outputs
        types = [
            replace(logits, name=f"logits_{index}", shape=(*logits.shape[:-1], len(each)))
            for index, each in enumerate(rows)
        ]
        return replace(before, outputs=(*types, *others))

    def ensures(self, program: Program) -> None:
        """No piece of the logits exceeds the limit."""
        logits = [tensor for tensor in program.interface.outputs if tensor.name.startswith("logits_")]
        assert all(int(tensor.shape[-1]) <= self.vocabulary for tensor in logits)  # type: ignore[arg-type]


def _pieces(graph: GraphModule, linear: Node, limit: int) -> list[range]:
    """Rows of each piece: equal except for the last, and cut between groups; a single piece where none is needed."""
    weight: Any = linear.args[1]
    known = parameter_of(weight) is not None or (isinstance(weight, Node) and weight.target in _FORMS)
    count = int(linear.meta["val"].shape[-1])
    if not known or not limit or count <= limit:
        return [range(count)]
    group = int(weight.args[3]) if weight.target is DEQUANTIZE_LUT else 1
    group = 1 if group >= count else group  # with one table for all rows, any cut is legal
    step = max(group, -(-count // -(-count // limit) // group) * group)
    return [range(start, min(start + step, count)) for start in range(0, count, step)]


def tied_look_ups(linear: Node) -> list[Node]:
    """Embedding look-ups that read a linear layer's very weight."""
    leaf = _leaf(linear.args[1])
    same = [n for n in linear.graph.nodes if n.op == "get_attr" and leaf is not None and n.target == leaf.target]
    readers = {user for node in same for user in (*node.users, *(u for each in node.users for u in each.users))}
    return [n for n in linear.graph.nodes if n in readers and n.target is EMBEDDING and _leaf(n.args[0]) in same]


def _leaf(weight: Any) -> Node | None:
    """The tensor that holds a weight's values or integers."""
    if isinstance(weight, Node) and weight.target in _FORMS:
        weight = weight.args[0]
    return parameter_of(weight)


def _gather(graph: GraphModule, look_up: Node, rows: Sequence[range]) -> None:
    """Look each token up in its piece, so that the table is stored once, in the pieces that the logits read."""
    weight, tokens = look_up.args[:2]
    with graph.graph.inserting_before(look_up):
        emit, embedded = Emitter(graph.graph), None
        for index, part in enumerate(rows):
            place = emit(aten.sub.Tensor, tokens, part.start)
            inside = emit(aten.clamp.default, place, 0, len(part) - 1)
            values = emit(EMBEDDING, _cut(graph, emit, weight, part, index), inside)
            mine = emit(aten.unsqueeze.default, emit(aten.eq.Tensor, place, inside), -1)
            embedded = values if embedded is None else emit(aten.where.self, mine, values, embedded)
        look_up.replace_all_uses_with(embedded)  # type: ignore[arg-type]


def _parts(graph: GraphModule, linear: Node, rows: Sequence[range]) -> Iterator[Node]:
    """The narrow layers, at the current insertion point."""
    x, weight, *rest = linear.args
    bias = rest[0] if rest else None
    emit = Emitter(graph.graph)
    for index, part in enumerate(rows):
        cut = None if bias is None else _cut(graph, emit, bias, part, index)
        yield emit(LINEAR, x, _cut(graph, emit, weight, part, index), *([cut] if cut is not None else []))


def _cut(graph: GraphModule, emit: Emitter, weight: Any, rows: range, index: int) -> Node:
    """Some rows of a weight, as views of the tensors it is made from."""
    if weight.target in _FORMS:
        args = _FORMS[weight.target](graph, weight, rows, index)
        return emit(weight.target, *args, **weight.kwargs)
    parameter = parameter_of(weight)
    assert parameter is not None
    held = _rows(graph, parameter, rows, index)
    return held if weight is parameter else emit(weight.target, held, *weight.args[1:], **weight.kwargs)


def _affine(graph: GraphModule, weight: Node, rows: range, index: int) -> list[Any]:
    given: Any = weight.args
    integers, block, scale, zero_point, *rest = given
    parts = [part if part is None else _rows(graph, part, rows, index) for part in (integers, scale, zero_point)]
    return [parts[0], block, parts[1], parts[2], *rest]


def _look_up(graph: GraphModule, weight: Node, rows: range, index: int) -> list[Any]:
    given: Any = weight.args
    indices, table, scale, group = given
    shared = group >= len(attribute(graph, str(indices.target)))
    groups = range(rows.start // group, -(-rows.stop // group))
    tables = table if shared else _rows(graph, table, groups, index)
    scales = None if scale is None else _rows(graph, scale, rows, index)
    return [_rows(graph, indices, rows, index), tables, scales, len(rows) if shared else group]


_FORMS = {DEQUANTIZE: _affine, DEQUANTIZE_LUT: _look_up}


def _rows(graph: GraphModule, node: Node, rows: range, index: int) -> Node:
    """A ``get_attr`` of some rows of a tensor, over the same memory."""
    name = f"{node.target}_part{index}"
    value: Tensor = attribute(graph, str(node.target)).detach()[rows.start : rows.stop]
    held = read_shared(graph, name, lambda: nn.Parameter(value, requires_grad=False))
    held.meta["val"] = node.meta["val"][rows.start : rows.stop]
    return held


def _repeated(graph: GraphModule, linear: Node, result: Node, part: Node) -> Node:
    """One piece of the logits, after a copy of the operators between the lm_head and the output."""
    chain, node = [], result
    while node is not linear:
        chain.append(node)
        node = next(source for source in node.all_input_nodes if source.op == "call_function")
    value = part
    with graph.graph.inserting_before(result.next):
        emit = Emitter(graph.graph)
        for each in reversed(chain):
            args = map_arg(each.args, lambda source: value if source is node else source)  # noqa: B023
            value, node = emit(each.target, *args, **each.kwargs), each
    return value
