"""Each operator against torch, in both precisions and with every way of summing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from tests.backends.coreml.interpreter.case import Case, inputs
from tests.backends.coreml.interpreter.cases import CASES

Results = Mapping[tuple[str, str], Mapping[str, Tensor]]
# float32 sums in another order; float16 values are rounded once (2^-11 of the largest), or after every 32 terms too.
TOLERANCES = {
    ("fp32", "float32"): 2e-6,
    ("fp16", "unrounded"): 2e-6,
    ("fp16", "float32"): 2**-10,
    ("fp16", "float16"): 2**-9,
}
# Values just below an integer are rounded to it in float16, where the quotient steps.
STEPS = {"floor_div", "mod"}
# Their float16 constants or steepness cost more than one rounding of the result.
STEEP = {"tan": 4.0, "sinh": 2.0, "cosh": 2.0, "pow": 2.0, "reduce_prod": 8.0, "batch_norm": 2.0, "layer_norm": 2.0}


def _expected(case: Case) -> list[Tensor]:
    outputs = case.expected(inputs())
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


@pytest.mark.long
@pytest.mark.parametrize("run", TOLERANCES, ids="-".join)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_operator_equals_torch(number: int, run: tuple[str, str], operator_results: Results) -> None:
    case = CASES[number]
    for output, expected in enumerate(_expected(case)):
        actual = operator_results[run][f"case_{number}_{output}"]
        assert actual.shape == expected.shape
        if not expected.is_floating_point():
            assert torch.equal(actual.int(), expected.int())
            continue
        scale = max(1.0, float(expected.abs().max())) * STEEP.get(case.operator, 1.0)
        difference = (actual.float() - expected).abs()
        if case.operator in STEPS:
            difference = torch.minimum(difference, (difference - 1).abs())
        assert float(difference.max()) <= TOLERANCES[run] * scale


def test_results_have_the_declared_type(operator_results: Results) -> None:
    floats = {v.dtype for v in operator_results["fp16", "float32"].values() if v.is_floating_point()}
    assert floats == {torch.float16}
    assert torch.float16 not in {v.dtype for v in operator_results["fp16", "unrounded"].values()}


def test_every_operator_has_a_case() -> None:
    """What is in the table without a case is listed here by hand, with another test or a reason."""
    from edgec.backends.coreml.interpreter.operators.table import operator_table

    elsewhere = {
        *("acos", "asin", "atanh"),  # torch's own under the same name
        *("logical_and", "logical_or", "logical_xor", "logical_not"),  # test_logic
        *("identity", "fill", "range_1d", "flatten2d", "reshape_like", "pixel_unshuffle", "non_zero"),
        *("softplus_parametric", "local_response_norm", "l2_pool", "resize_nearest_neighbor"),
        *("quantize", "dequantize"),  # test_quantised_activations
    }
    tested = {case.operator for case in CASES}
    assert set(operator_table("float32")) - tested == elsewhere - tested
