"""The C++ kernels against the operators' meaning in torch, over shapes, dtypes, layouts and instruction sets."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgec.ir import operators
from edgec.ir.operators import grid_group
from tests.engine.emulated_kernels import EmulatedKernels, emulated_kernels
from tests.engine.kernel_library import KINDS, Kernels, kernels
from tests.example_counts import examples

# Both sides compute in float32 and sum up to 400 products of 128 in another order.
TOLERANCE = 1e-5
FIXTURES = [HealthCheck.function_scoped_fixture]
PROPERTY = settings(max_examples=examples(120), deadline=None, suppress_health_check=FIXTURES)


CAN_EMULATE = bool(shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64"))


def _flags() -> str:
    facts = Path("/proc/cpuinfo")
    return facts.read_text() if facts.exists() else ""


# AVX2 and the plain fallback run on this machine too, each compiled for half a minute; NEON under qemu, where a cross
# compiler is.
OTHERS = [
    pytest.param("haswell", marks=[pytest.mark.slow, pytest.mark.skipif("avx2" not in _flags(), reason="no AVX2")]),
    pytest.param(
        "x86-64-v2", marks=[pytest.mark.slow, pytest.mark.skipif(platform.machine() != "x86_64", reason="not x86-64")]
    ),
    pytest.param(
        "arm64", marks=[pytest.mark.slow, pytest.mark.skipif(not CAN_EMULATE, reason="no cross compiler or qemu")]
    ),
]


@pytest.fixture(scope="module", params=["native", *OTHERS])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernels | EmulatedKernels]:
    if request.param != "arm64":
        yield kernels(request.param)
        return
    emulated = emulated_kernels()
    yield emulated
    emulated.close()


@dataclass(frozen=True)
class Case:
    """One cache, filled call by call, and the queries of the last call."""

    dtype: torch.dtype
    width: int
    value_width: int
    kv_heads: int
    group: int
    chunk: int
    total: int
    window: int
    ring: bool
    sink: int
    rows: int
    softcap: float
    sinks: bool
    seed: int

    @property
    def ring_slots(self) -> int:
        return abs(self.window) - 1 + self.chunk if self.ring and self.window else 0

    @property
    def slots(self) -> int:
        return self.ring_slots + self.sink if self.ring_slots else self.total + 3


# On arm64 a compiler that fuses products and sums on its own made this token's bits depend on the rows beside it.
FUSED = Case(torch.int8, 8, 16, 1, 1, 2, 6, 0, False, 0, 1, 0.0, False, 0)
# Heads narrower than two vectors of AVX-512 go another way, whose sums began where the first row's window begins.
NARROW = Case(torch.float32, 8, 16, 1, 4, 2, 10, 5, True, 0, 1, 0.0, False, 0)
CASES = st.builds(
    Case,
    dtype=st.sampled_from(list(KINDS)),
    width=st.sampled_from([8, 24, 32, 64, 80, 128]),
    value_width=st.sampled_from([16, 32, 64, 128]),
    kv_heads=st.integers(1, 3),
    group=st.sampled_from([1, 2, 3, 4, 7]),
    chunk=st.sampled_from([1, 1, 2, 3, 5, 8, 17, 40, 130]),
    total=st.integers(1, 400),
    window=st.sampled_from([0, 0, 5, 30, 100, -7, -64]),
    ring=st.booleans(),
    sink=st.sampled_from([0, 3]),
    rows=st.integers(1, 130),
    softcap=st.sampled_from([0.0, 3.0]),
    sinks=st.booleans(),
    seed=st.integers(0, 1000),
)


def empty_cache(dtype: torch.dtype, slots: int, heads: int, width: int) -> tuple[Tensor, Tensor | None]:
    """A cache whose unwritten slots would spoil every sum that reads them."""
    if dtype.is_floating_point:
        return torch.full((1, slots, heads, width), float("nan"), dtype=dtype), None
    grid = torch.full((1, slots, heads, 2 * width // grid_group(dtype, width)), float("nan"), dtype=torch.float16)
    return torch.full((1, slots, heads, width // 2 if dtype == torch.uint8 else width), 77, dtype=dtype), grid


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def fill(case: Case, width: int, kernel: Kernels | EmulatedKernels) -> tuple[Tensor, Tensor | None]:
    """Fill a cache with the reference, and check that the kernel's cache has the same bits after every call."""
    x = torch.randn(1, case.total, case.kv_heads, width) * 2 + case.seed % 3
    (cache, grid), (own, own_grid) = (empty_cache(case.dtype, case.slots, case.kv_heads, width) for _ in range(2))
    for now in torch.arange(case.total).split(case.chunk):
        part = x[:, now].contiguous()
        operators.cache_write(part, now, cache, grid, case.ring_slots, case.sink)
        kernel.cache_write(part, now, own, own_grid, case.ring_slots, case.sink)
    assert same_bits(cache, own)
    assert grid is None or own_grid is None or same_bits(grid, own_grid)
    return cache, grid


