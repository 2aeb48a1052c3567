"""Let the caller hold keys and values, which grow from call to call, as onnxruntime-genai does.

    k -> edgec::cache_write(K), v -> edgec::cache_write(V), q -> edgec::cached_attention(q, K, V) -> out
    tokens [1,S], positions [S], logit_index [K]
    ==>
    q, k, v, past_key_values.N.key, past_key_values.N.value -> edgec::grouped_attention -> out, present.N.key, ...
    input_ids [1,S], attention_mask [1,T], position_ids [1,S]; logits of the last token alone

One node of ONNX Runtime's takes the place of writing, masking and attending; it may write where the past lies. Layers
that share a cache get the same new keys and values, and the first of them gives the cache back.

Legality: full caches in float32, heads whose keys and values are equally wide, attention without a bias, chunks and
sink tokens, and as many queries as keys in each call. Exact. Counted on examples/tiny-stories: 8 nodes of attention, 16
caches.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import LAYER, OPERATOR, SPAN_END, AttentionCall, layer_of
from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.ir.growing_cache import GROUPED_ATTENTION, INPUT_IDS, LOGITS, MASK, PAST, POSITION_IDS, present_of
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION
from edgec.ir.program import Dynamic, Effect, Interface, Program, State, TensorType
from edgec.passes.contract import last_placeholder, nodes_of, output_node, placeholder
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.static_attention import CachedCall

aten = torch.ops.aten
_LAST = torch.iinfo(torch.int64).max


@dataclass(frozen=True)
class GrowingCache:
    """Make inputs and outputs of the caches; exact.

    Attributes:
        context: positions that the artifact serves.
    """

    context: int
    name: str = "growing_cache"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """ONNX Runtime's operator can express every attention node.

        Raises:
            InputError: E855.
        """
        refuse_ungrouped(program)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace inputs, caches and attention."""
        states = tuple(program.interface.states)
        pasts = _pasts(states)
        written = {str(node.args[2].target): node for node in nodes_of(graph, CACHE_WRITE)}  # type: ignore[union-attr]
        calls = [(node, CachedCall.of(node)) for node in nodes_of(graph, CACHED_ATTENTION)]
        inputs = _Inputs.take(graph, pasts)
        presents: dict[str, Node] = {}
        for node, call in calls:
            names = [pasts[str(cache.target)] for cache in (call.keys, call.values)]
            new: list[Any] = [written[str(cache.target)].args[0] for cache in (call.keys, call.values)]
            grown = _attend(graph, node, call, new, [inputs.pasts[name] for name in names], inputs)
            for name, present in zip(names, grown, strict=True):
                presents.setdefault(name, present)
        for node in written.values():
            graph.graph.erase_node(node)
        _return(graph, [presents[name] for name in pasts.values()])
        return self._interface(program.interface, pasts)

    def _interface(self, before: Interface, pasts: Mapping[str, str]) -> Interface:
        tokens = next(tensor.shape[1] for tensor in before.inputs if tensor.name == "tokens")
        past, total = Dynamic("P", 0, self.context), Dynamic("T", 1, self.context)
        inputs = [(INPUT_IDS, tokens), (MASK, total), (POSITION_IDS, tokens)]
        held = [
            TensorType(pasts[state.buffer], torch.float32, (1, _heads(state), past, _width(state)))
            for state in before.states
        ]
        grown = [
            replace(each, name=present_of(each.name), shape=(1, each.shape[1], total, each.shape[3])) for each in held
        ]
        vocabulary = before.outputs[0].shape[-1]
        return Interface(
            inputs=(*(TensorType(name, torch.int64, (1, size)) for name, size in inputs), *held),
            outputs=(TensorType(LOGITS, torch.float32, (1, 1, vocabulary)), *grown),
            states=tuple(_as_input(state, pasts[state.buffer]) for state in before.states),
        )

    def ensures(self, program: Program) -> None:
        """No cache is left in the graph."""
        assert not nodes_of(program.graph, CACHE_WRITE, CACHED_ATTENTION, BIASED_ATTENTION)


def refuse_ungrouped(program: Program) -> None:
    """Refuse a graph, with caches or without, of which ONNX Runtime's operator cannot express the attention.

    Raises:
        InputError: E855.
    """
    states = {state.buffer: state for state in program.interface.states}
    captured = [(call.layer, _Asked.of(call)) for call in map(AttentionCall.of, nodes_of(program.graph, OPERATOR))]
    cached = [
        (layer_of(node), _Asked.of_cached(CachedCall.of(node), states))
        for node in nodes_of(program.graph, CACHED_ATTENTION, BIASED_ATTENTION)
    ]
    for layer, asked in (*captured, *cached):
        if why := asked.problem:
            raise InputError(
                "The layout genai cannot express this model.",
                where=f"layer {layer}",
                why=why,
                fix="leave --layout out: edgec's own layout of ONNX has it",
                code="E855",
            )


