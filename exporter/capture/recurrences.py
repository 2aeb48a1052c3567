"""Capture transformers' recurrences and short convolutions as edgec's operators.

Model files call them by name: ``causal_conv1d_fn``, ``torch_chunk_gated_delta_rule``, ``mamba2_chunk_scan`` and others
are functions of each file, some are methods. While a model is traced these names stand for edgec's operators. Loops
over tokens that have no name are known by their class (``matrix_memories.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.functional import silu, softplus

from edgec.exporter.capture.attention import chunks, identity_experts, positions_of
from edgec.exporter.capture.compressed_attention import compressed_projection
from edgec.exporter.capture.matrix_memories import gated_memory, lightning_attention, require_fresh
from edgec.ir.recurrence import CAUSAL_CONV, DELTA_RULE, LINEAR_RECURRENCE, SELECTIVE_SCAN, SSD, WKV
from edgec.passes.contract import nodes_of, placeholder
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@contextmanager
def call_recurrences(model: nn.Module) -> Iterator[None]:
    """Let the code of a model's classes call edgec's operators inside the block."""
    types, files = model_code(model)
    with ExitStack() as stack:
        for name, function in _FUNCTIONS.items():
            for file in (file for file in files if hasattr(file, name)):
                stack.enter_context(patch.object(file, name, function))
        for name, method in _METHODS.items():
            for each in (each for each in types if name in vars(each)):
                stack.enter_context(patch.object(each, name, method))
        for each in (each for each in types if each.__name__ in _FORWARDS):
            stack.enter_context(patch.object(each, "forward", _FORWARDS[each.__name__]))
        for name, value in _SETTINGS.items():
            for config in (m.config for m in model.modules() if hasattr(getattr(m, "config", None), name)):
                stack.enter_context(patch.object(config, name, value))
        yield


def model_code(model: nn.Module) -> tuple[set[type[nn.Module]], set[ModuleType]]:
    """The classes that a model is made of, and the files that they stand in."""
    types = {type(module) for module in model.modules()}
    return types, {sys.modules[each.__module__] for each in types}


def names_of_recurrences(model: nn.Module) -> frozenset[str]:
    """The names of a model's functions, methods and classes that compute recurrences which edgec has operators for."""
    types, files = model_code(model)
    functions = {name for name in _FUNCTIONS for file in files if hasattr(file, name)}
    methods = {name for name in _METHODS for each in types if name in vars(each)}
    forwards = {each.__name__ for each in types if each.__name__ in _FORWARDS}
    return frozenset((functions | methods | forwards) - _NOT_RECURRENT)


def is_beyond_half(model: nn.Module) -> bool:
    """Whether a model's states are sums that leave the range of float16, by the code that computes them."""
    return bool(_BEYOND_HALF & {type(module).__name__ for module in model.modules()})


def recognise_convolutions(graph: GraphModule) -> None:
    """Replace depthwise convolutions over the sequence, padded at the start and cut at the end, by edgec's operator.

    conv1d(x, w, b, padding=K - 1, groups=C) -> slice(2, 0, S)      ==>      causal_conv
    pad(x, [0, 0, n, -n])                                           ==>      causal_conv with the filter 1, 0, ... 0
    """
    _recognise_shifts(graph)
    for node in nodes_of(graph, aten.conv1d.default):
        cut = next(iter(node.users)) if len(node.users) == 1 else None
        if cut is not None and _is_causal(node) and _keeps_length(cut, node):
            with graph.graph.inserting_before(cut):
                cut.replace_all_uses_with(_as_causal(Emitter(graph.graph), node, placeholder(graph, "positions")))
            graph.graph.eliminate_dead_code()


def _recognise_shifts(graph: GraphModule) -> None:
    """Replace shifts of all tokens by some places, as RWKV mixes each token with the one before it."""
    for node in nodes_of(graph, aten.pad.default, aten.constant_pad_nd.default):
        places = places_shifted(node.meta["val"], *node.args[1:])
        if places:
            with graph.graph.inserting_before(node):
                shifted = _shifted(Emitter(graph.graph), node, places, placeholder(graph, "positions"))
            shifted.meta["nn_module_stack"] = node.meta.get("nn_module_stack")
            node.replace_all_uses_with(shifted)
            graph.graph.erase_node(node)


def places_shifted(x: Tensor, padding: Any, *fill: Any) -> int:
    """How many places a padding of [B, S, C] moves all tokens onwards, zeros before them; 0 for any other padding."""
    left, right, first, last = (*padding, 0, 0, 0, 0)[:4]
    flat = x.dim() == 3 and len(padding) == 4 and set(fill) <= {"constant", None, 0}
    return first if flat and left == right == 0 and isinstance(first, int) and first == -last > 0 else 0


def _shifted(emit: Emitter, node: Node, places: int, positions: Node) -> Node:
    channels = int(node.meta["val"].shape[2])
    oldest = emit(aten.ones.default, [channels, 1])
    filters = emit(aten.cat.default, [oldest, emit(aten.zeros.default, [channels, places])], 1)
    return emit(CAUSAL_CONV, node.args[0], filters, None, positions, False)


