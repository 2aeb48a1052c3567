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
from tests.engine.emulated_kernels import EmulatedKernels, emulated_kernels
from tests.engine.kernel_library import Held, Kernels, kernels
from tests.engine.test_kernels import OTHERS
from tests.example_counts import examples

# Both compute in float32 in another order, over up to 60 tokens whose differences add up.
TOLERANCE = 2e-5
Kernel = Kernels | EmulatedKernels
# Where a call begins, its tokens, and how many of them are kept.
Call = tuple[int, int, int]
# Tokens that a log holds; longer and shorter calls occur.
REVOCABLE = 5
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
        logged: values of a row of the log.
        options: the operator's arguments after its state.
    """

    which: int
    timed: Sequence[Tensor]
    fixed: dict[int, Tensor | None]
    sizes: Sequence[int]
    state: Tensor
    logged: int
    value: int = 0
    options: Sequence[Any] = ()
    scale: float = 1.0

    def operands(self, start: int, stop: int) -> list[Tensor | None]:
        timed = iter(part[:, start:stop].contiguous() for part in self.timed)
        count = len(self.timed) + len(self.fixed)
        return [self.fixed[i] if i in self.fixed else next(timed) for i in range(count)]

    def empty(self) -> tuple[Tensor, Tensor]:
        """A state and a log before the first token."""
        return torch.zeros_like(self.state), torch.zeros(1, REVOCABLE, self.logged)

    def run(self, kernel: Kernel, calls: Sequence[Call]) -> tuple[Tensor, Tensor, Tensor]:
        """The kernel's outputs, those that were not dropped, and the state and log it leaves."""
        (state, log), rows, base = self.empty(), [], 0
        for start, tokens, kept in calls:
            operands = self.operands(start, start + tokens)
            value = operands[self.value]
            assert value is not None
            out, taken = torch.full_like(value, float("nan")), max(1, tokens - REVOCABLE)
            held = Held(state, log, torch.tensor([start - base, taken]))
            kernel.state(self.which, [tokens, *self.sizes], self.scale, operands, held, out)
            base = start + taken
            rows.append(out[:, :kept])
        return torch.cat(rows, 1), state, log

    def reference(self, calls: Sequence[Call]) -> tuple[Tensor, Tensor, Tensor]:
        """The same of the operator."""
        (state, log), seen, rows = self.empty(), torch.zeros(1, 1, 2, dtype=torch.long), []
        for start, tokens, kept in calls:
            operands, positions = self.operands(start, start + tokens), torch.arange(start, start + tokens)
            out = OPERATORS[self.which](*operands, positions, state, log, seen, *self.options)
            rows.append(out[:, :kept])
        return torch.cat(rows, 1), state, log


OPERATORS: tuple[Any, ...] = (
    state_operators.cached_conv,
    state_operators.cached_delta_rule,
    state_operators.cached_ssd,
    state_operators.cached_scan,
    state_operators.cached_recurrence,
    state_operators.cached_wkv,
)
WIDTHS = st.sampled_from([1, 5, 16, 24, 33, 64, 100])
TOKENS = 40


@st.composite
def calls_with_drops(draw: st.DrawFn) -> list[Call]:
    """Calls that feed up to TOKENS tokens, of which some are dropped again; all are kept of the last one."""
    calls: list[Call] = []
    start = 0
    for wanted in draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 7, 17]), min_size=1, max_size=6)):
        tokens = min(wanted, TOKENS - start)
        if tokens:
            kept = draw(st.integers(max(1, tokens - REVOCABLE), tokens))
            calls.append((start, tokens, kept))
            start += kept
    return [*calls[:-1], (calls[-1][0], calls[-1][1], calls[-1][1])]


@st.composite
def convolutions(draw: st.DrawFn, tokens: int) -> Sequences:
    channels, taps, biased, silu = draw(WIDTHS), draw(st.integers(1, 5)), draw(st.booleans()), draw(st.booleans())
    fixed = {1: torch.randn(taps, channels), 2: torch.randn(channels) if biased else None}
    x, state = torch.randn(1, tokens, channels), torch.zeros(1, 1, taps - 1, channels)
    return Sequences(0, [x], fixed, [channels, taps, int(silu)], state, channels, options=[silu])


@st.composite
def delta_rules(draw: st.DrawFn, tokens: int) -> Sequences:
    groups, repeats, keys, values = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(WIDTHS), draw(WIDTHS)
    each, normalize, heads = draw(st.booleans()), draw(st.booleans()), groups * repeats
    q, k = (torch.randn(1, tokens, groups, keys) * keys**-0.5 for _ in range(2))
    v, beta = torch.randn(1, tokens, heads, values), torch.rand(1, tokens, heads)
    g = -torch.rand((1, tokens, heads, keys) if each else (1, tokens, heads)) * 2
    sizes = [groups, heads, keys, values, int(each), int(normalize)]
    state = torch.zeros(1, 1, heads, keys, values)
    logged = groups * keys + g[0, 0].numel() + heads * values
    return Sequences(1, [q, k, v, g, beta], {}, sizes, state, logged, 2, [normalize, 0.3], 0.3)


