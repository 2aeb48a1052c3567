"""The attention operator: its meaning, its fake implementation and its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgec.ir.attention import OPERATOR, reference_attention, visible

SCALE = 0.25


def inputs(heads: int = 4, groups: int = 2, tokens: int = 6, width: int = 8) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"q": (1, heads, tokens, width), "k": (1, groups, tokens, width), "v": (1, groups, tokens, width)}
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {**tensors, "positions": torch.arange(tokens), "mask": None, "layer": 0, "scale": SCALE, "causal": True}


def call(function: Any, values: dict[str, Any], window: int = 0, softcap: float = 0.0, sink: Any = None) -> Any:
    return function(*values.values(), window, softcap, sink)


def test_plain_causal_attention_is_torchs_own() -> None:
    values = inputs()
    wanted = torch.nn.functional.scaled_dot_product_attention(
        values["q"], values["k"], values["v"], is_causal=True, scale=SCALE, enable_gqa=True
    )
    # float32 sums in another order
    assert torch.allclose(call(OPERATOR, values), wanted.transpose(1, 2), atol=1e-6)


def test_a_window_below_0_sees_what_lies_before_in_the_same_chunk() -> None:
    seen = visible(torch.arange(7), torch.arange(7), True, -3)
    assert [row.nonzero().flatten().tolist() for row in seen] == [[0], [0, 1], [0, 1, 2], [3], [3, 4], [3, 4, 5], [6]]


def test_a_chunk_that_is_not_causal_is_seen_whole() -> None:
    seen = visible(torch.arange(5), torch.arange(5), False, -3)
    assert [row.nonzero().flatten().tolist() for row in seen] == [[0, 1, 2]] * 3 + [[3, 4]] * 2


def test_a_window_of_w_sees_the_token_itself_and_w_minus_1_before() -> None:
    seen = visible(torch.arange(5), torch.arange(5), True, 2)
    assert seen.int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def test_sinks_take_weight_and_give_no_value() -> None:
    values = inputs()
    plain, sunk = call(OPERATOR, values), call(OPERATOR, values, sink=torch.full((4,), 50.0))
    assert float(sunk.abs().max()) < 1e-6 < float(plain.abs().max())


def test_softcap_bounds_the_scores() -> None:
    values = inputs()
    values["q"] = values["q"] * 1000
    capped = call(OPERATOR, values, softcap=1e-6)
    # scores squeezed to nothing: every visible token weighs the same, so the last one is the mean of all values
    means = values["v"].mean(2).repeat_interleave(2, 1)
    assert torch.allclose(capped[:, -1], means, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"softcap": 2.0}, {"sink": torch.zeros(4)}], ids=str)
def test_gradients_are_those_of_the_reference(options: dict[str, Any]) -> None:
    both = []
    for function in (OPERATOR, reference_attention):
        values = inputs()
        leaves = [values[name].requires_grad_() for name in ("q", "k", "v")]
        call(function, values, **options).square().sum().backward()
        both.append([leaf.grad for leaf in leaves])
    for one, other in zip(*both, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_mask_is_added_to_the_scores() -> None:
    values = inputs()
    values["causal"] = False
    values["mask"] = torch.zeros(6, 6).masked_fill(~visible(values["positions"], values["positions"], True, 0), -1e9)
    masked = call(OPERATOR, values)
    values["mask"], values["causal"] = None, True
    assert torch.allclose(masked, call(OPERATOR, values), atol=1e-6)
