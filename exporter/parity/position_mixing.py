"""Refuse decoders in which an operator without a state carries one token's values to another.

    tokens a b c d -> ... edgec::attention becomes the value of the same position ... -> logits
    tokens a x c d -> ... the same graph ...                                          -> only the second row differs

Attention and recurrences reach over positions, and passes give them a state. Restricted to its own position, a graph
works row by row: another token at one position changes the logits of that position only. A convolution, scan,
cumulative sum or shift over the sequence breaks that, whatever it is called; a later call of the artifact would not see
the tokens of an earlier one. Only numbers are compared, so operators over positions alone (a mask, a rotary table) are
allowed. Costs one forward pass of 46 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.call_plan import call_inputs
from edgec.ir.graph_run import first_output, run_calls
from edgec.ir.program import Dynamic, Program
from edgec.ir.recurrence import RECURRENCES, VALUE_OF
from edgec.passes.contract import clone, nodes_of

# Prime, so that no other dimension of a model is as long.
_TOKENS, _CHANGED = 23, 5
# As much as two executions of the same arithmetic may differ: sums over experts run in another order.
_TOLERANCE = 1e-4
_KNOWN = frozenset({"aten", "prims", "edgec"})


def refuse_mixed_positions(program: Program) -> None:
    """Refuse a captured decoder in which an operator reaches over positions that no pass gives a state.

    Args:
        program: as captured, without states; its weights are bound.

    Raises:
        InputError: E526, naming the first such operator, or one whose meaning edgec does not know.
    """
    unknown = next((node for node in program.graph.graph.nodes if _is_unknown(node)), None)
    if unknown is not None:
        raise _refused(program, unknown, "edgec does not know whether this operator mixes positions")
    alone = replace(program, graph=_by_position(program.graph))
    calls = [call_inputs(program.interface, ids, 0, len(ids), torch.arange(len(ids))) for ids in _pair(program)]
    with torch.no_grad():
        first, second = (first_output(output) for output in run_calls(alone, calls))
        if not _others_equal(first, second, 1):
            raise _refused(program, _find_first_mixing(alone, calls), "it carries a token's value to other positions")


def _is_unknown(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload | torch._ops.HigherOrderOperator):
        return False
    return not isinstance(node.target, OpOverload) or node.target.namespace not in _KNOWN


def _by_position(graph: GraphModule) -> GraphModule:
    """A copy in which attention, and every recurrence that edgec knows, returns the value of its own position."""
    copied = clone(graph)
    for node in nodes_of(copied, *RECURRENCES):
        value: Any = node.args[VALUE_OF[node.target]]
        node.replace_all_uses_with(value)
        copied.graph.erase_node(node)
    for node in nodes_of(copied, OPERATOR):
        call = AttentionCall.of(node)
        with copied.graph.inserting_before(node):
            own = copied.graph.call_function(_own_value, (call.q, call.v))
        own.meta = dict(node.meta)
        node.replace_all_uses_with(own)
        copied.graph.erase_node(node)
    return copied


def _own_value(q: Tensor, v: Tensor) -> Tensor:
    """What attention would return if a query saw only its own position, [B, S, H, Dv]; of T > S the first S."""
    return v.repeat_interleave(q.shape[1] // v.shape[1], 1).transpose(1, 2)[:, : q.shape[2]].contiguous()


def _pair(program: Program) -> Iterator[list[int]]:
    """Two sequences that differ in one token."""
    size: Any = program.interface.inputs[0].shape[1]
    length = min(_TOKENS, size.high) if isinstance(size, Dynamic) else int(size)
    assert program.spec is not None
    vocabulary = program.spec.vocab_size
    tokens = torch.randint(vocabulary, (length,), generator=torch.Generator().manual_seed(0)).tolist()
    yield tokens
    yield [(token + vocabulary // 2) % vocabulary if i == _CHANGED else token for i, token in enumerate(tokens)]


def _others_equal(first: Tensor, second: Tensor, dim: int) -> bool:
    """Whether two values agree at every position but the changed one."""
    rest = torch.arange(first.shape[dim]) != _CHANGED
    one, other = (value.transpose(0, dim)[rest].float() for value in (first, second))
    scale = float(one.nan_to_num(0, 0, 0).abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=0, atol=_TOLERANCE * scale, equal_nan=True)


def _find_first_mixing(program: Program, calls: list[list[Tensor]]) -> Node:
    """The operator that made the first value in which other positions differ."""
    recorded, compared = _Recorder(program.graph), _Recorder(program.graph)
    recorded.run(*calls[0])
    compared.run(*calls[1])
    length = calls[0][0].shape[1]
    for node, value in recorded.values.items():
        for dim in [d for d, size in enumerate(value.shape) if size == length]:
            if not _others_equal(value, compared.values[node], dim):
                return _origin(node, recorded.values, length)
    result: Node = next(iter(reversed(program.graph.graph.nodes)))
    return result


def _origin(node: Node, values: dict[Node, Tensor], length: int) -> Node:
    """The operator that made a value; goes back over inputs that have no dimension of positions."""
    source = next((one for one in node.all_input_nodes if one in values), None)
    while source is not None and length not in values[source].shape:
        node, source = source, next((one for one in source.all_input_nodes if one in values), None)
    return node


class _Recorder(Interpreter):
    """An interpreter that keeps every computed tensor, for the few tokens of one failed check."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.values: dict[Node, Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, Tensor) and result.dtype != torch.bool:
            self.values[n] = result
        return result


def _refused(program: Program, node: Node, why: str) -> InputError:
    modules: Any = list((node.meta.get("nn_module_stack") or {}).values())
    place = f" in {modules[-1][0]}" if modules else ""
    return InputError(
        what=f"an operator of the model needs a state that edgec cannot give it: {node.target}",
        where=f"{program.spec.family if program.spec else 'the model'}{place}",
        why=f"{why}; decoding token by token would give different text",
        fix="this architecture cannot be exported as a decoder yet; as a module without a cache it can "
        "(--task feature-extraction)",
        code="E526",
    )
