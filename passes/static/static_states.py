"""Let recurrences and short convolutions continue from states of fixed shape, in operators that every format has.

    x -> edgec::cached_delta_rule(..., positions, state [1,1,H,N,P], log, seen)
    ==>
    state [1,H,N,P'] * (start > 0) -> all S tokens at once -> out ; state'  -> stored

    updates = "caller": the state is an input, and state' an output ``next_...``, which the caller puts in its place

A call's tokens are computed at once, in products of matrices or log2(S) steps (``parts/matrix_states.py``,
``parts/scans.py``, ``parts/weighted_mean.py``), so that a prefill of 64 tokens has as many operators as one of 16.
Padding leaves a state as it is: the tokens after ``last`` have a decay of 1 and write nothing, or their rows are not
taken. A call at position 0 multiplies the state by 0, so that no caller has to clear it. The log of tokens that may be
dropped again goes: a state of fixed shape continues where its last call ended, or from position 0.

Legality: every recurrence of ``ir/recurrence.py``, except for a delta rule with a decay for each key (Kimi Delta
Attention): its products of decays do not factor into a matrix of tokens by tokens. Exact in float32 (measured on tiny
random models of eight families over padded chunks and single tokens: 3e-7 to 5e-6 of the largest logit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program, State, TensorType
from edgec.ir.recurrence import DELTA_RULE
from edgec.ir.state_operators import (
    CACHED_CONV,
    CACHED_DELTA_RULE,
    CACHED_RECURRENCE,
    CACHED_SCAN,
    CACHED_SSD,
    CACHED_STATES,
    CACHED_WKV,
)
from edgec.ir.static_methods import NEW_STATE
from edgec.passes.contract import last_placeholder, nodes_of, output_node
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.chunk import Chunk
from edgec.passes.static.parts.matrix_states import DeltaCall, MixedCall, Results, delta_rule, ssd
from edgec.passes.static.parts.scans import (
    ConvCall,
    RecurrenceCall,
    causal_conv,
    linear_recurrence,
    selective_scan,
)
from edgec.passes.static.parts.weighted_mean import WkvCall, weighted_mean
from edgec.passes.static.static_cache import pad_last

aten = torch.ops.aten
_RANK = 4
_LOG_DECAY = 3


@dataclass(frozen=True)
class _StaticForm:
    """How an operator is written out: its arguments by name, and its meaning in plain operators."""

    call: Callable[..., Any]
    write: Callable[[Emitter, Chunk, Any, Node], Results]


_FORMS: Mapping[Any, _StaticForm] = {
    CACHED_CONV: _StaticForm(ConvCall, causal_conv),
    CACHED_DELTA_RULE: _StaticForm(DeltaCall, delta_rule),
    CACHED_SSD: _StaticForm(MixedCall, ssd),
    CACHED_SCAN: _StaticForm(MixedCall, selective_scan),
    CACHED_RECURRENCE: _StaticForm(RecurrenceCall, linear_recurrence),
    CACHED_WKV: _StaticForm(WkvCall, weighted_mean),
}


@dataclass(frozen=True)
class StaticStates:
    """Give every recurrence a state of fixed shape; exact.

    Attributes:
        multiple: the last dimension of a state is padded to a multiple of this; 1 leaves it as it is.
        updates: ``in_place`` writes the state in the graph; ``caller`` returns the new state instead.
    """

    multiple: int = 32
    updates: str = "in_place"
    name: str = "static_states"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Every recurrence has a static form, and the graph says which of its tokens are padding."""
        refuse_unwritten(program)
        given = {tensor.name for tensor in program.interface.inputs}
        assert {"start", "last"} <= given or not nodes_of(program.graph, *CACHED_STATES), "static_method runs before it"

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write out every recurrence."""
        nodes = nodes_of(graph, *CACHED_STATES)
        tokens = int(program.interface.inputs[0].shape[1]) if nodes else 1  # type: ignore[arg-type]
        held = _Held(graph, {state.buffer: state for state in program.interface.states}, Chunk(graph, tokens), self)
        for node in nodes:
            with graph.graph.inserting_before(node):
                result = held.written(Emitter(graph.graph), node)
            node.replace_all_uses_with(result)
            graph.graph.erase_node(node)
        return held.interface(program.interface)

    def ensures(self, program: Program) -> None:
        """No recurrence is left whole, and no log."""
        assert not nodes_of(program.graph, *CACHED_STATES)
        assert not [state for state in program.interface.states if state.role.endswith(("_log", "_seen"))]


def is_written(operator: object, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a recurrence can be written out for a whole chunk, from its arguments' shapes."""
    return operator not in (DELTA_RULE, CACHED_DELTA_RULE) or len(shapes[_LOG_DECAY]) < _RANK


