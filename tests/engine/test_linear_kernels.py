"""The linear kernels against float64, and bit for bit against each other, over shapes, schemes and instruction sets."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torchao.quantization.quant_primitives  # noqa: F401  (registers torch.ops.torchao)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from edgec.backends.cpu.linear.layout import (
    BALANCED2,
    FROM_ZERO,
    SYMMETRIC,
    TERNARY,
    BlockRows,
    CodeGrid,
    PackedMatrix,
    pack_matrix,
)
from edgec.backends.cpu.linear.scale_forms import ScaleForm
from tests.engine.linear_kernels import EmulatedKernels, NativeKernels, emulated_kernels, native_kernels
from tests.example_counts import examples

pytestmark = pytest.mark.long

Floats = NDArray[np.float32]
CAN_EMULATE = bool(shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64"))
# The last two have 0 elsewhere than the schemes of models have.
IN_PLACE = (*(SYMMETRIC[bits] for bits in (2, 3, 4, 8)), BALANCED2, TERNARY, CodeGrid(4, 1, 5), CodeGrid(3, 1, 7))
LIFTED_FORMS = (ScaleForm.FLOAT16_MINIMUM, ScaleForm.FLOAT16_ZERO, ScaleForm.SIX_BITS)
DECODED = (
    *((grid, ScaleForm.FLOAT16) for grid in SYMMETRIC.values()),
    *((grid, form) for grid in FROM_ZERO.values() for form in LIFTED_FORMS),
    (SYMMETRIC[6], ScaleForm.EIGHT_BITS),
)
FORMS = (*((grid, None) for grid in IN_PLACE), *DECODED)
"""Codes, and the form of scales; None: bfloat16, or one scale a row."""
# A float32 sum of up to 113 slices (226 halves, or minimums as well), each of them rounded once or twice before: to 24
# bits of the largest intermediate value, at most the sizes of codes, scales and minimums times those of the token.
TOLERANCE = 228 * 2.0**-24
# In float, a value passes through 8 sums of a slice, 2 that join these, and one for each of up to 226 halves.
FLOAT_TOLERANCE = 238 * 2.0**-24
PROPERTY = settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass(frozen=True)
class Case:
    """A matrix of random values and some tokens."""

    grid: CodeGrid
    rows: int
    group: int
    groups: int
    tokens: int
    part: int
    seed: int
    form: ScaleForm | None = None

    def shape(self, block_rows: BlockRows) -> PackedMatrix:
        if self.form in (ScaleForm.SIX_BITS, ScaleForm.EIGHT_BITS):
            group = 32 if self.form is ScaleForm.SIX_BITS else 16
            return PackedMatrix(self.rows, 32 * self.groups, group, self.grid, block_rows, self.form)
        if not self.group and self.form is None:
            return PackedMatrix(self.rows, self.groups * 12, 0, self.grid, block_rows)
        group = self.group or 32
        return PackedMatrix(self.rows, group * self.groups, group, self.grid, block_rows, self.form)


def case_of(form: tuple[CodeGrid, ScaleForm | None], **rest: int) -> Case:
    return Case(grid=form[0], form=form[1], **rest)


CASES = st.builds(
    case_of,
    form=st.sampled_from(FORMS),
    rows=st.sampled_from([1, 7, 8, 16, 17, 40, 64]),
    group=st.sampled_from([0, 32, 64, 96, 128]),
    groups=st.integers(1, 20),
    tokens=st.integers(1, 19),
    part=st.sampled_from([2, 4, 6, 8, 100]),
    seed=st.integers(0, 1000),
)


@dataclass(frozen=True)
class Drawn:
    """A case's numbers: whole numbers of the grid, their scales, and tokens with an outlier."""

    values: Tensor
    scales: Tensor
    minimums: Tensor | None
    x: Tensor

    def packed(self, shape: PackedMatrix) -> Tensor:
        return pack_matrix(shape, self.values, self.scales, self.minimums)


def drawn(case: Case, shape: PackedMatrix) -> Drawn:
    generator = torch.Generator().manual_seed(case.seed)
    codes = torch.randint(0, 1 << case.grid.bits, (shape.rows, shape.width), generator=generator, dtype=torch.uint8)
    values = case.grid.values(codes if case.grid != TERNARY else codes % 3)
    scales, minimums = beside(shape, generator)
    x = torch.randn(case.tokens, shape.width, generator=generator) + case.seed % 3
    x[0, 0] = 30.0
    return Drawn(values.to(torch.int8), scales, minimums, x)


