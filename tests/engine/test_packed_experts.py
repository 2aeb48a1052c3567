"""The kernel of experts of few bits against float64, over shapes, schemes, choices, biases and instruction sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
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
from edgec.ir.experts import reference_experts
from tests.engine.linear_kernels import native_kernels
from tests.engine.packed_experts import ChosenRows, PackedExperts, packed_experts
from tests.engine.test_linear_kernels import FLOAT_TOLERANCE, FORMS, TOLERANCE, beside, quantized
from tests.example_counts import examples

pytestmark = pytest.mark.long
PROPERTY = settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# The sum and the bias are rounded once more.
BIAS_TOLERANCE = 2.0**-23


@dataclass(frozen=True)
class Case:
    """Experts of random values, and what some tokens choose among them."""

    grid: CodeGrid
    experts: int
    rows: int
    group: int
    groups: int
    tokens: int
    choices: int
    shared: bool
    biased: bool
    seed: int
    form: ScaleForm | None = None

    @property
    def block_rows(self) -> BlockRows:
        return BlockRows.X86

    @property
    def padded(self) -> int:
        """Rows of an expert in the matrix: whole blocks."""
        return -(-self.rows // self.block_rows) * self.block_rows

    @property
    def shape(self) -> PackedMatrix:
        return self._matrix(self.experts * self.padded)

    @property
    def unpadded(self) -> PackedMatrix:
        """The shape of the experts' own rows."""
        return self._matrix(self.experts * self.rows)

    def _matrix(self, rows: int) -> PackedMatrix:
        if self.form is ScaleForm.EIGHT_BITS:
            return PackedMatrix(rows, 32 * self.groups, 16, self.grid, self.block_rows, self.form)
        group = 32 if self.form is ScaleForm.SIX_BITS else self.group or (32 if self.form else 0)
        width = group * self.groups if group else self.groups * 12
        return PackedMatrix(rows, width, group, self.grid, self.block_rows, self.form)


@dataclass(frozen=True)
class Drawn:
    """A case's numbers: weight float64 [E, O, I] and what it is the sum of, its matrix, and what is multiplied."""

    weight: Tensor
    sizes: Tensor
    packed: Tensor
    call: ChosenRows
    bias: Tensor | None

    def exact(self, x: Tensor) -> Tensor:
        """The result in float64 for x [T, 1 or K, I] as it is read."""
        bias = None if self.bias is None else self.bias.double()
        return reference_experts(x.double(), self.call.index, self.weight, bias)

    def largest(self, x: Tensor, weight: Tensor) -> Tensor:
        """What the operator computes of bounds on x and on the weight: of the sums that are rounded."""
        return reference_experts(x.double(), self.call.index, weight, None)

    def bias_bound(self, result: Tensor) -> Tensor:
        """What adding the bias rounds away."""
        return BIAS_TOLERANCE * result.abs().double() if self.bias is not None else torch.zeros(())


def drawn(case: Case) -> Drawn:
    chance, shape = torch.Generator().manual_seed(case.seed), case.shape
    codes = torch.randint(0, 1 << case.grid.bits, (case.experts, case.rows, shape.width), generator=chance)
    codes = codes % 3 if case.grid == TERNARY else codes
    values = case.grid.values(codes.to(torch.uint8)).to(torch.int8)
    by_expert = (case.experts, case.rows, shape.groups)
    drawn_scales, drawn_minimums = beside(case.unpadded, chance)
    scales = drawn_scales.reshape(by_expert)
    minimums = None if drawn_minimums is None else drawn_minimums.reshape(by_expert)
    whole = values.reshape(*by_expert, -1).double() * scales[..., None].double()
    sizes = (values.reshape(*by_expert, -1).abs().double() + 2 * case.grid.offset) * scales[..., None].abs().double()
    if minimums is not None:
        whole, sizes = whole + minimums[..., None], sizes + minimums[..., None].abs()
    filled = [
        t if t is None else torch.nn.functional.pad(t, (0, 0, 0, case.padded - case.rows)).flatten(0, 1)
        for t in (values, scales, minimums)
    ]
    x = torch.randn(case.tokens, 1 if case.shared else case.choices, shape.width, generator=chance) + case.seed % 3
    x[0, 0, 0] = 30.0
    # One number below and one above are not experts.
    index = torch.randint(-1, case.experts + 1, (case.tokens, case.choices), generator=chance)
    bias = torch.randn(case.experts, case.rows, generator=chance) if case.biased else None
    call = ChosenRows(x, index, case.experts, case.rows)
    packed = pack_matrix(shape, *(t for t in filled if t is not None))
    return Drawn(whole.flatten(2), sizes.flatten(2), packed, call, bias)


