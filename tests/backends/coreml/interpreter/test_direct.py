"""Operators called directly: those that a converter seldom writes, and the shape operators on any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.linear import half_product, padding_pairs
from edgec.backends.coreml.interpreter.operators.table import operator_table
from tests.example_counts import examples

TABLE = operator_table("float32")
A = torch.tensor([[True, False], [True, True]])
B = torch.tensor([[False, False], [True, False]])
X = torch.linspace(-1.5, 2, 24).reshape(2, 3, 4)
IMAGE = torch.arange(64.0).reshape(1, 4, 4, 4)
SIZE = {"target_size_height": 8, "target_size_width": 4}
WINDOW = {"kernel_sizes": torch.tensor([2, 2]), "strides": torch.tensor([2, 2]), "pad_type": "valid"}
STEP = st.sampled_from([-2, -1, 1, 2, 3])


def call(operator: str, **inputs: Any) -> Any:
    return TABLE[operator].run(**inputs)


def ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("operator", "inputs", "expected"),
    [
        ("logical_and", {"x": A, "y": B}, A & B),
        ("logical_or", {"x": A, "y": B}, A | B),
        ("logical_xor", {"x": A, "y": B}, A ^ B),
        ("logical_not", {"x": A}, ~A),
        ("identity", {"x": X}, X),
        ("fill", {"shape": ints(2, 3), "value": torch.tensor(0.5)}, torch.full((2, 3), 0.5)),
        ("range_1d", {"start": ints(1)[0], "end": ints(8)[0], "step": ints(3)[0]}, ints(1, 4, 7)),
        ("flatten2d", {"x": X, "axis": ints(2)[0]}, X.reshape(6, 4)),
        ("flatten2d", {"x": X, "axis": ints(0)[0]}, X.reshape(1, 24)),
        ("pixel_unshuffle", {"x": IMAGE, "downscale_factor": ints(2)[0]}, F.pixel_unshuffle(IMAGE, 2)),
        ("non_zero", {"x": A}, torch.tensor([[0, 0], [1, 0], [1, 1]])),
        ("acos", {"x": X / 4}, torch.acos(X / 4)),
        ("asin", {"x": X / 4}, torch.asin(X / 4)),
        ("atanh", {"x": X / 4}, torch.atanh(X / 4)),
        (
            "resize_nearest_neighbor",
            {"x": IMAGE, "target_size_height": 8, "target_size_width": 4},
            IMAGE.repeat_interleave(2, 2),
        ),
        (
            "l2_pool",
            {"x": IMAGE, **WINDOW},
            F.lp_pool2d(IMAGE, 2, 2),
        ),
        ("real_div", {"x": ints(7, -7), "y": ints(2, 2)}, ints(3, -3)),
        ("floor_div", {"x": ints(7, -7), "y": ints(2, 2)}, ints(3, -4)),
        ("squeeze", {"x": X[:1]}, X[0]),
        ("local_response_norm", {"x": IMAGE, "size": ints(3)[0]}, F.local_response_norm(IMAGE, 3)),
    ],
)
def test_against_torch(operator: str, inputs: dict[str, Any], expected: Tensor) -> None:
    actual = call(operator, **inputs)
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def test_the_new_shape_is_made_of_others() -> None:
    shape = call(
        "reshape_like",
        x=X,
        ref_tensors=[torch.zeros(6, 9), torch.zeros(5, 4)],
        begins=ints(0, 1),
        ends=ints(1, 0),
        end_masks=torch.tensor([False, True]),
    ).shape
    assert shape == (6, 4)


def test_parametric_softplus_is_per_channel() -> None:
    alpha, beta = torch.tensor([1.0, 2.0, 0.5]), torch.tensor([0.5, 1.0, 2.0])
    expected = torch.stack([a * F.softplus(x * b) for a, b, x in zip(alpha, beta, X.unbind(1), strict=True)], 1)
    torch.testing.assert_close(call("softplus_parametric", x=X, alpha=alpha, beta=beta), expected)


def test_quantised_activations_come_back_within_half_a_step() -> None:
    scale, zero = torch.tensor([0.05, 0.1, 0.02]), torch.tensor([3, -4, 0], dtype=torch.int8)
    axis = ints(1)[0]
    integers = call("quantize", input=X, scale=scale, zero_point=zero, axis=axis, output_dtype="int8")
    back = call("dequantize", input=integers, scale=scale, zero_point=zero, axis=axis)
    assert integers.dtype == torch.int8
    clamped = X.clamp(min=-128 * 0.02, max=127 * 0.02)[:, 2]
    assert float((back[:, :2] - X[:, :2]).abs().max()) <= 0.05 + 1e-6
    assert float((back[:, 2] - clamped).abs().max()) <= 0.01 + 1e-6


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_slices_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    bounds = [data.draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6), STEP)) for _ in shape]
    opened = [data.draw(st.tuples(st.booleans(), st.booleans())) for _ in shape]
    own = [slice(None if o[0] else b[0], None if o[1] else b[1], b[2]) for b, o in zip(bounds, opened, strict=True)]
    begin, end, stride = (ints(*column) for column in zip(*bounds, strict=True))
    begin_mask, end_mask = (torch.tensor(column) for column in zip(*opened, strict=True))
    where = {"begin": begin, "end": end, "stride": stride, "begin_mask": begin_mask, "end_mask": end_mask}
    expected = x.numpy()[tuple(own)]
    actual = call("slice_by_index", x=x, **where)
    assert np.array_equal(actual.numpy(), expected)
    update = torch.full(expected.shape, -1.0)
    written, wanted = (
        call("slice_update", x=x, update=update, **where),
        x.numpy().copy(),
    )
    wanted[tuple(own)] = -1
    assert np.array_equal(written.numpy(), wanted)
    assert torch.equal(x.reshape(-1), torch.arange(float(x.numel())))


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_gather_and_scatter_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    index = data.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=5))
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    taken = call("gather", x=x, indices=ints(*index), axis=axis)
    assert np.array_equal(taken.numpy(), np.take(x.numpy(), index, axis))
    unique = sorted({i % size for i in index})
    rows = call("gather", x=x, indices=ints(*unique), axis=axis) + 100
    put = call("scatter", data=x, indices=ints(*unique), updates=rows, axis=axis, mode="update")
    wanted = x.numpy().copy()
    place: list[Any] = [slice(None)] * len(shape)
    place[axis] = unique
    wanted[tuple(place)] += 100
    assert np.array_equal(put.numpy(), wanted)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_layouts_lose_nothing(shape: list[int], random: Any) -> None:
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    order = random.sample(range(len(shape)), len(shape))
    turned = call("transpose", x=x, perm=ints(*order))
    back = call("transpose", x=turned, perm=ints(*np.argsort(order).tolist()))
    assert torch.equal(back, x)
    axis = random.randrange(len(shape))
    parts = call("split", x=x, axis=ints(axis)[0], num_splits=ints(shape[axis])[0])
    assert torch.equal(call("concat", values=list(parts), axis=ints(axis)[0]), x)
    assert torch.equal(call("squeeze", x=call("expand_dims", x=x, axes=ints(axis)), axes=ints(axis)), x)
    assert call("reshape", x=x, shape=ints(*[0] * (len(shape) - 1), -1)).shape == x.shape
    pads = [random.randrange(3) for _ in range(2 * len(shape))]
    padded = call("pad", x=x, pad=ints(*pads), constant_val=7.0)
    assert np.array_equal(padded.numpy(), np.pad(x.numpy(), np.reshape(pads, (-1, 2)), constant_values=7.0))


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=examples(40), deadline=None)
def test_same_padding_keeps_the_size_over_the_stride(size: int, width: int, step: int) -> None:
    ((low, high),) = padding_pairs([size], [width], [step], [1], "same", [])
    assert (size + low + high - width) // step + 1 == -(-size // step)
    assert padding_pairs([size], [width], [step], [1], "same_lower", []) == [(high, low)]


def test_half_sums_round_on_the_way() -> None:
    ones = torch.ones(1, 4096)
    assert half_product(ones, torch.ones(4096, 1)).item() == 4096
    small = torch.full((4096, 1), 2**-7)
    small[0] = 2048.0
    assert half_product(ones, small).item() == 2048.0
    assert (ones @ small).item() == pytest.approx(2048 + 4095 * 2**-7)
    squares = operator_table("float16")["reduce_mean"].run(x=torch.full((1, 64), 1000.0), axes=ints(1), keep_dims=False)
    assert not torch.isinf(squares)
    assert torch.isinf(operator_table("float16")["reduce_mean"].run(x=torch.full((1, 64), 4e4) ** 2, axes=ints(1)))
