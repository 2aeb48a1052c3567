"""The kernels over recurrent states against the operators' meaning, over shapes, calls and instruction sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgec.ir import state_operators
from tests.devices.runner.emulated_kernels import EmulatedKernels, emulated_kernels
from tests.devices.runner.kernel_library import Kernels, kernels
from tests.devices.runner.test_kernels import OTHERS
from tests.example_counts import examples

# Both compute in float32 in another order, over up to 60 tokens whose differences add up.
TOLERANCE = 2e-5
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


@dataclass
class Sequences:
    """One sequence through an operator and its kernel: operands by time, constants, and both states.

    Attributes:
        which: ``test_state``'s number.
        timed: operands with one entry per token.
        fixed: operands without, by their index among all.
        sizes: the kernel's sizes after the number of tokens.
        options: the operator's arguments after its state.
    """

    which: int
    timed: Sequence[Tensor]
    fixed: dict[int, Tensor | None]
    sizes: Sequence[int]
    state: Tensor
    value: int = 0
    options: Sequence[Any] = ()
    scale: float = 1.0

    def operands(self, start: int, stop: int) -> list[Tensor | None]:
        timed = iter(part[:, start:stop].contiguous() for part in self.timed)
        count = len(self.timed) + len(self.fixed)
        return [self.fixed[i] if i in self.fixed else next(timed) for i in range(count)]

    def run(self, kernel: Kernel, calls: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The kernel's outputs, call by call, and the state it leaves."""
        state, rows, start = torch.zeros_like(self.state), [], 0
        for tokens in calls:
            operands = self.operands(start, start + tokens)
            value = operands[self.value]
            assert value is not None
            out = torch.full_like(value, float("nan"))
            kernel.state(self.which, [tokens, *self.sizes], self.scale, operands, state, out)
            rows.append(out)
            start += tokens
        return torch.cat(rows, 1), state

    def reference(self, calls: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The operator's outputs and the state it leaves."""
        operator, state, seen = OPERATORS[self.which], torch.zeros_like(self.state), torch.zeros(1, 1, dtype=torch.long)
        rows, start = [], 0
        for tokens in calls:
            positions = torch.arange(start, start + tokens)
            rows.append(operator(*self.operands(start, start + tokens), positions, state, seen, *self.options))
            start += tokens
        return torch.cat(rows, 1), state


OPERATORS: tuple[Any, ...] = (
    state_operators.cached_conv,
    state_operators.cached_delta_rule,
    state_operators.cached_ssd,
    state_operators.cached_scan,
    state_operators.cached_recurrence,
)
WIDTHS = st.sampled_from([1, 5, 16, 24, 33, 64, 100])
CALLS = st.lists(st.sampled_from([1, 1, 1, 2, 3, 7, 17]), min_size=1, max_size=5)


@st.composite
def convolutions(draw: st.DrawFn, tokens: int) -> Sequences:
    channels, taps, biased, silu = draw(WIDTHS), draw(st.integers(1, 5)), draw(st.booleans()), draw(st.booleans())
    fixed = {1: torch.randn(taps, channels), 2: torch.randn(channels) if biased else None}
    x, state = torch.randn(1, tokens, channels), torch.zeros(1, 1, taps - 1, channels)
    return Sequences(0, [x], fixed, [channels, taps, int(silu)], state, options=[silu])


@st.composite
def delta_rules(draw: st.DrawFn, tokens: int) -> Sequences:
    groups, repeats, keys, values = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(WIDTHS), draw(WIDTHS)
    each, normalize, heads = draw(st.booleans()), draw(st.booleans()), groups * repeats
    q, k = (torch.randn(1, tokens, groups, keys) * keys**-0.5 for _ in range(2))
    v, beta = torch.randn(1, tokens, heads, values), torch.rand(1, tokens, heads)
    g = -torch.rand((1, tokens, heads, keys) if each else (1, tokens, heads)) * 2
    sizes = [groups, heads, keys, values, int(each), int(normalize)]
    state = torch.zeros(1, 1, heads, keys, values)
    return Sequences(1, [q, k, v, g, beta], {}, sizes, state, 2, [normalize, 0.3], 0.3)


@st.composite
def ssds(draw: st.DrawFn, tokens: int) -> Sequences:
    groups, repeats, keys, values = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(WIDTHS), draw(WIDTHS)
    heads, skips = groups * repeats, draw(st.booleans())
    x, dt = torch.randn(1, tokens, heads, values), torch.rand(1, tokens, heads)
    b, c = (torch.randn(1, tokens, groups, keys) * keys**-0.5 for _ in range(2))
    fixed = {2: -torch.rand(heads) * 4, 5: torch.randn(heads) if skips else None}
    return Sequences(2, [x, dt, b, c], fixed, [groups, heads, keys, values], torch.zeros(1, 1, heads, keys, values))


@st.composite
def scans(draw: st.DrawFn, tokens: int) -> Sequences:
    channels, keys, skips = draw(WIDTHS), draw(st.integers(1, 20)), draw(st.booleans())
    x, dt = torch.randn(1, tokens, channels), torch.rand(1, tokens, channels)
    b, c = (torch.randn(1, tokens, keys) * keys**-0.5 for _ in range(2))
    fixed = {2: -torch.rand(keys, channels) * 20, 5: torch.randn(channels) if skips else None}
    return Sequences(3, [x, dt, b, c], fixed, [channels, keys], torch.zeros(1, 1, keys, channels))


@st.composite
def recurrences(draw: st.DrawFn, tokens: int) -> Sequences:
    channels = draw(WIDTHS)
    x, decay = torch.randn(1, tokens, channels), torch.rand(1, tokens, channels)
    return Sequences(4, [x, decay], {}, [channels], torch.zeros(1, 1, channels))


KINDS = [convolutions, delta_rules, ssds, scans, recurrences]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@PROPERTY
@given(data=st.data(), calls=CALLS, seed=st.integers(0, 1000))
def test_kernels_compute_what_the_operators_mean(
    kernel: Kernel, kind: Any, data: st.DataObject, calls: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    sequence: Sequences = data.draw(kind(sum(calls)))
    (wanted, last), (got, state) = sequence.reference(calls), sequence.run(kernel, calls)
    assert float((got - wanted).abs().max()) <= TOLERANCE * max(1.0, float(wanted.abs().max()))
    assert last.numel() == 0 or float((state - last).abs().max()) <= TOLERANCE * max(1.0, float(last.abs().max()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@PROPERTY
@given(data=st.data(), calls=CALLS, seed=st.integers(0, 1000))
def test_a_token_has_the_same_bits_whatever_else_is_in_its_call(
    kernel: Kernel, kind: Any, data: st.DataObject, calls: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    sequence: Sequences = data.draw(kind(sum(calls)))
    for one, other in zip(sequence.run(kernel, calls), sequence.run(kernel, [1] * sum(calls)), strict=True):
        assert torch.equal(one, other)


def test_threads_share_a_large_state(kernel: Kernel) -> None:
    torch.manual_seed(0)
    tokens, heads, width = 9, 8, 128
    q, k, v = (torch.randn(1, tokens, heads, width) for _ in range(3))
    g, beta = -torch.rand(1, tokens, heads), torch.rand(1, tokens, heads)
    sizes, state = [heads, heads, width, width, 0, 1], torch.zeros(1, 1, heads, width, width)
    sequence = Sequences(1, [q, k, v, g, beta], {}, sizes, state, 2, [True, 0.1], 0.1)
    wanted, got = sequence.reference([8, 1])[0], sequence.run(kernel, [8, 1])[0]
    assert float((got - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())