def case_of(coded: tuple[CodeGrid, ScaleForm | None], **rest: Any) -> Case:
    return Case(grid=coded[0], form=coded[1], **rest)


CASES = st.builds(
    case_of,
    coded=st.sampled_from(FORMS),
    experts=st.sampled_from([1, 3, 8]),
    rows=st.sampled_from([1, 5, 16, 40, 64, 70]),
    group=st.sampled_from([0, 32, 64, 96, 128]),
    groups=st.integers(1, 6),
    tokens=st.sampled_from([1, 2, 5, 19]),
    choices=st.integers(1, 4),
    shared=st.booleans(),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
).map(lambda case: replace(case, group=0) if case.grid.bits == 8 and not case.form else case)
# More tokens for an expert, and more rows of it, than are multiplied at once.
MANY = Case(SYMMETRIC[2], 2, 150, 64, 2, 230, 2, True, True, 1)
MANY_BALANCED = replace(MANY, grid=BALANCED2, group=0, groups=11, shared=False)
MANY_CHANNELS = replace(MANY, grid=SYMMETRIC[8], group=0, groups=9)
MANY_LIFTED = replace(MANY, grid=FROM_ZERO[4], group=32, groups=9, form=ScaleForm.SIX_BITS)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[PackedExperts]:
    """The kernel with each instruction set of this machine."""
    folder = tmp_path_factory.mktemp("instructions")
    return [packed_experts(isa, folder) for isa in native_kernels().names]


def multiplied(kernels: list[PackedExperts], case: Case, numbers: Drawn, in_float: bool) -> Tensor:
    """The results of a case, which have the same bits with every instruction set."""
    rest = case.shape, numbers.packed, numbers.bias
    results = [kernel.multiply(numbers.call, *rest, in_float=in_float) for kernel in kernels]
    assert all(torch.equal(results[0].view(torch.int32), other.view(torch.int32)) for other in results[1:])
    return results[0]


@PROPERTY
@given(case=CASES)
@example(MANY)
@example(MANY_BALANCED)
@example(MANY_LIFTED)
def test_tokens_of_8_bits_are_multiplied_by_the_chosen_experts(kernels: list[PackedExperts], case: Case) -> None:
    numbers = drawn(case)
    x, result = numbers.call.x, multiplied(kernels, case, numbers, in_float=False)
    rounded = quantized(x.flatten(0, 1)).reshape(x.shape)
    span = x.clamp(min=0).amax(2, keepdim=True) - x.clamp(max=0).amin(2, keepdim=True)
    bound = TOLERANCE * numbers.largest(span, numbers.sizes.sum(2, keepdim=True))
    assert ((result - numbers.exact(rounded)).abs() <= bound + numbers.bias_bound(result)).all()


@PROPERTY
@given(case=CASES)
@example(MANY)
@example(MANY_BALANCED)
@example(MANY_LIFTED)
def test_tokens_in_float_are_multiplied_by_the_chosen_experts(kernels: list[PackedExperts], case: Case) -> None:
    numbers = drawn(case)
    result = multiplied(kernels, case, numbers, in_float=True)
    bound = FLOAT_TOLERANCE * numbers.largest(numbers.call.x.abs(), numbers.sizes)
    assert ((result - numbers.exact(numbers.call.x)).abs() <= bound + numbers.bias_bound(result)).all()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("in_float", [False, True])
@pytest.mark.parametrize(
    "case", [MANY, MANY_BALANCED, MANY_LIFTED, replace(MANY, grid=SYMMETRIC[8], group=0, groups=9)]
)
def test_a_token_has_the_same_bits_whatever_stands_beside_it(
    kernels: list[PackedExperts], case: Case, in_float: bool
) -> None:
    numbers = drawn(case)
    call, together = numbers.call, multiplied(kernels, case, numbers, in_float)
    for i in range(0, case.tokens, 23):
        one = replace(call, x=call.x[i : i + 1].contiguous(), index=call.index[i : i + 1].contiguous())
        alone = multiplied(kernels, case, replace(numbers, call=one), in_float)
        assert torch.equal(alone[0].view(torch.int32), together[i].view(torch.int32))
