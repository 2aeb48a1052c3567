"""Average neighbouring frames, or a whole image, by a mean: as encoders of sound and of images end.

    x [1, C, L] -> avg_pool1d(K, stride K)                                                        -> [1, C, L / K]
    ==>
    x -> transpose -> reshape [1, L / K, K, C] -> mean over K -> transpose                        -> [1, C, L / K]

    x [N, C, H, W] -> avg_pool2d(K, K >= H, W)           ==>           mean over H, W             -> [N, C, 1, 1]
    x [N, C, H, W] -> adaptive_avg_pool2d(1)             ==>           the same

ExecuTorch has no kernel for pooling along one dimension. Core ML divides by the whole window, torch by what of it lies
in the image: EfficientNet's window is as wide as its channels. Legality: windows that do not overlap, no padding, one
batch, and a length that is a multiple of the window; or a window that covers an image of floats, without padding or
divisor; or an adaptive pool of floats to one value. Exact. Measured on a tiny random Qwen2-Audio: rows differ by 5.3e-7
of the largest; EfficientNet for iPhone was off by half (E201), now by 3e-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_ADAPTIVE = (aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default)


@dataclass(frozen=True)
class PoolToMean:
    """Replace averages of neighbouring frames by means over rows; exact."""

    name: str = "pool_to_mean"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other pools are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each pool that is legal."""
        for node in nodes_of(graph, aten.avg_pool1d.default):
            if (window := _window(node)) is not None:
                with graph.graph.inserting_before(node):
                    result = _mean(Emitter(graph.graph), node.args[0], window)
                result.meta = {**node.meta, "val": result.meta["val"]}
                node.replace_all_uses_with(result)
                graph.graph.erase_node(node)
        for node in nodes_of(graph, aten.avg_pool2d.default):
            if _covers(node):
                node.target, node.args, node.kwargs = aten.mean.dim, (node.args[0], [2, 3], True), {}
        for node in nodes_of(graph, *_ADAPTIVE):
            value, sizes = node.args
            if set(sizes) == {1} and value.meta["val"].is_floating_point():  # type: ignore[union-attr, arg-type]
                dims = [*range(-len(sizes), 0)]  # type: ignore[arg-type]
                node.target, node.args, node.kwargs = aten.mean.dim, (value, dims, True), {}
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


def _window(node: Node) -> int | None:
    """The window of a pool; None where it is not legal."""
    names = ("x", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    (window,), stride = given["kernel_size"], given.get("stride") or given["kernel_size"]
    shape = given["x"].meta["val"].shape
    whole = len(shape) == 3 and shape[0] == 1 and isinstance(shape[-1], int) and shape[-1] % window == 0
    return window if whole and list(stride) == [window] and not any(given.get("padding") or ()) else None


def _covers(node: Node) -> bool:
    """Whether a pool's only window covers the whole image, [N, C, H, W]."""
    names = ("x", "kernel", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    kernel, value = given["kernel"], given["x"].meta["val"]
    image = value.shape
    # One number stands for both sides.
    sides = zip(kernel * 2 if len(kernel) == 1 else kernel, image[-2:], strict=True)
    whole = (
        value.is_floating_point()
        and len(image) == 4
        and all(isinstance(size, int) and side >= size for side, size in sides)
    )
    return whole and not any(given.get("padding") or ()) and given.get("divisor_override") is None


def _mean(emit: Emitter, x: Any, window: int) -> Node:
    _, channels, length = x.meta["val"].shape
    rows = emit(aten.transpose.int, x, 1, 2)
    cut = emit(aten.reshape.default, rows, [1, length // window, window, channels])
    return emit(aten.transpose.int, emit(aten.mean.dim, cut, [2]), 1, 2)