@pytest.mark.long
@PROPERTY
@given(case=CASES)
def test_caches_have_the_references_bits_and_attention_its_values(
    kernel: Kernels | EmulatedKernels, case: Case
) -> None:
    torch.manual_seed(case.seed)
    (keys, key_grid), (values, value_grid) = (fill(case, w, kernel) for w in (case.width, case.value_width))
    now = torch.arange(case.total).split(case.chunk)[-1]
    rows = now[torch.randperm(len(now))[: case.rows]].contiguous()
    heads = case.kv_heads * case.group
    q = torch.randn(1, len(rows), heads, case.width)
    logits = torch.randn(heads) if case.sinks else None
    layout = (case.window, case.ring_slots, case.sink)
    call = (rows, now, keys, values, key_grid, value_grid, case.width**-0.5, *layout, case.softcap, logits)
    wanted = operators.cached_attention(q, *call)
    assert float((kernel.cached_attention(q, *call) - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())


@PROPERTY
@given(case=CASES, alone=st.integers(0, 15))
@example(case=FUSED, alone=0)
@example(case=NARROW, alone=1)
def test_a_token_is_computed_exactly_as_it_would_be_alone(
    kernel: Kernels | EmulatedKernels, case: Case, alone: int
) -> None:
    """Verifying drafted tokens must give what decoding gives: the same bits, whatever else is in the call."""
    torch.manual_seed(case.seed)
    (keys, key_grid), (values, value_grid) = (fill(case, w, kernel) for w in (case.width, case.value_width))
    now = torch.arange(case.total).split(case.chunk)[-1][:16]
    heads = case.kv_heads * case.group
    q, logits = torch.randn(1, len(now), heads, case.width), torch.randn(heads) if case.sinks else None
    layout = (case.window, case.ring_slots, case.sink)
    cache = (keys, values, key_grid, value_grid, case.width**-0.5, *layout, case.softcap, logits)
    row = alone % len(now)
    together = kernel.cached_attention(q, now, now, *cache)[:, row]
    single = kernel.cached_attention(q[:, row : row + 1].contiguous(), now[row : row + 1], now, *cache)[:, 0]
    assert torch.equal(together, single)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("heads", "kv_heads", "rows"), [(16, 8, 1), (4, 1, 1), (4, 1, 8), (2, 1, 40)])
