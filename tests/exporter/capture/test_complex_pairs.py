"""Complex arithmetic of model code on pairs of real tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from edgec.exporter.capture.complex_pairs import complex_as_pairs

# Two roundings instead of a fused product.
TOLERANCE = 1e-6


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    turns = torch.polar(torch.ones_like(angles), angles) * 1.5
    numbers = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(numbers * turns[:, :, None, :].conj()).flatten(3)


def test_a_rotation_of_pairs_is_that_of_complex_numbers() -> None:
    x, angles = torch.randn(1, 5, 3, 8), torch.randn(1, 5, 4)
    wanted = rotated(x, angles)
    with complex_as_pairs():
        got = rotated(x, angles)
    torch.testing.assert_close(got, wanted, atol=TOLERANCE, rtol=0)


def test_torchs_functions_are_back_afterwards() -> None:
    with complex_as_pairs():
        pass
    assert torch.view_as_complex(torch.ones(1, 2)).is_complex()
