"""Operators that rearrange values without computing: shapes, joins, repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, ints


def _reshape(x: Tensor, shape: Tensor) -> Tensor:
    """A 0 keeps the dimension of x at its place, a -1 takes what is left."""
    wanted = [x.shape[i] if size == 0 and x.numel() else size for i, size in enumerate(ints(shape))]
    return x.reshape(wanted)


def _reshape_like(x: Tensor, ref_tensors: Sequence[Tensor], begins: Tensor, ends: Tensor, end_masks: Tensor) -> Tensor:
    """The new shape is made of stretches of the reference tensors' shapes."""
    pieces = zip(ref_tensors, ints(begins), ints(ends), ints(end_masks), strict=True)
    return x.reshape([n for ref, low, high, to_end in pieces for n in ref.shape[low : None if to_end else high]])


def _expand_dims(x: Tensor, axes: Tensor) -> Tensor:
    rank = x.dim() + len(ints(axes))
    for axis in sorted(axis % rank for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


def _squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(ints(axes)))


def _concat(values: Sequence[Tensor] | Tensor, axis: Tensor, interleave: Tensor | bool = False) -> Tensor:
    parts = [values] if isinstance(values, Tensor) else list(values)
    if not bool(interleave):
        return torch.cat([part if part.dim() else part.reshape(1) for part in parts], int(axis))
    return torch.stack(parts, int(axis) % parts[0].dim() + 1).flatten(int(axis), int(axis) + 1)


def _stack(values: Sequence[Tensor] | Tensor, axis: Tensor) -> Tensor:
    return torch.stack([values] if isinstance(values, Tensor) else list(values), int(axis))


def _split(
    x: Tensor, axis: Tensor, num_splits: Tensor | None = None, split_sizes: Tensor | None = None
) -> Sequence[Tensor]:
    if split_sizes is not None:
        return torch.split(x, ints(split_sizes), int(axis))
    assert num_splits is not None
    return torch.split(x, x.shape[int(axis)] // int(num_splits), int(axis))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "replicate"}


def _pad(x: Tensor, pad: Tensor, mode: str = "constant", constant_val: Any = 0.0) -> Tensor:
    """MIL lists pairs from the first of the padded dimensions, F.pad from the last."""
    pairs = list(zip(ints(pad)[::2], ints(pad)[1::2], strict=True))
    flat = [size for pair in reversed(pairs) for size in pair]
    if mode == "constant":
        return F.pad(x, flat, value=float(constant_val))
    rest = x.reshape(1, *x.shape) if x.dim() == len(pairs) else x
    return F.pad(rest, flat, mode=_MODES[mode]).reshape([n + sum(p) for n, p in _padded_dims(x, pairs)])


def _padded_dims(x: Tensor, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, tuple[int, int]]]:
    return list(zip(x.shape, [(0, 0)] * (x.dim() - len(pairs)) + list(pairs), strict=True))


def _fill(shape: Tensor, value: Any = 0.0) -> Tensor:
    filled = value if isinstance(value, Tensor) else torch.tensor(value)
    return filled.reshape([1] * len(ints(shape))).expand(ints(shape)).clone()


def _fill_like(ref_tensor: Tensor, value: Any = 0.0) -> Tensor:
    return _fill(torch.tensor(ref_tensor.shape), value)


def _range(end: Tensor, start: Tensor, step: Tensor) -> Tensor:
    return torch.arange(start.item(), end.item(), step.item(), dtype=start.dtype)


def _flatten2d(x: Tensor, axis: Tensor | int = 1) -> Tensor:
    split = int(axis) % x.dim() if int(axis) != x.dim() else x.dim()
    return x.reshape(int(torch.tensor(x.shape[:split]).prod()), -1)


def _reverse(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.flip(list(range(x.dim())) if axes is None else ints(axes))


def _band_part(x: Tensor, lower: Any = -1, upper: Any = -1) -> Tensor:
    """Zeros outside the band around the diagonal; -1 keeps a whole triangle."""
    x = x if int(lower) < 0 else torch.triu(x, -int(lower))
    return x if int(upper) < 0 else torch.tril(x, int(upper))


def _space_to_depth(x: Tensor, block_size: Tensor) -> Tensor:
    """[N, C, H, W] -> [N, block^2 * C, H / block, W / block], blocks outermost."""
    n, c, h, w = x.shape
    b = int(block_size)
    blocks = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return blocks.reshape(n, c * b * b, h // b, w // b)


def _depth_to_space(x: Tensor, block_size: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = int(block_size)
    blocks = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return blocks.reshape(n, c // (b * b), h * b, w * b)


def _sliding_windows(x: Tensor, axis: Tensor, size: Tensor, stride: Tensor | int = 1) -> Tensor:
    dim = int(axis) % x.dim()
    return x.unfold(dim, int(size), int(stride)).movedim(-1, dim + 1)


TABLE: OperatorTable = {
    "identity": lambda x: x,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "transpose": lambda x, perm: x.permute(ints(perm)),
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "tile": lambda x, reps: x.repeat(ints(reps)),
    "pad": _pad,
    "shape": lambda x: torch.tensor(x.shape, dtype=torch.int32),
    "fill": _fill,
    "fill_like": _fill_like,
    "range_1d": _range,
    "flatten2d": _flatten2d,
    "reverse": _reverse,
    "band_part": _band_part,
    "space_to_depth": _space_to_depth,
    "depth_to_space": _depth_to_space,
    "pixel_shuffle": lambda x, upscale_factor: F.pixel_shuffle(x, int(upscale_factor)),
    "pixel_unshuffle": lambda x, downscale_factor: F.pixel_unshuffle(x, int(downscale_factor)),
    "sliding_windows": _sliding_windows,
    "select": lambda cond, a, b: torch.where(cond.bool(), a, b),
}