@st.composite
def ssds(draw: st.DrawFn, tokens: int) -> Sequences:
    groups, repeats, keys, values = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(WIDTHS), draw(WIDTHS)
    heads, skips = groups * repeats, draw(st.booleans())
    x, dt = torch.randn(1, tokens, heads, values), torch.rand(1, tokens, heads)
    b, c = (torch.randn(1, tokens, groups, keys) * keys**-0.5 for _ in range(2))
    fixed = {2: -torch.rand(heads) * 4, 5: torch.randn(heads) if skips else None}
    sizes, state = [groups, heads, keys, values], torch.zeros(1, 1, heads, keys, values)
    return Sequences(2, [x, dt, b, c], fixed, sizes, state, groups * keys + heads + heads * values)


@st.composite
def scans(draw: st.DrawFn, tokens: int) -> Sequences:
    channels, keys, skips = draw(WIDTHS), draw(st.integers(1, 20)), draw(st.booleans())
    x, dt = torch.randn(1, tokens, channels), torch.rand(1, tokens, channels)
    b, c = (torch.randn(1, tokens, keys) * keys**-0.5 for _ in range(2))
    fixed = {2: -torch.rand(keys, channels) * 20, 5: torch.randn(channels) if skips else None}
    return Sequences(3, [x, dt, b, c], fixed, [channels, keys], torch.zeros(1, 1, keys, channels), 2 * channels + keys)


@st.composite
def recurrences(draw: st.DrawFn, tokens: int) -> Sequences:
    channels = draw(WIDTHS)
    x, decay = torch.randn(1, tokens, channels), torch.rand(1, tokens, channels)
    return Sequences(4, [x, decay], {}, [channels], torch.zeros(1, 1, channels), 2 * channels)


@st.composite
def averages(draw: st.DrawFn, tokens: int) -> Sequences:
    channels, height = draw(WIDTHS), draw(st.sampled_from([1.0, 300.0]))  # Beyond 88 an exponential overflows.
    k, v = torch.randn(1, tokens, channels) * height, torch.randn(1, tokens, channels)
    fixed: dict[int, torch.Tensor | None] = {2: -torch.rand(channels) * 3, 3: torch.randn(channels)}
    return Sequences(5, [k, v], fixed, [channels], torch.zeros(1, 1, 3, channels), 2 * channels, 1)


KINDS = [convolutions, delta_rules, ssds, scans, recurrences, averages]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@PROPERTY
@given(data=st.data(), calls=calls_with_drops(), seed=st.integers(0, 1000))
def test_kernels_compute_what_the_operators_mean(
    kernel: Kernel, kind: Any, data: st.DataObject, calls: list[Call], seed: int
) -> None:
    torch.manual_seed(seed)
    sequence: Sequences = data.draw(kind(TOKENS))
    later = min(calls[-1][1] - 1, REVOCABLE)
    (wanted, *last), (got, *left) = sequence.reference(calls), sequence.run(kernel, calls)
    assert float((got - wanted).abs().max()) <= TOLERANCE * max(1.0, float(wanted.abs().max()))
    # What earlier calls left in the log beyond the last one's rows is never read.
    for one, other in ((last[0], left[0]), (last[1][:, :later], left[1][:, :later])):
        assert one.numel() == 0 or float((one - other).abs().max()) <= TOLERANCE * max(1.0, float(one.abs().max()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@PROPERTY
@given(data=st.data(), calls=calls_with_drops(), seed=st.integers(0, 1000))
def test_a_token_has_the_same_bits_whatever_else_was_in_its_call_or_was_dropped(
    kernel: Kernel, kind: Any, data: st.DataObject, calls: list[Call], seed: int
) -> None:
    torch.manual_seed(seed)
    sequence: Sequences = data.draw(kind(TOKENS))
    one_by_one = [(token, 1, 1) for token in range(calls[-1][0] + calls[-1][1])]
    got, wanted = sequence.run(kernel, calls), sequence.run(kernel, one_by_one)
    assert torch.equal(got[0], wanted[0])


def test_threads_share_a_large_state(kernel: Kernel) -> None:
    torch.manual_seed(0)
    tokens, heads, width = 9, 8, 128
    q, k, v = (torch.randn(1, tokens, heads, width) for _ in range(3))
    g, beta = -torch.rand(1, tokens, heads), torch.rand(1, tokens, heads)
    sizes, state = [heads, heads, width, width, 0, 1], torch.zeros(1, 1, heads, width, width)
    logged, calls = 2 * heads * width + heads, [(0, 8, 8), (8, 1, 1)]
    sequence = Sequences(1, [q, k, v, g, beta], {}, sizes, state, logged, 2, [True, 0.1], 0.1)
    wanted, got = sequence.reference(calls)[0], sequence.run(kernel, calls)[0]
    assert float((got - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())