def test_threads_share_one_long_context(
    kernel: Kernels | EmulatedKernels, dtype: torch.dtype, heads: int, kv_heads: int, rows: int
) -> None:
    torch.manual_seed(rows)
    total, width = 3000, 64
    x = torch.randn(1, total, kv_heads, width)
    (keys, key_grid), (values, value_grid) = (empty_cache(dtype, total, kv_heads, width) for _ in range(2))
    kernel.cache_write(x, torch.arange(total), keys, key_grid, 0, 0)
    kernel.cache_write(x.flip(1).contiguous(), torch.arange(total), values, value_grid, 0, 0)
    q, now = torch.randn(1, rows, heads, width), torch.arange(total - rows, total)
    call = (now, now, keys, values, key_grid, value_grid, 0.3, 0, 0, 0, 0.0, torch.randn(heads))
    wanted = operators.cached_attention(q, *call)
    assert float((kernel.cached_attention(q, *call) - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("kv_heads", "rows", "total"), [(8, 1, 140), (3, 1, 300), (1, 1, 700), (5, 4, 140), (2, 16, 90)]
)
def test_attention_has_the_same_bits_on_any_number_of_threads(
    dtype: torch.dtype, kv_heads: int, rows: int, total: int
) -> None:
    torch.manual_seed(total)
    kernel, width, heads = kernels(), 64, 4 * kv_heads
    x = torch.randn(1, total, kv_heads, width)
    (keys, key_grid), (values, value_grid) = (empty_cache(dtype, total, kv_heads, width) for _ in range(2))
    kernel.cache_write(x, torch.arange(total), keys, key_grid, 0, 0)
    kernel.cache_write(x.flip(1).contiguous(), torch.arange(total), values, value_grid, 0, 0)
    q, now = torch.randn(1, rows, heads, width), torch.arange(total - rows, total)
    call = (now, now, keys, values, key_grid, value_grid, 0.3, 0, 0, 0, 0.0, torch.randn(heads))
    found = []
    try:
        for threads in (1, 2, 3, 7):
            kernel.use_threads(threads)
            found.append(kernel.cached_attention(q, *call))
    finally:
        kernel.use_threads(1)
    assert all(torch.equal(found[0], each) for each in found[1:])
    wanted = operators.cached_attention(q, *call)
    assert float((found[0] - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())


def test_a_row_that_sees_nothing_is_zero(kernel: Kernels | EmulatedKernels) -> None:
    keys, _ = empty_cache(torch.float32, 8, 1, 32)
    keys[:, 5] = 1.0
    call = (torch.tensor([-1]), torch.tensor([5]), keys, keys, None, None, 1.0, 0, 0, 0, 0.0, None)
    assert torch.equal(kernel.cached_attention(torch.ones(1, 1, 2, 32), *call), torch.zeros(1, 1, 2, 32))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.sampled_from([1, 3, 300]),
    width=st.sampled_from([8, 20, 64, 100, 576]),
    weighted=st.booleans(),
    turned=st.sampled_from([0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_norms_and_rotations(
    kernel: Kernels | EmulatedKernels, tokens: int, width: int, weighted: bool, turned: float, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(1, tokens, 3, width) * 4
    weight = torch.randn(width) if weighted else None
    wanted = operators.rms_norm(x, weight, 1e-6)
    # The sum of squares is taken in another order: one or two roundings of a factor.
    assert torch.allclose(kernel.rms_norm(x, weight, 1e-6), wanted, rtol=2e-6, atol=1e-7)
    angle = torch.randn(1, tokens, int(width * turned) // 2).repeat(1, 1, 2)
    # A fused multiply-add rounds once where torch rounds twice.
    rotated = operators.rope(x, angle.cos(), angle.sin())
    assert torch.allclose(kernel.rope(x, angle.cos(), angle.sin()), rotated, rtol=1e-6, atol=2e-6)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number_are_torchs_in_float64(name: str) -> None:
    x = torch.cat([torch.linspace(-12, 12, 100_003), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 80.0, -80.0])])
    found, wanted = kernels().activate(name, x), FUNCTIONS[name](x.double())
    # A rounding of the function near 1 (2.4e-7 at most), times the number for those that multiply by it.
    assert ((found - wanted).abs() <= 3e-7 * x.abs().clamp(min=1)).all()
    part = kernels().activate(name, x[1:40])
    assert torch.equal(part, found[1:40]), "a number's place does not change its result"


def test_gelu_keeps_its_digits_below_zero() -> None:
    x = torch.linspace(-5, -1, 10_001)
    wanted = torch.nn.functional.gelu(x.double())
    # Of a product of an exponential, whose argument of up to 18 is rounded to float32, and a polynomial.
    assert ((kernels().activate("gelu", x) / wanted - 1).abs() <= 4e-6).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_constant_tiny_and_negative_zero_groups_have_the_references_bits(
    kernel: Kernels | EmulatedKernels, dtype: torch.dtype
) -> None:
    rows = torch.stack([torch.full((64,), v) for v in (0.0, -0.0, 1.25, -3e-5, 70000.0)])
    rows = torch.cat([rows, torch.linspace(0, 1e-6, 64)[None], torch.linspace(-1, -0.0, 64)[None]])
    value = rows.reshape(1, -1, 1, 64)
    now = torch.arange(value.shape[1])
    (cache, grid), (own, own_grid) = (empty_cache(dtype, len(now), 1, 64) for _ in range(2))
    operators.cache_write(value, now, cache, grid, 0, 0)
    kernel.cache_write(value, now, own, own_grid, 0, 0)
    assert grid is not None and own_grid is not None
    finite = torch.isfinite(grid.float()).all(-1).flatten()
    assert same_bits(grid, own_grid)
    assert same_bits(cache[:, finite].contiguous(), own[:, finite].contiguous())
