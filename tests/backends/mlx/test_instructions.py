"""What the interpreter's instructions compute, beside the exact result."""

from __future__ import annotations

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from edgec.backends.mlx.instructions import functions  # noqa: E402

WIDTH, ROWS, GROUP = 576, 256, 32


@pytest.mark.parametrize("tokens", [1, 5])
def test_quantised_products_in_half_precision_are_summed_in_float32(tokens: int) -> None:
    """As MLX's kernels for GPUs do; its kernel for CPUs sums in float16 and is 17 times as far off."""
    made = np.random.default_rng(0)
    integers = made.integers(0, 256, (ROWS, WIDTH // GROUP, GROUP)).astype(np.uint8)
    scales = made.uniform(1e-3, 2e-3, (ROWS, WIDTH // GROUP)).astype(np.float16)
    biases = (-128 * scales.astype(np.float32)).astype(np.float16)
    x = made.normal(size=(1, tokens, WIDTH)).astype(np.float16)
    packed = mx.array(integers.reshape(ROWS, WIDTH).view(np.uint32))
    given = dict(zip(("x", "w", "scales", "biases"), map(mx.array, (x, packed, scales, biases)), strict=True))
    product = functions()["QuantizedMatmulNode"](**given, transpose=True, group_size=GROUP, bits=8, mode="affine")
    weights = integers.astype(np.float64) * scales[..., None] + biases[..., None].astype(np.float64)
    exact = x.astype(np.float64) @ weights.reshape(ROWS, WIDTH).T
    error = np.array(product).astype(np.float64) - exact
    assert np.sqrt((error**2).mean() / (exact**2).mean()) < 4e-4
