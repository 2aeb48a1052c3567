"""Activation functions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, of_x, on_channels


def _gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    if mode == "SIGMOID_APPROXIMATION":
        return x * torch.sigmoid(1.702 * x)
    return F.gelu(x, approximate="tanh" if mode == "TANH_APPROXIMATION" else "none")


def _softmax(x: Tensor, axis: Tensor | int = -1) -> Tensor:
    return torch.softmax(x, int(axis))


def _prelu(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * on_channels(alpha, x))


def _softplus_parametric(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return on_channels(alpha, x) * F.softplus(x * on_channels(beta, x))


def _leaky(x: Tensor, alpha: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * alpha)


TABLE: OperatorTable = {
    "relu": of_x(torch.relu),
    "relu6": lambda x: torch.clamp(x, 0.0, 6.0),
    "sigmoid": of_x(torch.sigmoid),
    "silu": of_x(F.silu),
    "softplus": of_x(F.softplus),
    "softsign": of_x(F.softsign),
    "gelu": _gelu,
    "softmax": _softmax,
    "leaky_relu": _leaky,
    "elu": lambda x, alpha: torch.where(x >= 0, x, alpha * torch.expm1(x)),
    "prelu": _prelu,
    "softplus_parametric": _softplus_parametric,
    "clamped_relu": lambda x, alpha, beta: torch.minimum(_leaky(x, alpha), beta),
    "linear_activation": lambda x, alpha, beta: alpha * x + beta,
    "scaled_tanh": lambda x, alpha, beta: alpha * torch.tanh(beta * x),
    "sigmoid_hard": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0.0, 1.0),
    "thresholded_relu": lambda x, alpha: torch.where(x >= alpha, x, torch.zeros_like(x)),
}