def beside(shape: PackedMatrix, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """Scales and minimums that a matrix's form holds."""

    def steps(together: int, low: int, high: int) -> Tensor:
        supers = -(-shape.groups // together)
        step = (torch.rand(shape.rows, supers, generator=generator) / 32 + 1e-6).half().float()
        counts = torch.randint(low, high, (shape.rows, shape.groups), generator=generator)
        counts[:, ::together] = high - 1
        return step.repeat_interleave(together, 1)[:, : shape.groups] * counts

    if shape.form is ScaleForm.SIX_BITS:
        return steps(8, 0, 64), -steps(8, 0, 64)
    if shape.form is ScaleForm.EIGHT_BITS:
        return steps(16, -128, 128), None
    scales = torch.rand(shape.rows, shape.groups, generator=generator) + 0.1
    if shape.form is None:
        return scales.bfloat16().float(), None
    if shape.form is ScaleForm.FLOAT16_ZERO:
        scales = scales.half().float()
        return scales, -scales * torch.randint(0, 256, scales.shape, generator=generator)
    minimums = torch.randn(shape.rows, shape.groups, generator=generator).half().float()
    return scales.half().float(), minimums if shape.form.has_minimums else None


def quantized(x: Tensor) -> Tensor:
    """Tokens as ``choose_qparams_affine`` and ``quantize_affine`` of torchao round them in blocks of 32."""
    operators, block, width = torch.ops.torchao, [1, 32], x.shape[1]
    bounds = (torch.int8, -127, 127)
    x = torch.nn.functional.pad(x, (0, -width % 32))
    scale, zero = operators.choose_qparams_affine(x, "SYMMETRIC", block, *bounds, None, None, torch.int8)
    whole = operators.quantize_affine(x, block, scale, zero, *bounds)
    result: Tensor = (whole.double().reshape(len(x), -1, 32) * scale.double().reshape(len(x), -1, 1)).flatten(1)[
        :, :width
    ]
    return result


def weights(shape: PackedMatrix, numbers: Drawn) -> Tensor:
    groups = numbers.values.reshape(shape.rows, shape.groups, -1).double() * numbers.scales[:, :, None].double()
    if numbers.minimums is not None:
        groups += numbers.minimums[:, :, None]
    return groups.reshape(shape.rows, shape.width)


def sizes(shape: PackedMatrix, numbers: Drawn) -> Tensor:
    """The sizes of what a value is the sum of, as kernels multiply them: code, offset and minimum."""
    codes = numbers.values.abs().double() + 2 * shape.grid.offset
    groups = codes.reshape(shape.rows, shape.groups, -1) * numbers.scales[:, :, None].abs().double()
    if numbers.minimums is not None:
        groups += numbers.minimums[:, :, None].abs()
    return groups.reshape(shape.rows, shape.width)


def multiplied(
    kernels: NativeKernels | EmulatedKernels, isa: str, block_rows: BlockRows, case: Case, in_float: bool
) -> tuple[Tensor, Drawn, PackedMatrix]:
    """The results of a case, its numbers, and its matrix's shape; a token's bits are the same alone."""
    shape = case.shape(block_rows)
    numbers = drawn(case, shape)
    packed = numbers.packed(shape)
    part = case.part if case.part < case.tokens else case.tokens
    result = kernels.multiply(isa, shape, packed, numbers.x, part, in_float=in_float)
    alone = [kernels.multiply(isa, shape, packed, token[None], 1, in_float=in_float) for token in numbers.x]
    assert torch.equal(result.view(torch.int32), torch.cat(alone).view(torch.int32)), "bits depend on the tokens beside"
    return result, numbers, shape


def check(kernels: NativeKernels | EmulatedKernels, isa: str, block_rows: BlockRows, case: Case) -> Tensor:
    result, numbers, shape = multiplied(kernels, isa, block_rows, case, in_float=False)
    tokens = quantized(numbers.x)
    exact, bound = tokens @ weights(shape, numbers).T, tokens.abs() @ sizes(shape, numbers).T
    assert ((result - exact).abs() <= TOLERANCE * bound).all()
    return result


def check_floats(kernels: NativeKernels | EmulatedKernels, isa: str, block_rows: BlockRows, case: Case) -> Tensor:
    result, numbers, shape = multiplied(kernels, isa, block_rows, case, in_float=True)
    x = numbers.x.double()
    exact, bound = x @ weights(shape, numbers).T, x.abs() @ sizes(shape, numbers).T
    assert ((result - exact).abs() <= FLOAT_TOLERANCE * bound).all()
    return result


def documented(shape: PackedMatrix, numbers: Drawn) -> Tensor:
    """The float kernels' results by the rule in docs/kernels.md, for whole slices: each step exact, then rounded."""

    def fma(a: Floats, b: Floats, c: Floats) -> Floats:
        # 64 bits hold the product, and a sum that they round is rounded to 24 bits otherwise once in 2^40.
        return (a.astype(np.longdouble) * b + c).astype(np.float32)

    values, scales, x = numbers.values.float().numpy(), numbers.scales.numpy(), numbers.x.numpy()
    sums = np.zeros((len(numbers.x), shape.rows), np.float32)
    for start in range(0, shape.width, min(32, shape.group or 32)):
        parts = [np.zeros_like(sums) for _ in range(4)]
        for i in range(start, start + min(32, shape.group or 32)):
            parts[i % 4] = fma(x[:, i, None], values[:, i], parts[i % 4])
        whole = (parts[0] + parts[1]) + (parts[2] + parts[3])
        sums = fma(whole, scales[:, start // (shape.group or shape.width)], sums)
    for start in range(0, shape.width if numbers.minimums is not None else 0, 32):
        fours = [x[:, start + j : start + 32 : 4].cumsum(1, dtype=np.float32)[:, -1] for j in range(4)]
        total = (fours[0] + fours[1]) + (fours[2] + fours[3])
        assert numbers.minimums is not None
        sums = fma(total[:, None], numbers.minimums.numpy()[:, start // shape.group], sums)
    return torch.from_numpy(sums)


@pytest.fixture(scope="module")
def native() -> NativeKernels:
    return native_kernels()


@pytest.fixture(scope="module", params=["max", "cortex-a76", "cortex-a53"])
def emulated(request: pytest.FixtureRequest) -> Iterator[EmulatedKernels]:
    if not CAN_EMULATE:
        pytest.skip("no cross compiler or qemu")
    kernels = emulated_kernels(request.param)
    yield kernels
    kernels.close()


Judge = Callable[[NativeKernels | EmulatedKernels, str, BlockRows, Case], Tensor]
WIDE = Case(SYMMETRIC[4], 64, 32, 20, 13, 100, 0)
# Sums of codes and of tokens differ so much that sums in 32 bits have little room.
FAR = Case(CodeGrid(2, 1, 128), 16, 0, 300, 3, 100, 0)
MANY_TOKENS = Case(SYMMETRIC[4], 40, 32, 3, 202, 200, 1)
WIDE_GROUPS = Case(SYMMETRIC[3], 17, 1024, 2, 17, 100, 2)
WIDE_SIXES = Case(FROM_ZERO[4], 40, 32, 19, 101, 200, 5, ScaleForm.SIX_BITS)
WIDE_EIGHTS = Case(SYMMETRIC[6], 40, 32, 19, 101, 200, 6, ScaleForm.EIGHT_BITS)
ODD_GROUPS = Case(BALANCED2, 17, 160, 2, 3, 100, 3)


@PROPERTY
@given(case=CASES)
@example(WIDE)
@example(FAR)
@example(MANY_TOKENS)
@example(WIDE_GROUPS)
@example(ODD_GROUPS)
@example(WIDE_SIXES)
@example(WIDE_EIGHTS)
@pytest.mark.parametrize("judged", [check, check_floats], ids=["int8", "float32"])
def test_every_kernel_here_has_the_same_bits(native: NativeKernels, judged: Judge, case: Case) -> None:
    results = [judged(native, isa, BlockRows.X86, case) for isa in native.names]
    assert all(torch.equal(results[0].view(torch.int32), other.view(torch.int32)) for other in results[1:])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="longdouble is float64 here")
@pytest.mark.parametrize("group", [0, 32, 128])
@pytest.mark.parametrize(("grid", "form"), FORMS)
def test_tokens_in_float_are_summed_as_documented(
    native: NativeKernels, grid: CodeGrid, form: ScaleForm | None, group: int
) -> None:
    case = Case(grid, 17, group, 5 if group else 16, 7, 100, 4, form)
    shape = case.shape(BlockRows.X86)
    numbers = drawn(case, shape)
    packed = numbers.packed(shape)
    for isa in native.names:
        got = native.multiply(isa, shape, packed, numbers.x, 7, in_float=True)
        assert torch.equal(got, documented(shape, numbers)), isa


@pytest.mark.skipif(not (shutil.which("objdump") and platform.machine() == "x86_64"), reason="objdump, for x86")
def test_the_compiler_keeps_the_prefetches(native: NativeKernels) -> None:
    """GCC removes calls of functions that only prefetch; a layer from memory then takes 1.3 to 1.7 times as long."""
    code = subprocess.run(["objdump", "-d", native.library._name], capture_output=True, text=True, check=True).stdout
    assert code.count("prefetcht0") > 100


@pytest.mark.parametrize(("grid", "form"), FORMS)
@pytest.mark.parametrize("group", [0, 32, 64, 128, 1024])
def test_sums_hold_the_largest_products(
    native: NativeKernels, grid: CodeGrid, form: ScaleForm | None, group: int
) -> None:
    group = group if form in (None, ScaleForm.FLOAT16) else 16 if form is ScaleForm.EIGHT_BITS else 32
    shape = PackedMatrix(16, 1024, group or 32 * (form is not None), grid, BlockRows.X86, form)
    largest = 2 if grid == TERNARY else (1 << grid.bits) - 1
    codes = torch.full((16, 1024), largest, dtype=torch.uint8)
    codes[8:, ::4] = 0
    numbers = grid.values(codes).to(torch.int8), torch.full((16, shape.groups), 0.5)
    none = torch.zeros(16, shape.groups) if form and form.has_minimums else None
    packed = pack_matrix(shape, *numbers, none)
    # Quantised to 127, to -127 and to both: the scale is a power of 2, so that nothing is rounded.
    x = torch.tensor([254.0, -254.0, 127.0])[:, None].repeat(1, 1024)
    x[2, ::2] = -127.0
    exact = (x.double() @ numbers[0].double().T * 0.5).float()
    for isa in native.names:
        assert torch.equal(native.multiply(isa, shape, packed, x, 3), exact), isa


@pytest.mark.slow
@PROPERTY
@given(case=CASES)
@example(WIDE)
@example(FAR)
def test_every_kernel_of_arm64_has_the_bits_of_this_machine(
    native: NativeKernels, emulated: EmulatedKernels, case: Case
) -> None:
    for judged in (check, check_floats):
        here = judged(native, native.names[0], BlockRows.X86, case)
        for isa in emulated.names:
            there = judged(emulated, isa, BlockRows.ARM64, case)
            assert torch.equal(here.view(torch.int32), there.view(torch.int32))


@pytest.mark.slow
def test_the_processors_differ_in_their_kernels() -> None:
    if not CAN_EMULATE:
        pytest.skip("no cross compiler or qemu")
    names = {}
    for cpu in ("max", "cortex-a76", "cortex-a53"):
        kernels = emulated_kernels(cpu)
        names[cpu] = kernels.names
        kernels.close()
    assert names == {"max": ("i8mm", "dotprod", "plain"), "cortex-a76": ("dotprod", "plain"), "cortex-a53": ("plain",)}


@PROPERTY
@given(case=CASES)
def test_a_layout_is_told_from_another_and_back(native: NativeKernels, case: Case) -> None:
    x86, arm64 = (case.shape(rows) for rows in (BlockRows.X86, BlockRows.ARM64))
    numbers = drawn(case, x86)
    here, there = (numbers.packed(shape) for shape in (x86, arm64))
    assert (native.bytes(x86), native.bytes(arm64)) == (x86.bytes, arm64.bytes) == (here.numel(), there.numel())
    for shape, data in ((x86, here), (arm64, there)):
        row = native.read_row(shape, data, case.rows - 1)
        values = numbers.values[-1].reshape(shape.groups, -1).float() * numbers.scales[-1][:, None]
        if numbers.minimums is not None:
            values += numbers.minimums[-1][:, None]
        assert torch.equal(row, values.reshape(-1))
    assert torch.equal(native.relay(x86, here, BlockRows.ARM64, arm64.bytes), there)
    assert torch.equal(native.relay(arm64, there, BlockRows.X86, x86.bytes), here)
