"""How far two right executions of one rounded graph differ, measured on that very graph and text.

    x -> round to 8 bits -> linear           x * (1 + 1e-6 u) -> round to 8 bits -> linear

A sum in another order moves a value by its last places. Where the value lies midway between two integers, it is rounded
the other way, and after a few layers the rounding errors of two executions have nothing in common any more. How much
that is depends on the model: KL 0.018 nats with one scale for a whole token on SmolLM2-135M, 0.004 with one for 32
values, and 1e-9 where nothing is rounded but weights. It hardly depends on what set it off: on SmolLM2 in 4 bits
values moved by 1e-7, 1e-6 and 1e-5 give 0.0036, 0.0042 and 0.0040, and the artifact 0.0035.

An artifact in float16 rounds every value that it passes on: there the second execution rounds the results of layers,
attention and what joins them to float16. Core AI's runtime on Linux rounds every partial sum of a layer, too: of 1,536
products the result is 0.6 % off, 28 times what rounding it once costs (measured, coreai-core 1.0.0b3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import Node

from edgec.bundle.part import JsonPart
from edgec.exporter.parity.metrics import difference
from edgec.ir.attention import layer_of
from edgec.ir.experts import EXPERTS
from edgec.ir.program import Program
from edgec.ir.quantized_form import QUANTIZE
from edgec.passes.contract import clone, nodes_of

if TYPE_CHECKING:
    from edgec.backends.forms import Form

aten = torch.ops.aten
SHARE = 1e-6
_LARGEST = torch.finfo(torch.float16).max
# In place of an infinity, which JSON cannot hold.
_MOST = 1e9
_MADE = (aten.linear.default, aten.embedding.default, EXPERTS)
# What joins layers. None of it returns memory of a state.
_JOINING = (
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar),
    *(aten.silu.default, aten.gelu.default, aten.tanh.default, aten.sigmoid.default, aten.softplus.default),
    *(aten.rms_norm.default, aten.layer_norm.default, aten.matmul.default, aten.bmm.default, aten.softmax.int),
    *(aten._softmax.default, aten.conv2d.default, aten.relu.default, aten.neg.default),
)
Disturb = Callable[[Program], Program]


class Noise(JsonPart):
    """How far a graph's logits moved in a second execution.

    ``kl_mean``: nats; ``max_relative``: of the largest logit; ``how``: what was done to the second execution.
    """

    kl_mean: float
    max_relative: float
    how: str


@dataclass(frozen=True)
class Second:
    """A second execution of a graph: how its program is made of the first, and that in words."""

    disturb: Disturb
    how: str

    def noise(self, program: Program, logits: Tensor, run: Callable[[Program], Tensor]) -> Noise:
        """How far the second execution is from the first, whose logits [P, V] are given; costs one run."""
        return self.between(logits, run(self.disturb(program)))

    def between(self, logits: Tensor, again: Tensor) -> Noise:
        """How far the logits [P, V] of the two executions are apart."""
        gap = difference(logits, again, 0.0)
        return Noise(kl_mean=min(gap.kl_mean, _MOST), max_relative=min(gap.max_relative, _MOST), how=self.how)


def moved(program: Program) -> Program:
    """The program with every activation that is rounded, and what layers and look-ups give, moved by 1e-6 of itself."""
    graph = clone(program.graph)
    rounded = (node.all_input_nodes[0] for node in nodes_of(graph, QUANTIZE))
    for seed, node in enumerate(dict.fromkeys((*rounded, *nodes_of(graph, *_MADE)))):
        _insert(node, _move, seed)
    graph.recompile()
    return replace(program, graph=graph)


def in_half(program: Program) -> Program:
    """The program with what its layers, attention and what joins them give rounded to float16, where that is finite."""
    graph = clone(program.graph)
    for node in [node for node in graph.graph.nodes if _is_computed(node)]:
        _insert(node, _round)
    graph.recompile()
    return replace(program, graph=graph)


def in_half_sums(program: Program) -> Program:
    """``in_half``, and every partial sum of a linear layer rounded to float16 as well, in order."""
    made = in_half(program)
    for node in nodes_of(made.graph, aten.linear.default):
        node.target = _summed_in_half
    made.graph.recompile()
    return made


def _summed_in_half(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``linear`` of [..., K] and [N, K], whose sums over K are float16 after each step; float32."""
    rows, columns = x.detach().reshape(-1, x.shape[-1]).half().float(), weight.detach().half().float()
    total = torch.zeros(len(rows), len(columns))
    for left, right in zip(rows.t().contiguous(), columns.t().contiguous(), strict=True):
        total.addr_(left, right).clamp_(-_LARGEST, _LARGEST)
        total.copy_(total.half())
    total = total if bias is None else total + bias
    return total.reshape(*x.shape[:-1], -1)


def _is_computed(node: Node) -> bool:
    return node.target in _MADE or node.target in _JOINING or layer_of(node) is not None


def _insert(node: Node, function: Callable[..., Any], *given: int) -> None:
    """Let all readers of a value read what a function makes of it."""
    with node.graph.inserting_after(node):
        made = node.graph.call_function(function, (node, *given))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)


def _move(value: Any, seed: int) -> Any:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator().manual_seed(seed)
    return value * (1 + SHARE * (2 * torch.rand(value.shape, generator=generator) - 1))


def _round(value: Any) -> Any:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    half = value.half().to(value.dtype)
    return torch.where(half.isfinite(), half, value)


def noise_note(noise: Noise | None) -> str:
    """What a second execution of the graph differs by, for the note of a rung; empty where there was none."""
    return f"two executions of the graph differ by KL {noise.kl_mean:.2g} ({noise.how})" if noise else ""


ROUNDED = Second(moved, f"activations moved by {SHARE:g}")
HALF = Second(in_half, "values rounded to float16")
HALF_SUMS = Second(in_half_sums, "values and sums of products rounded to float16")


def second_execution(form: Form) -> Second:
    """How an artifact of a form may rightly differ from its graph: by what its runtime rounds."""
    if not (form.static and form.half):
        return ROUNDED
    return HALF_SUMS if form.half_sums else HALF
