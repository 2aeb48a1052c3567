"""The operator of mixture-of-experts layers: each token times the matrices of the experts that its router chose.

    edgec::experts(x, index, weight, bias?) -> out

``x`` [T, 1 or K, I], float: a row for each choice of a token, or one for all its choices; ``index`` int64 [T, K], the
chosen experts; ``weight`` [E, O, I]; ``bias`` [E, O]. The result is [T, K, O]: row (t, k) is that of ``x`` times
``weight[index[t, k]]``, plus the bias. Only chosen experts are read. A choice outside 0..E-1 gives a row of zeros.

A layer calls it twice: up to the hidden width, down again. What lies between (SwiGLU, clamps, norms) and after (the sum
weighted by the router) is ordinary arithmetic of the graph, so every family of experts is captured by this operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

_ARGUMENTS = "Tensor x, Tensor index, Tensor weight, Tensor? bias"


def reference_experts(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The operator's meaning in plain torch, one chosen expert after the other."""
    return chosen_products(x, index, weight.shape[:2], weight.__getitem__, bias)


def chosen_products(
    x: Tensor, index: Tensor, sizes: Sequence[int], matrix_of: Callable[[int], Tensor], bias: Tensor | None
) -> Tensor:
    """The operator over matrices that exist one at a time.

    Args:
        x: [T, 1 or K, I], float.
        index: int64 [T, K].
        sizes: E and O.
        matrix_of: the matrix [O, I] of an expert, asked for once for each that is chosen.
        bias: [E, O], or None.
    """
    experts, height = sizes
    rows = x.expand(*index.shape, x.shape[2])
    out = x.new_zeros(*index.shape, height)
    for expert in index.unique().tolist():
        if 0 <= expert < experts:
            chosen = index == expert
            own = None if bias is None else bias[expert]
            out = out.index_put((chosen,), torch.nn.functional.linear(rows[chosen], matrix_of(expert), own))
    return out


def _fake(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((index.shape[0], index.shape[1], weight.shape[1]))


_op = torch.library.custom_op("edgec::experts", reference_experts, mutates_args=(), schema=f"({_ARGUMENTS}) -> Tensor")
_op.register_fake(_fake)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Compute gradients by running the reference again."""
    saved: Any = [t if t is None else t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors]
    x, index, weight, bias = saved
    with torch.enable_grad():
        out = reference_experts(x, index, weight, bias)
        wanted = [t for t in (x, weight, bias) if t is not None]
        grads = torch.autograd.grad(out, wanted, grad, allow_unused=True)
    return grads[0], None, grads[1], None if bias is None else grads[2]


_op.register_autograd(_backward, setup_context=_save)


def _into(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, *, out: Tensor) -> Tensor:
    result = reference_experts(x, index, weight, bias)
    return out.resize_(result.shape).copy_(result)


def _into_fake(x: Tensor, index: Tensor, weight: Tensor, bias: Tensor | None, *, out: Tensor) -> Tensor:
    return out.resize_((index.shape[0], index.shape[1], weight.shape[1]))


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library("edgec", "FRAGMENT")
_LIBRARY.define(f"experts.out({_ARGUMENTS}, *, Tensor(z!) out) -> Tensor(z!)")
_LIBRARY.impl("experts.out", _into, "CPU")
_LIBRARY.impl("experts.out", _into_fake, "Meta")
EXPERTS = torch.ops.edgec.experts.default


@dataclass(frozen=True)
class ExpertsCall:
    """The arguments of one ``edgec::experts`` node, by the operator's own names."""

    x: Node
    index: Node
    weight: Node
    bias: Node | None = None

    @classmethod
    def of(cls, node: Node) -> ExpertsCall:
        """Read a node; the operator's schema fixes order and types."""
        arguments: Any = node.args
        return cls(*arguments)
