"""Let attention read a KV cache, and recurrences a state, that live in the artifact and are written in place.

    k, v -> edgec::attention(q, k, v, positions, ...)                               recomputes every earlier token
    ==>
    k -> write(K_state) ; v -> write(V_state)                                       writes this call's tokens only
    q, K_state, V_state -> attend -> out

The operators are edgec's own (``kv_operators.py``) or ExecuTorch's (``kv_standard.py``). Layers that read the same k
and v (shared KV) share one cache. Sliding-window layers keep a ring of window - 1 + chunk slots. ``sink_tokens`` keeps
the first tokens of windowed layers visible forever (Xiao et al. 2023, arXiv 2309.17453): semantic, as the model was not
trained with it.

Legality: causal attention without another mask than relative positions (``slot_bias.py``); ExecuTorch's kernels have no
soft-capping, learned sinks, masks, 4-bit caches, or values of another width than keys. Float32 is exact (measured: 3e-7
against the uncached graph over prefill and 20 decode steps); float16, int8 and int4 are approximate. Measured on
stories260K, int8: KV bytes x 0.41 with ExecuTorch's kernels, scales and zero points included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from torch.fx import GraphModule

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.kv_layout import layout
from edgec.ir.program import Dynamic, Effect, Interface, Program, TensorType
from edgec.ir.recurrence import RECURRENCES
from edgec.passes.contract import nodes_of
from edgec.passes.kv.cache.kv_operators import OwnCache
from edgec.passes.kv.cache.kv_standard import StandardCache
from edgec.passes.kv.cache.kv_states import States
from edgec.passes.kv.cache.slot_bias import is_position_bias
from edgec.passes.kv.recurrent_states import give_states, refuse_unheld_states


@dataclass(frozen=True)
class KvCache:
    """Give every attention node in-place states for keys and values, and every recurrence what it remembers.

    Attributes:
        context: positions the artifact serves.
        chunk: the most tokens one call brings.
        dtype: float32, float16, int8, or int4 (with edgec's kernels).
        sink_tokens: leading tokens that windowed layers never lose.
        kernels: ``edgec`` for its own operators, ``standard`` for those that every ExecuTorch app has.
        rings: windowed layers keep a ring; without it, they keep all positions and get a mask, for states of fixed
            shape.
        revocable: the most tokens of a call that a recurrence can drop again; at least one.
    """

    context: int
    chunk: int
    dtype: str = "float32"
    sink_tokens: int = 0
    kernels: str = "edgec"
    rings: bool = True
    revocable: int = 15
    name: str = "kv_cache"

    @property
    def effect(self) -> Effect:
        """Exact in float32, approximate below, semantic with sink tokens."""
        if self.sink_tokens:
            return Effect.SEMANTIC
        return Effect.EXACT if self.dtype == "float32" else Effect.APPROXIMATE

    def unrounded(self) -> KvCache:
        """This pass with a float32 cache, which rounds nothing."""
        return replace(self, dtype="float32")

    def requires(self, program: Program) -> None:
        """A cached kernel can express every attention node and recurrence."""
        refuse_unheld_states(program, self.kernels)
        for node in nodes_of(program.graph, OPERATOR):
            problem = _problem(AttentionCall.of(node), self.kernels, self.dtype)
            if problem:
                raise InputError(
                    what="this attention cannot use a KV cache yet",
                    where=f"layer {node.args[5]}",
                    why=problem,
                    fix="export it as a module without a cache (--task feature-extraction)",
                    code="E181",
                )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace attention nodes; each distinct (k, v) pair gets one cache."""
        states = States(graph)
        give_states(graph, states, self.revocable)
        rewriter = {"edgec": OwnCache, "standard": StandardCache}[self.kernels](graph, states, self.dtype)
        for node in nodes_of(graph, OPERATOR):
            window = AttentionCall.of(node).window or None
            rewriter.replace(node, layout(window, self.context, self.chunk, self.sink_tokens, self.rings))
        return Interface(
            inputs=tuple(_bounded(program.interface.inputs, self.chunk)),
            outputs=tuple(_bounded(program.interface.outputs, self.chunk)),
            states=tuple(states.described),
        )

    def ensures(self, program: Program) -> None:
        """No uncached attention or recurrence is left."""
        assert not nodes_of(program.graph, OPERATOR, *RECURRENCES)


def _problem(call: AttentionCall, kernels: str, dtype: str) -> str:
    widths = (call.k.meta["val"].shape[-1], call.v.meta["val"].shape[-1])
    foreign = kernels == "standard"
    checks = {
        "it is not causal": not call.causal,
        "it has a mask other than the causal one": call.mask is not None and (foreign or not _biased(call)),
        "it soft-caps its scores, which ExecuTorch's kernel does not": foreign and bool(call.softcap),
        "it has learned attention sinks, which ExecuTorch's kernel does not": foreign and call.sink_logits is not None,
        f"keys are {widths[0]} wide and values {widths[1]}": foreign and widths[0] != widths[1],
        "ExecuTorch's kernel reads no 4-bit cache": foreign and dtype == "int4",
        "4-bit pairs need heads of even width": dtype == "int4" and any(width % 2 for width in widths),
    }
    return "; ".join(text for text, bad in checks.items() if bad)


def _biased(call: AttentionCall) -> bool:
    """Whether the mask is one of relative positions, over a cache without windows, caps and sinks."""
    plain = not call.window and not call.softcap and call.sink_logits is None
    return plain and call.mask is not None and is_position_bias(call.mask, call.positions)


def _bounded(tensors: Iterable[TensorType], chunk: int) -> Iterator[TensorType]:
    """The inputs or outputs of an interface, with S now at most a chunk."""
    for tensor in tensors:
        sizes = (
            Dynamic("S", 1, chunk) if isinstance(size, Dynamic) and size.name == "S" else size for size in tensor.shape
        )
        yield TensorType(tensor.name, tensor.dtype, tuple(sizes))