@dataclass(frozen=True)
class _Asked:
    """What an attention node asks for beyond a causal softmax over equal heads."""

    key_width: int
    value_width: int
    window: int
    biased: bool
    ahead: bool
    sink: int = 0

    @classmethod
    def of(cls, call: AttentionCall) -> _Asked:
        key, value = (int(each.meta["val"].shape[-1]) for each in (call.k, call.v))
        return cls(key, value, call.window, call.mask is not None, not call.causal or call.positions.target == SPAN_END)

    @classmethod
    def of_cached(cls, call: CachedCall, states: Mapping[str, State]) -> _Asked:
        key, value = (_width(states[str(cache.target)]) for cache in (call.keys, call.values))
        return cls(key, value, call.window, call.bias is not None, call.written is not call.positions, call.sink)

    @property
    def problem(self) -> str:
        """Why ONNX Runtime's operator does not do; empty where it does."""
        checks = {
            f"keys are {self.key_width} wide and values {self.value_width}": self.key_width != self.value_width,
            "it sees chunks of positions": self.window < 0,
            "its window keeps the first tokens": bool(self.sink and self.window),
            "its scores have a bias": self.biased,
            "some tokens see later ones, or ask for nothing": self.ahead,
        }
        return "; ".join(text for text, bad in checks.items() if bad)


def _pasts(states: tuple[State, ...]) -> dict[str, str]:
    """The inputs that states become, by the states' names: keys and values in turn, counted from 0."""
    return {state.buffer: PAST % (place // 2, state.role) for place, state in enumerate(states)}


def _heads(state: State) -> int:
    return state.shape[2]


def _width(state: State) -> int:
    return state.shape[3]


def _as_input(state: State, name: str) -> State:
    """A state as the caller holds it: [1, G, context, D]."""
    return replace(state, buffer=name, shape=(1, _heads(state), state.slots, _width(state)))


@dataclass(frozen=True)
class _Inputs:
    """The new inputs, and what all attention nodes read of them."""

    pasts: Mapping[str, Node]
    lengths: Node
    total: Node

    @classmethod
    def take(cls, graph: GraphModule, pasts: Mapping[str, str]) -> _Inputs:
        """Replace the graph's inputs."""
        tokens, positions, rows = (placeholder(graph, name) for name in ("tokens", "positions", "logit_index"))
        tokens.target = tokens.name = INPUT_IDS
        last, made = tokens, []
        for name in (MASK, POSITION_IDS, *pasts.values()):
            with graph.graph.inserting_after(last):
                last = graph.graph.placeholder(name.replace(".", "_"))
            made.append(last)
        mask, places, *held = made
        with graph.graph.inserting_before(last_placeholder(graph).next):
            positions.replace_all_uses_with(graph.graph.call_function(aten.select.int, (places, 0, 0)))
            lengths, total = _counted(graph, mask)
        for row in list(rows.users):
            row.target, row.args = aten.slice.Tensor, (row.args[0], 1, -1, _LAST)
        for old in (positions, rows):
            graph.graph.erase_node(old)
        return cls(dict(zip(pasts.values(), held, strict=True)), lengths, total)


def _counted(graph: GraphModule, mask: Node) -> tuple[Node, Node]:
    """How many tokens there are, less one, int32 [1]; and for how many there is room, int32 []."""
    call = graph.graph.call_function
    marked = call(aten.sum.dim_IntList, (mask, [1]))
    lengths = call(aten.to.dtype, (call(aten.sub.Tensor, (marked, 1)), torch.int32))
    every = call(aten.sum.default, (call(aten.ones_like.default, (mask,)),))
    return lengths, call(aten.to.dtype, (every, torch.int32))


def _attend(
    graph: GraphModule, node: Node, call: CachedCall, new: list[Node], past: list[Node], inputs: _Inputs
) -> Iterator[Node]:
    """Replace one attention node; returns all keys and values."""
    _, _, heads, width = call.q.meta["val"].shape
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        q, k, v = (_rows(emit, each) for each in (call.q, *new))
        groups = int(new[0].meta["val"].shape[2])
        shape = (int(heads), groups, call.scale, call.window, call.softcap)
        both = graph.graph.call_function(
            GROUPED_ATTENTION, (q, k, v, *past, inputs.lengths, inputs.total, call.sink_logits, *shape)
        )
        out, *grown = (graph.graph.call_function(operator.getitem, (both, place)) for place in range(3))
        result = graph.graph.call_function(aten.reshape.default, (out, [1, -1, int(heads), int(width)]))
    result.meta[LAYER] = node.meta[LAYER]
    node.replace_all_uses_with(result)
    graph.graph.erase_node(node)
    return iter(grown)


def _rows(emit: Emitter, value: Node) -> Node:
    """[1, S, H, D] as [1, S, H * D]."""
    _, _, heads, width = value.meta["val"].shape
    return emit(aten.reshape.default, value, [1, -1, int(heads) * int(width)])


def _return(graph: GraphModule, presents: list[Node]) -> None:
    """Return keys and values after the logits."""
    output = output_node(graph)
    logits = output.args[0][0] if isinstance(output.args[0], tuple | list) else output.args[0]
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    output.args = ((logits, *presents),)
