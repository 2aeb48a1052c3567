"""The kernel of ``edgec::experts`` against its meaning in torch, over shapes, choices and biases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.ir.experts import reference_experts
from tests.engine.emulated_kernels import EmulatedKernels, emulated_kernels
from tests.engine.kernel_library import Kernels, kernels
from tests.engine.test_kernels import OTHERS
from tests.example_counts import examples

pytestmark = pytest.mark.long

Kernel = Kernels | EmulatedKernels


@pytest.fixture(scope="module", params=["native", *OTHERS])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    if request.param != "arm64":
        yield kernels(request.param)
        return
    emulated = emulated_kernels()
    yield emulated
    emulated.close()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.sampled_from([1, 2, 5, 40]),
    choices=st.integers(1, 4),
    shared=st.booleans(),
    experts=st.sampled_from([1, 3, 8]),
    rows=st.sampled_from([1, 5, 32, 70]),
    width=st.sampled_from([1, 8, 31, 64]),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_kernel_computes_what_the_operator_means(
    kernel: Kernel,
    tokens: int,
    choices: int,
    shared: bool,
    experts: int,
    rows: int,
    width: int,
    biased: bool,
    seed: int,
) -> None:
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, 1 if shared else choices, width, generator=drawn)
    weight = torch.randn(experts, rows, width, generator=drawn)
    bias = torch.randn(experts, rows, generator=drawn) if biased else None
    # One number below and one above are not experts.
    index = torch.randint(-1, experts + 1, (tokens, choices), generator=drawn)
    got = kernel.experts(x, index, weight, bias)
    # Up to 64 products are summed in another order.
    assert torch.allclose(got, reference_experts(x, index, weight, bias), rtol=1e-5, atol=2e-5)


def test_a_token_does_not_depend_on_those_beside_it(kernel: Kernel) -> None:
    drawn = torch.Generator().manual_seed(0)
    x, weight = torch.randn(9, 1, 40, generator=drawn), torch.randn(4, 37, 40, generator=drawn)
    index = torch.randint(0, 4, (9, 2), generator=drawn)
    together = kernel.experts(x, index, weight, None)
    alone = [kernel.experts(x[i : i + 1], index[i : i + 1], weight, None) for i in range(9)]
    assert torch.equal(together, torch.cat(alone))
