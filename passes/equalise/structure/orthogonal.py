"""Orthogonal matrices that spread every value over all of them: Hadamard's, with random signs.

For a size 2^k * m with m odd: Sylvester's Hadamard matrix of 2^k, Kronecker the orthonormal cosine transform of m. All
entries of the former have one magnitude, so that any integer grid holds such a matrix up to the rounding of one scale.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def orthogonal(size: int, seed: int = 0) -> Tensor:
    """A mixing orthogonal matrix, float32 [size, size]; the same for the same seed."""
    even = size & -size
    signs = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(seed)) * 2 - 1
    mixed = torch.kron(_hadamard(even), _cosines(size // even))
    return (signs[:, None] * mixed).float()


def _hadamard(size: int) -> Tensor:
    """Sylvester's, orthonormal, float64; ``size`` is a power of two."""
    found, pair = torch.ones(1, 1, dtype=torch.float64), torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    while len(found) < size:
        found = torch.kron(found, pair)
    return found / math.sqrt(size)


def _cosines(size: int) -> Tensor:
    """The orthonormal discrete cosine transform (DCT-II), float64."""
    place = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi / size * (place[None] + 0.5) * place[:, None]) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves
