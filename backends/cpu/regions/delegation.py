"""The place where a decoder's arithmetic runs: inside delegates, or on ExecuTorch's and edgec's CPU kernels, and why.

Work is counted for one decoded token at half the context: multiply-accumulates of matrix products, convolutions,
attention and recurrences, and one operation per result element of everything else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgec.bundle.findings import Delegation, Fallback
from edgec.ir.experts import EXPERTS
from edgec.ir.state_operators import CACHED_STATES

_ATTENTION = ("custom_sdpa", "custom_quantized_sdpa", "attention", "cached_attention")
_NO_WORK = frozenset(
    [
        "view",
        "reshape",
        "transpose",
        "unsqueeze",
        "slice",
        "select",
        "permute",
        "expand",
        "item",
        "getitem",
        "sym_size",
        "to",
        "alias",
    ]
)
# Names of ExecuTorch's edge dialect for operators that count.
_EDGE_NAMES = {"_softmax": "softmax", "_native_batch_norm_legit_no_training": "batch_norm"}
# Matrix products, and which argument is the left factor.
_PRODUCTS = {"linear": 0, "mm": 0, "bmm": 0, "matmul": 0, "addmm": 1, "baddbmm": 1}
_WHOLE_ATTENTION = "scaled_dot_product_attention"
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution")
# Values of all gates for each value of the hidden state.
_GATES = {"lstm": 4, "gru": 3}
# Each value of a state is multiplied as it decays, as a token is written and as it is read.
_STATE_PRODUCTS = 3
_OWN = "edgec's own kernel: "
_REASONS = {
    "cached_attention": _OWN + "attention reads state in place; XNNPACK has no operator over mutable state",
    "cache_write": _OWN + "writes state in place; XNNPACK has no mutable tensors",
    **dict.fromkeys(
        ("cached_conv", "cached_delta_rule", "cached_ssd", "cached_scan", "cached_recurrence", "cached_wkv"),
        _OWN + "continues a state in place; XNNPACK has no operator over mutable state",
    ),
    **dict.fromkeys(("lstm", "gru"), _OWN + "a loop over the steps; XNNPACK has no operator with one"),
    "rms_norm": _OWN + "a norm over heads, between a delegate and attention",
    "experts": _OWN + "reads the matrices chosen per token; XNNPACK multiplies all tokens by one matrix",
    "rope": _OWN + "rotates heads, between a delegate and attention",
    "custom_sdpa": "attention reads state in place; XNNPACK has no operator over mutable state",
    "custom_quantized_sdpa": "attention reads int8 state in place; XNNPACK has no operator over mutable state",
    "update_cache": "writes state in place; XNNPACK has no mutable tensors",
    "update_cache_with_indices": "writes state in place; XNNPACK has no mutable tensors",
    "embedding": "a gather of rows; XNNPACK has no gather",
    "index_select": "a gather of rows; XNNPACK has no gather",
    "mean": "XNNPACK averages the last two of four dimensions only",
    "pow": "belongs to the norm around mean, which XNNPACK cannot take",
    "rsqrt": "belongs to the norm around mean, which XNNPACK cannot take",
    "dequantize_affine": "expands the rows that the embedding gathered",
    "choose_qparams_per_token_asymmetric": "rounds keys, values and queries for the int8 cache",
    "quantize_per_token": "rounds keys, values and queries for the int8 cache",
    "linear": "its weight is not a constant, or its shape is not one XNNPACK multiplies",
    "convolution": "XNNPACK has no operator for it: three dimensions, or a weight that is computed",
}
_ELSE = "lies between attention and the linear layers: a delegate call would cost more than it saves"


@dataclass(frozen=True)
class Work:
    """The work of one node for a decoded token."""

    operator: str
    operations: int


def delegation(within: Sequence[Work], beyond: Sequence[Work], backend: str, delegates: int) -> Delegation:
    """Sum up the work inside and outside delegates."""
    total = sum(work.operations for work in (*within, *beyond)) or 1
    by_name: defaultdict[str, list[int]] = defaultdict(list)
    for work in beyond:
        by_name[work.operator].append(work.operations)
    fallbacks = [
        Fallback(operator=name, count=len(ops), reason=_REASONS.get(name, _ELSE), share=sum(ops) / total)
        for name, ops in by_name.items()
    ]
    return Delegation(
        backend=backend,
        delegates=delegates,
        delegated_operators=len(within),
        delegated_share=sum(work.operations for work in within) / total,
        fallbacks=sorted(fallbacks, key=lambda f: (-f.share, f.operator)),
    )


def works_of(nodes: Iterable[Node], context: int) -> list[Work]:
    """The work of those nodes that have any."""
    return [work for node in nodes if (work := work_of(node, context))]


def work_of(node: Node, context: int) -> Work | None:
    """A node's work, or None for a node that neither computes nor copies."""
    if node.op != "call_function":
        return None
    name = operator_name(node)
    if name in _NO_WORK or name.startswith("_"):
        return None
    return Work(name, _operations(node, name, context))


def operator_name(node: Node) -> str:
    """An operator's name without namespace and overload; in the edge dialect, that of the operator it copies."""
    target = node.target
    schema = getattr(target, "_schema", None)
    if schema is None:
        return str(getattr(target, "__name__", target)).split(".")[0]
    name = str(schema.name.split("::")[-1])
    if isinstance(target, torch._ops.OpOverload):
        return name
    return _EDGE_NAMES.get(name, name.removesuffix("_copy"))


def _operations(node: Node, name: str, context: int) -> int:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        value = value[0]
    elements = _one_token(value)
    if node.target is EXPERTS or name in _PRODUCTS:
        left: Any = node.args[_PRODUCTS.get(name, 0)]
        return elements * _fixed(left.meta["val"].shape[-1])
    if name in _ATTENTION:
        return elements * context
    if name in (_WHOLE_ATTENTION, *_GATES):
        return _of_several(node, name, elements)
    if name in _CONVOLUTIONS:
        return _filtered(node, name, elements)
    if node.target in CACHED_STATES:
        return _STATE_PRODUCTS * _state_elements(node)
    return elements


def _filtered(node: Node, name: str, elements: int) -> int:
    """A convolution's products: results, or inputs where it is transposed, times one filter [out, in / groups, *]."""
    given: Any = node.args
    x, weight = given[:2]
    transposed = "transpose" in name or (name == "convolution" and bool(node.args[6]))
    known = weight.meta.get("val")
    each = prod(known.shape[1:]) if isinstance(known, torch.Tensor) else 1
    return (_one_token(x.meta["val"]) if transposed else elements) * each


def _of_several(node: Node, name: str, elements: int) -> int:
    """The products of recurrent gates, or of queries [.., L, D] with keys [.., S, D], and of weights with values."""
    first, second = (source.meta["val"] for source in node.all_input_nodes[:2])
    if name in _GATES:
        return _one_token(first) * (int(first.shape[-1]) // _GATES[name])
    return (_one_token(first) + elements) * _fixed(second.shape[-2])


def _fixed(size: object) -> int:
    """A dimension, or 1 where it varies."""
    return size if isinstance(size, int) else 1


def _state_elements(node: Node) -> int:
    """The elements of the state that a recurrence continues."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    state = node.args[names.index("state")]
    return _one_token(state.meta["val"]) if isinstance(state, Node) else 0


def _one_token(value: object) -> int:
    """The elements of a result when every varying dimension is 1."""
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for size in value.shape:
        count *= _fixed(size)
    return count
