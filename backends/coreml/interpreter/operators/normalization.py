"""Normalisations; their statistics are computed in float32 inside the operator in every mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, ints, on_channels


def _layer_norm(
    x: Tensor, axes: Any = None, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Any = 1e-5
) -> Tensor:
    dims = tuple(range(x.dim()) if axes is None else (axis % x.dim() for axis in ints(axes)))
    centred = x - x.mean(dims, keepdim=True)
    scaled = centred * torch.rsqrt((centred * centred).mean(dims, keepdim=True) + epsilon)
    shape = [size if dim in dims else 1 for dim, size in enumerate(x.shape)]
    scaled = scaled if gamma is None else scaled * gamma.reshape(shape)
    return scaled if beta is None else scaled + beta.reshape(shape)


def _batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: Any = 1e-5,
) -> Tensor:
    scaled = (x - on_channels(mean, x)) * torch.rsqrt(on_channels(variance, x) + epsilon)
    scaled = scaled if gamma is None else scaled * on_channels(gamma, x)
    return scaled if beta is None else scaled + on_channels(beta, x)


def _instance_norm(x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: Any = 1e-5) -> Tensor:
    scaled = _layer_norm(x, range(2, x.dim()), epsilon=epsilon)
    scaled = scaled if gamma is None else scaled * on_channels(gamma, x)
    return scaled if beta is None else scaled + on_channels(beta, x)


def _l2_norm(x: Tensor, epsilon: Any = 1e-6) -> Tensor:
    """Normalise over the last three dimensions."""
    dims = tuple(range(max(0, x.dim() - 3), x.dim()))
    return x * torch.rsqrt((x * x).sum(dims, keepdim=True) + epsilon)


def _local_response_norm(x: Tensor, size: Tensor, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0) -> Tensor:
    return torch.nn.functional.local_response_norm(x, int(size), float(alpha), float(beta), float(k))


TABLE: OperatorTable = {
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "l2_norm": _l2_norm,
    "local_response_norm": _local_response_norm,
}