def refuse_unwritten(program: Program) -> None:
    """Refuse a recurrence that has no static form.

    Raises:
        InputError: E513.
    """
    for node in nodes_of(program.graph, DELTA_RULE, CACHED_DELTA_RULE):
        shapes = [tuple(arg.meta["val"].shape) for arg in node.args if isinstance(arg, Node)]
        if not is_written(node.target, shapes):
            raise unwritten_recurrence(f"{program.spec.family if program.spec else 'the model'}, {node.name}")


def unwritten_recurrence(where: str) -> InputError:
    """The error for a recurrence that has no form in plain operators for a whole chunk."""
    return InputError(
        what="this model's recurrence cannot be written out for calls of fixed shape",
        where=where,
        why="its delta rule decays each key by itself, which no product of matrices computes for a whole chunk",
        fix="export for a CPU (--target android-cpu, iphone-16-pro-cpu or host)",
        code="E513",
    )


@dataclass
class _Held:
    """The recurrent states of one graph, as they get fixed shapes.

    Attributes:
        graph: changed in place.
        states: all states of the program by name, replaced one by one.
        chunk: the call's tokens.
        options: of the pass.
        after: by name, what the caller puts in a state's place.
    """

    graph: GraphModule
    states: dict[str, State]
    chunk: Chunk
    options: StaticStates
    after: dict[str, Node] = field(default_factory=dict)

    def written(self, emit: Emitter, node: Node) -> Node:
        """Write an operator out and store its state; returns what it gives."""
        form = _FORMS[node.target]
        call = form.call(*node.args)
        name, shape = str(call.state.target), tuple(call.state.meta["val"].shape[1:])
        for dropped in (call.log, call.seen):
            self.states.pop(str(dropped.target))
        width = -(-shape[-1] // self.options.multiple) * self.options.multiple
        fixed = (1, *[1] * (_RANK - len(shape)), *shape[1:-1], width)
        self.states[name] = replace(self.states[name], shape=fixed)
        held = self._place(name, call.state)
        begun = emit(aten.mul.Tensor, held, self.chunk.continues(emit))
        cut = begun if width == shape[-1] else emit(aten.slice.Tensor, begun, _RANK - 1, 0, shape[-1])
        out, after = form.write(emit, self.chunk, call, emit(aten.reshape.default, cut, list(shape)))
        grown = emit(aten.reshape.default, after, [*fixed[:-1], shape[-1]])
        self._store(emit, name, held, pad_last(emit, grown, self.options.multiple))
        return out

    def _place(self, name: str, like: Node) -> Node:
        """The node that reads a state."""
        state = self.states[name]
        if self.options.updates == "in_place":
            self.graph.register_buffer(name, torch.zeros(state.shape, dtype=state.dtype))
            held = self.graph.graph.get_attr(name)
        else:
            with self.graph.graph.inserting_after(last_placeholder(self.graph)):
                held = self.graph.graph.placeholder(name)
        held.meta["val"] = like.meta["val"].new_empty(state.shape)
        return held

    def _store(self, emit: Emitter, name: str, held: Node, after: Node) -> None:
        if self.options.updates == "in_place":
            emit.graph.call_function(aten.copy_.default, (held, after)).meta["val"] = held.meta["val"]
        else:
            self.after[name] = after

    def interface(self, before: Interface) -> Interface:
        """The interface with states of fixed shape; the caller's are inputs, and what replaces them outputs."""
        states = tuple(self.states.values())
        if not self.after:
            return replace(before, states=states)
        output = output_node(self.graph)
        given: Any = output.args[0]
        results = given if isinstance(given, tuple | list) else (given,)
        output.args = ((*results, *self.after.values()),)
        types = [TensorType(name, self.states[name].dtype, self.states[name].shape) for name in self.after]
        outputs = [replace(tensor, name=f"{NEW_STATE}{tensor.name}") for tensor in types]
        return Interface((*before.inputs, *types), (*before.outputs, *outputs), states)
