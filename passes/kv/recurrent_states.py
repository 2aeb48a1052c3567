"""Let recurrences and short convolutions continue from a state that lives in the artifact and is written in place.

    edgec::delta_rule(q, k, v, ...)                                                 from the sequence's first token on
    ==>
    edgec::cached_delta_rule(q, k, v, ..., positions, state, log, seen)             this call's tokens only

Each node has its own state, named by its layer, its own log of the last tokens, which may be dropped again, and its own
counts of tokens (``ir/state_operators.py``). States are float32: they are sums over the whole sequence, and do not grow
with it. Exact (measured against transformers on tiny
random models over prefill and decode: 5e-7 to 2e-5 of the largest logit).

Legality: edgec's own kernels, as ExecuTorch's standard ones have no such operators. In static methods, whose calls are
padded, ``static_states`` writes the operators out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.recurrence import CAUSAL_CONV, DELTA_RULE, LINEAR_RECURRENCE, RECURRENCES, SELECTIVE_SCAN, SSD, WKV
from edgec.ir.state_operators import (
    CACHED_CONV,
    CACHED_DELTA_RULE,
    CACHED_RECURRENCE,
    CACHED_SCAN,
    CACHED_SSD,
    CACHED_WKV,
)
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.kv.cache.kv_states import States

aten = torch.ops.aten


@dataclass(frozen=True)
class _Form:
    """How an operator is replaced.

    Attributes:
        operator: the one with a state.
        role: the state's, ``conv`` or ``recurrent``.
        positions: index of the argument after which state and count come.
        turned: index of a matrix [channels, values] whose transpose the operator reads, or None.
        shape: the state's, from the arguments' shapes.
        logged: indices of the arguments that have as many values for each token as a part of the log's row.
    """

    operator: Any
    role: str
    positions: int
    turned: int | None
    shape: Callable[[list[tuple[int, ...]]], tuple[int, ...]]
    logged: tuple[int, ...]


_FORMS: Mapping[object, _Form] = {
    CAUSAL_CONV: _Form(CACHED_CONV, "conv", 3, 1, lambda s: (s[1][1] - 1, s[1][0]), (0,)),
    DELTA_RULE: _Form(CACHED_DELTA_RULE, "recurrent", 5, None, lambda s: (s[2][2], s[1][3], s[2][3]), (1, 3, 2)),
    SSD: _Form(CACHED_SSD, "recurrent", 6, None, lambda s: (s[0][2], s[3][3], s[0][3]), (3, 1, 0)),
    SELECTIVE_SCAN: _Form(CACHED_SCAN, "recurrent", 6, 2, lambda s: (s[2][1], s[2][0]), (1, 0, 3)),
    LINEAR_RECURRENCE: _Form(CACHED_RECURRENCE, "recurrent", 2, None, lambda s: (s[0][2],), (1, 0)),
    WKV: _Form(CACHED_WKV, "recurrent", 4, None, lambda s: (3, s[0][2]), (0, 1)),
}


def held_values(operator: object, shapes: list[tuple[int, ...]]) -> tuple[int, int, int]:
    """The values that a recurrence remembers, that a token leaves in its log, and in a row of the state.

    Found from the shapes of its arguments.
    """
    form = _FORMS[operator]
    state = form.shape(shapes)
    return math.prod(state), _logged(form, shapes), state[-1]


def _logged(form: _Form, shapes: list[tuple[int, ...]]) -> int:
    return sum(math.prod(shapes[index][2:]) for index in form.logged)


def refuse_unheld_states(program: Program, kernels: str, unheld: str = "") -> None:
    """Refuse a recurrence where nothing can hold its state.

    Args:
        program: a captured decoder.
        kernels: ``edgec``, or ``standard`` for operators that every ExecuTorch app has.
        unheld: why the target's static methods hold none; empty where they do.

    Raises:
        InputError: E528.
    """
    nodes = nodes_of(program.graph, *RECURRENCES)
    if nodes and (unheld or kernels != "edgec"):
        family = program.spec.family if program.spec else "the model"
        raise unheld_state(f"{family}, layer {_layer(nodes[0], 0)}", unheld)


def unheld_state(where: str, unheld: str) -> InputError:
    """The error for a recurrence whose state cannot be held; ``unheld``: why, or empty for other kernels on a CPU."""
    return InputError(
        what="the model remembers earlier tokens in a state that this target cannot hold",
        where=where,
        why=unheld or "the export uses ExecuTorch's standard kernels, which have no recurrences",
        fix="export for a CPU (--target android-cpu, iphone-16-pro-cpu or host)"
        if unheld
        else "leave out --kernels standard, and install a C++ compiler where there is none",
        code="E528",
    )


def give_states(graph: GraphModule, states: States, revocable: int) -> None:
    """Replace each recurrence by the operator that continues from a state; its log holds ``revocable`` tokens."""
    for index, node in enumerate(nodes_of(graph, *RECURRENCES)):
        with graph.graph.inserting_before(node):
            result = _cached(Emitter(graph.graph), node, states, _layer(node, index), revocable)
        result.meta = {**node.meta, "val": result.meta["val"]}
        node.replace_all_uses_with(result)
        graph.graph.erase_node(node)


def _cached(emit: Emitter, node: Node, states: States, layer: int, revocable: int) -> Node:
    form, arguments = _FORMS[node.target], list[Any](node.args)
    shapes = [_shape(argument) for argument in arguments]
    like = arguments[form.positions]
    state = states.recurrent(layer, f"{form.role}_state", form.shape(shapes), like)
    log = states.recurrent(layer, f"{form.role}_log", (_logged(form, shapes),), like, slots=revocable)
    seen = states.recurrent(layer, f"{form.role}_seen", (2,), like, count=True)
    if form.turned is not None:
        turned = emit(aten.transpose.int, arguments[form.turned], 0, 1)
        arguments[form.turned] = emit(aten.clone.default, turned, memory_format=torch.contiguous_format)
    split = form.positions + 1
    return emit(form.operator, *arguments[:split], state, log, seen, *arguments[split:])


def _shape(argument: Any) -> tuple[int, ...]:
    value = argument.meta["val"] if isinstance(argument, Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _layer(node: Node, default: int) -> int:
    """The layer of a node: the first number in the path of the module that called it."""
    modules: Any = list((node.meta.get("nn_module_stack") or {}).values())
    numbered = re.search(r"\.(\d+)(\.|$)", modules[-1][0]) if modules else None
    return int(numbered.group(1)) if numbered else default