def _is_causal(conv: Node) -> bool:
    _, weight, _, stride, padding, dilation, groups = (*conv.args, *(None, [1], [0], [1], 1)[len(conv.args) - 2 :])  # type: ignore[misc]
    channels, each, taps = weight.meta["val"].shape  # type: ignore[union-attr]
    return (list(stride), list(padding), list(dilation)) == ([1], [taps - 1], [1]) and (each, groups) == (1, channels)  # type: ignore[arg-type]


def _keeps_length(cut: Node, conv: Node) -> bool:
    """Whether a node cuts a convolution's result to the length of its input."""
    source: Any = conv.args[0]
    if cut.target is not aten.slice.Tensor or cut.args[1] not in (2, -1) or cut.args[2] not in (0, None):
        return False
    return bool(statically_known_true(cut.meta["val"].shape[2] == source.meta["val"].shape[2]))


def _as_causal(emit: Emitter, conv: Node, positions: Node) -> Node:
    x, weight, *rest = conv.args
    filters = emit(aten.squeeze.dim, weight, 1)
    rows = emit(aten.transpose.int, x, 1, 2)
    out = emit(CAUSAL_CONV, rows, filters, rest[0] if rest else None, positions, False)
    out.meta["nn_module_stack"] = conv.meta.get("nn_module_stack")
    return emit(aten.transpose.int, out, 1, 2)


def _conv(
    hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None, **_: Any
) -> Tensor:
    from transformers.activations import ACT2FN

    x, fused = hidden_states.transpose(1, 2), activation in ("silu", "swish")
    out = CAUSAL_CONV(x.float(), weight.float(), bias, positions_of(x.shape[1]), fused).transpose(1, 2)
    result: Tensor = out if activation is None or fused else ACT2FN[activation](out)
    return result


def _delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> tuple[Tensor, None]:
    require_fresh(initial_state)
    operands = [part.float() for part in (query, key, value, g, beta)]
    scale = float(query.shape[-1]) ** -0.5
    return DELTA_RULE(*operands, positions_of(value.shape[1]), use_qk_l2norm_in_kernel, scale), None


def _ssd(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int | None = None,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **_: Any,
) -> Tensor | tuple[Tensor, None]:
    require_fresh(initial_states)
    step = _positive_step(dt, dt_bias, dt_softplus)
    low, high = (float(bound) for bound in dt_limit)
    if low > 0.0 or high != float("inf"):
        step = step.clamp(low, high)
    operands = (hidden_states.float(), step.float(), A.float(), B.float(), C.float())
    out = SSD(*operands, None if D is None else D.float(), positions_of(dt.shape[1]))
    return (out, None) if return_final_states else out


def _positive_step(dt: Tensor, bias: Tensor | None, softened: bool) -> Tensor:
    step = dt if bias is None else dt + bias.to(dt.dtype)
    return softplus(step) if softened else step


def _selective_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_: Any,
) -> Tensor | tuple[Tensor, None]:
    x, steps, b, c = (part.transpose(1, 2).float() for part in (hidden_states, dt, B, C))
    step = _positive_step(steps, delta_bias, delta_softplus)
    out = SELECTIVE_SCAN(x, step, A, b, c, None if D is None else D.float(), positions_of(x.shape[1]))
    out = (out if z is None else out * silu(z.transpose(1, 2))).transpose(1, 2)
    return (out, None) if return_last_state else out


def _wkv(
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: object = None,
    return_state: bool = False,
) -> tuple[Tensor, None]:
    require_fresh(state)
    decay, first = -time_decay.float().exp(), time_first.float()
    return WKV(key.float(), value.float(), decay, first, positions_of(key.shape[1])), None


def _rnn_scan(
    module: nn.Module,
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None = None,
    acc_dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, None]:
    decay = (recurrent_gate * ~reset).float()
    return LINEAR_RECURRENCE(hidden_states.float(), decay, positions_of(decay.shape[1])), None


def _key_bias(module: nn.Module, hidden_states: Tensor, dt_states: Tensor, **_: Any) -> Tensor:
    """What Doge adds to the scores of a key, for all queries; none is left out (``chosen_keys.py``)."""
    return dt_states.unsqueeze(2)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "create_chunked_causal_mask": chunks,
    "causal_conv1d_fn": _conv,
    "torch_chunk_gated_delta_rule": _delta_rule,
    "chunk_kimi_delta_attention": _delta_rule,
    "mamba2_chunk_scan": _ssd,
    "mamba_selective_scan": _selective_scan,
    "rwkv_linear_attention": _wkv,
}
_NOT_RECURRENT = frozenset(
    {"create_chunked_causal_mask", "causal_conv1d_fn", "prepare_dynamic_mask", "LongcatFlashExperts"}
)
# What only widens float16's range: it halves hidden states and, while the model runs, the stored weights before them.
_SETTINGS: Mapping[str, object] = {"rescale_every": 0}
_METHODS: Mapping[str, Callable[..., Any]] = {"_rnn_scan": _rnn_scan, "prepare_dynamic_mask": _key_bias}
# By class: loops over experts or over tokens that their file has no name for.
_FORWARDS: Mapping[str, Callable[..., Any]] = {
    "LongcatFlashExperts": identity_experts,
    "MiniMaxLightningAttention": lightning_attention,
    "xLSTMBackend": gated_memory,
    "ZayaCCAProjection": compressed_projection,
}
# Exponentials of gates, up to exp(15), and divided by steps that float16 rounds to 0.
_BEYOND_HALF = frozenset({"xLSTMBackend"})
