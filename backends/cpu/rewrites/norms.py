"""RMS norms of the hidden state in operators that XNNPACK has, so that they do not separate two delegates.

    edgec::rms_norm(x, w, eps)      ==>      x * x -> linear(1/H, bias eps) -> rsqrt -> * x -> * w

XNNPACK's mean is an average pooling over the last two of four dimensions; a linear layer with one output, whose weights
are all 1/H and whose bias is eps, is the same sum. Legality: x is [1, S, H] float32 and H is known. Norms over heads
stay with edgec's kernel: they lie between a delegate and attention.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from edgec.ir.operators import RMS_NORM
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter, shared_constant

aten = torch.ops.aten


def write_out_norms(graph: GraphModule, every: bool = False) -> None:
    """Write out the norms over [1, S, H]; with ``every`` those over heads too, for runtimes without edgec's kernels."""
    for node in nodes_of(graph, RMS_NORM):
        x, weight, eps = node.args
        assert isinstance(x, Node)
        if every or x.meta["val"].dim() == 3:
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(_written_out(graph, Emitter(graph.graph), x, weight, float(eps)))  # type: ignore[arg-type]
            graph.graph.erase_node(node)


def _written_out(graph: GraphModule, emit: Emitter, x: Node, weight: object, eps: float) -> Node:
    mean, bias = _averaging(graph, emit, x, eps)
    variance = emit(aten.linear.default, emit(aten.mul.Tensor, x, x), mean, bias)
    normal = emit(aten.mul.Tensor, x, emit(aten.rsqrt.default, variance))
    return normal if weight is None else emit(aten.mul.Tensor, normal, weight)


def _averaging(graph: GraphModule, emit: Emitter, x: Node, eps: float) -> tuple[Node, Node]:
    """Weights [1, H] and bias [1] of the layer that averages; norms of one width and epsilon share them."""
    width = int(x.meta["val"].shape[-1])
    eps_name = f"eps_{eps:g}".replace(".", "_").replace("-", "m")
    mean = shared_constant(graph, emit, f"averaging_{width}", torch.full((1, width), 1.0 / width), x)
    return mean, shared_constant(graph, emit, eps_name, torch.full((1,), eps), x)
