"""Reading and writing at indices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable


def _from_start(indices: Tensor, size: int) -> Tensor:
    """Negative indices count from the end."""
    at = indices.long()
    return torch.where(at < 0, at + size, at)


def _gather(x: Tensor, indices: Tensor, axis: Any = 0, batch_dims: Any = 0) -> Tensor:
    """Slices of x along ``axis``; the indices' own dimensions stand in its place, after the batch's."""
    dim, batch = int(axis) % x.dim(), int(batch_dims)
    at = _from_start(indices, x.shape[dim])
    if batch:
        pairs = zip(x.flatten(0, batch - 1), at.flatten(0, batch - 1), strict=True)
        rows = torch.stack([_picked(part, where, dim - batch) for part, where in pairs])
        return rows.reshape(*x.shape[:batch], *rows.shape[1:])
    return _picked(x, at, dim)


def _picked(x: Tensor, at: Tensor, dim: int) -> Tensor:
    rows = x.index_select(dim, at.reshape(-1))
    return rows.reshape([*x.shape[:dim], *at.shape, *x.shape[dim + 1 :]])


def _gather_along_axis(x: Tensor, indices: Tensor, axis: Any = 0) -> Tensor:
    return torch.gather(x, int(axis), _from_start(indices, x.shape[int(axis)]))


def _gather_nd(x: Tensor, indices: Tensor, batch_dims: Any = 0) -> Tensor:
    """The last dimension of ``indices`` [..., K] addresses K dimensions of x."""
    batch = int(batch_dims)
    if batch:
        pairs = zip(x.flatten(0, batch - 1), indices.flatten(0, batch - 1), strict=True)
        rows = torch.stack([_gather_nd(part, where) for part, where in pairs])
        return rows.reshape(*x.shape[:batch], *rows.shape[1:])
    return x[_address(x, indices)]


def _address(x: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    return tuple(_from_start(at, x.shape[dim]) for dim, at in enumerate(indices.unbind(-1)))


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_along_axis(data: Tensor, indices: Tensor, updates: Tensor, axis: Any = 0, mode: str = "add") -> Tensor:
    """``updates`` [like indices] go to ``indices`` along ``axis``; ``mode`` says how they meet what is there."""
    at, values = _from_start(indices, data.shape[int(axis)]), updates.to(data.dtype)
    if mode == "update":
        return data.scatter(int(axis), at, values)
    if mode == "sub":
        return data.scatter_add(int(axis), at, -values)
    if mode == "div":
        return (data.float() / torch.ones(data.shape).scatter_reduce(int(axis), at, values.float(), "prod")).to(
            data.dtype
        )
    return data.scatter_reduce(int(axis), at, values, _REDUCE[mode])


def _scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: Any = 0, mode: str = "add") -> Tensor:
    """Write whole slices along ``axis`` to ``indices``, which may have several dimensions."""
    dim = int(axis) % data.dim()
    rows = updates.reshape(*data.shape[:dim], -1, *data.shape[dim + 1 :])
    at = indices.reshape(-1).reshape(*[1] * dim, -1, *[1] * (data.dim() - dim - 1))
    return _scatter_along_axis(data, at.expand(rows.shape), rows, dim, mode)


def _scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "add") -> Tensor:
    """The last dimension of ``indices`` [..., K] addresses K dimensions of data."""
    depth = indices.shape[-1]
    flat = data.reshape(-1, *data.shape[depth:])
    at = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for size, part in zip(data.shape[:depth], _address(data, indices), strict=True):
        at = at * size + part
    rows = updates.reshape(at.numel(), *data.shape[depth:])
    return _scatter(flat, at.reshape(-1), rows, 0, mode).reshape(data.shape)


TABLE: OperatorTable = {
    "gather": _gather,
    "gather_along_axis": _gather_along_axis,
    "gather_nd": _gather_nd,
    "scatter": _scatter,
    "scatter_along_axis": _scatter_along_axis,
    "scatter_nd": _scatter_nd,
}
