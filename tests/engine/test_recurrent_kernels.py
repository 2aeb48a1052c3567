"""The kernels of LSTM and GRU against the operators' meaning, over shapes, directions and instruction sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.ir import recurrent_layers
from tests.engine.emulated_kernels import EmulatedKernels, emulated_kernels
from tests.engine.kernel_library import Kernels, kernels
from tests.engine.test_kernels import OTHERS
from tests.example_counts import examples

# Sums of up to 100 products in another order, and exponentials good to 2e-7, over up to 20 steps.
TOLERANCE = 5e-6
Kernel = Kernels | EmulatedKernels
PROPERTY = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", params=["native", *OTHERS])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    if request.param != "arm64":
        yield kernels(request.param)
        return
    emulated = emulated_kernels()
    yield emulated
    emulated.close()


@PROPERTY
@given(
    gated=st.booleans(),
    batch=st.integers(1, 3),
    steps=st.sampled_from([1, 2, 5, 20]),
    width=st.sampled_from([1, 3, 8, 16, 33, 64, 100]),
    integers=st.booleans(),
    biased=st.booleans(),
    backwards=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_layer_is_the_operator(
    kernel: Kernel,
    gated: bool,
    batch: int,
    steps: int,
    width: int,
    integers: bool,
    biased: bool,
    backwards: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    rows = (3 if gated else 4) * width
    added, hidden, cell = 2 * torch.randn(batch, steps, rows), torch.randn(batch, width), torch.randn(batch, width)
    weight, scale = torch.randn(rows, width) * width**-0.5, None
    if integers:
        weight, scale = torch.randint(-127, 128, (rows, width), dtype=torch.int8), torch.rand(rows) * width**-0.5 / 64
    bias = torch.randn(rows) if biased else None
    if gated:
        wanted = recurrent_layers.gru(added, hidden, weight, bias, scale, backwards)
    else:
        wanted = recurrent_layers.lstm(added, hidden, cell, weight, scale, backwards)
    second = bias if gated else cell
    got = kernel.recurrent(gated, added, hidden, second, weight, scale, backwards)
    torch.testing.assert_close(got, wanted, atol=TOLERANCE, rtol=0)


def test_threads_do_not_change_the_bits() -> None:
    kernel, bits = kernels(), []
    torch.manual_seed(0)
    width = 200
    added, hidden = torch.randn(2, 5, 4 * width), torch.randn(2, width)
    weight = torch.randn(4 * width, width) / 14
    for threads in (1, 2):
        kernel.use_threads(threads)
        bits.append(kernel.recurrent(False, added, hidden, hidden, weight, None, True))
    assert torch.equal(*bits)
