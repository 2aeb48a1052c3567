"""Prune one matrix: which weights become zero, and what the others become; pure functions.

- ``magnitude``: the smallest weights become zero.
- ``wanda``: those become zero whose |weight| x root mean square input is smallest (Sun et al. 2023, arXiv 2306.11695).
- ``sparsegpt``: as ``wanda``, by the error that remains once the columns that follow have made up for it, which they
  then do (Frantar & Alistarh 2023, arXiv 2301.00774); columns in their own order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from edgec.passes.compress.rounding.gptq import DAMPING
from edgec.passes.compress.rounding.weight_tables import kept_weights

_BLOCK_COLUMNS = 128
PruningMethod = Callable[[Tensor, Tensor, float, int], Tensor]


def _magnitude(weight: Tensor, inputs: Tensor, sparsity: float, block: int) -> Tensor:
    return weight * kept_weights(weight.abs(), sparsity, block)


def _wanda(weight: Tensor, inputs: Tensor, sparsity: float, block: int) -> Tensor:
    return weight * kept_weights(weight.abs() * inputs.square().mean(0).sqrt(), sparsity, block)


def _sparsegpt(weight: Tensor, inputs: Tensor, sparsity: float, block: int) -> Tensor:
    left, factor = weight.clone(), _factor(inputs)
    for start in range(0, left.shape[1], _BLOCK_COLUMNS):
        part = slice(start, min(start + _BLOCK_COLUMNS, left.shape[1]))
        errors = _prune_block(left[:, part], factor[part, part], sparsity, block)
        left[:, part.stop :] -= errors @ factor[part, part.stop :]
    return left


def _factor(inputs: Tensor) -> Tensor:
    """Upper Cholesky factor of the inverse of the damped second moment, float32 [K, K]."""
    moment = inputs.T @ inputs / len(inputs)
    moment.diagonal().add_(DAMPING * float(moment.diagonal().mean()) + 1e-12)
    result: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(moment)), upper=True)
    return result


def _prune_block(left: Tensor, factor: Tensor, sparsity: float, block: int) -> Tensor:
    """Zero a share of neighbouring columns in place, the rest making up for it; errors in units of the diagonal."""
    kept = kept_weights((left / factor.diagonal()).abs(), sparsity, block)
    errors = torch.empty_like(left)
    for i in range(left.shape[1]):
        errors[:, i] = left[:, i] * ~kept[:, i] / factor[i, i]
        left[:, i:] -= errors[:, i : i + 1] * factor[i, i:]
        left[:, i] *= kept[:, i]
    return errors


METHODS: Mapping[str, PruningMethod] = {"magnitude": _magnitude, "wanda": _wanda, "sparsegpt": _sparsegpt}
"""Functions of a weight [N, K], the layer's inputs [rows, K], a share and a block (0: the whole row, else neighbours of
which each loses that share); they return the pruned weight, float32 [N, K]."""
