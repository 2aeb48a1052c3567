from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from edgec.exporter.capture.module import capture_module
from edgec.ir.attention import OPERATOR
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.fuse_sdpa import SDPA, FuseSdpa

# The same float32 arithmetic in another order: a few units in the last place of values near 1.
TOLERANCE = 1e-6


class _Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q, k, v, **self.options)


def _heads(heads: int, tokens: int, width: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(1, heads, tokens, width, generator=torch.Generator().manual_seed(seed))


def _fused(module: nn.Module, *inputs: Tensor) -> tuple[Program, Program]:
    before = capture_module(module, inputs)
    return before, run_pass(before, FuseSdpa())


LOOK_BACK = torch.ones(6, 6, dtype=torch.bool).tril().view(1, 1, 6, 6)
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.7},
    "causal": {"is_causal": True},
    "boolean mask": {"attn_mask": LOOK_BACK},
    "float mask": {"attn_mask": torch.linspace(-2, 2, 36).view(1, 1, 6, 6)},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_same_numbers_in_one_attention_node(options: dict[str, Any]) -> None:
    inputs = (_heads(4, 6), _heads(4, 6, seed=1), _heads(4, 6, seed=2))
    before, after = _fused(_Attention(**options), *inputs)
    assert len(nodes_of(after.graph, OPERATOR)) == 1
    assert not nodes_of(after.graph, SDPA)
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)


def test_grouped_heads_and_a_wider_value() -> None:
    inputs = (_heads(4, 6), _heads(2, 6, seed=1), _heads(2, 6, 12, seed=2))
    before, after = _fused(_Attention(enable_gqa=True), *inputs)
    assert len(nodes_of(after.graph, OPERATOR)) == 1
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)


def test_cross_attention_sees_every_key() -> None:
    inputs = (_heads(2, 3), _heads(2, 7, seed=1), _heads(2, 7, seed=2))
    before, after = _fused(_Attention(), *inputs)
    assert nodes_of(after.graph, OPERATOR)
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("options", "inputs"),
    [
        ({"dropout_p": 0.5}, (_heads(2, 6),) * 3),
        ({"is_causal": True}, (_heads(2, 3), _heads(2, 7), _heads(2, 7))),
        ({}, (_heads(2, 6)[0],) * 3),
    ],
    ids=["dropout", "causal with other lengths", "three dimensions"],
)
def test_what_the_operator_cannot_say_is_left_alone(options: dict[str, Any], inputs: tuple[Tensor, ...]) -> None:
    _, after = _fused(_Attention(**options), *inputs)
    assert nodes_of(after.graph, SDPA)
    assert not nodes_of(after.graph, OPERATOR)


class _Masked(nn.Module):
    """Two layers over one mask; ``hidden`` keys at the end are masked by a constant."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[2]
        mask = (torch.arange(tokens) < tokens - self.hidden).expand(1, 1, tokens, tokens)
        return sdpa(sdpa(x, x, x, attn_mask=mask), x, x, attn_mask=mask)


def test_a_constant_mask_that_hides_nothing_vanishes() -> None:
    inputs = (_heads(2, 6),)
    before, after = _fused(_Masked(0), *inputs)
    assert [node.args[4] for node in nodes_of(after.graph, OPERATOR)] == [None, None]
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)


def test_a_constant_mask_that_hides_something_stays_and_is_shared() -> None:
    inputs = (_heads(2, 6),)
    before, after = _fused(_Masked(2), *inputs)
    first, second = (node.args[4] for node in nodes_of(after.graph, OPERATOR))
    assert first is second
    assert first is not None
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)
    _, unmasked = _fused(_Masked(0), *inputs)
    assert not torch.allclose(after.graph(*inputs)[0], unmasked.graph(*inputs)[0], atol=1e-3)


class _MaskInput(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return sdpa(x, x, x, attn_mask=keep.bool()[:, None, None, :])


def test_a_mask_that_depends_on_an_input_is_never_folded() -> None:
    x, all_kept, padded = _heads(2, 6), torch.ones(1, 6), torch.tensor([[1.0, 1, 1, 1, 0, 0]])
    before, after = _fused(_MaskInput(), x, all_kept)
    torch.testing.assert_close(after.graph(x, padded), before.graph(x, padded), atol=TOLERANCE, rtol=0)


def test_the_pass_is_idempotent_and_numbers_layers_in_order() -> None:
    _, once = _fused(_Masked(2), _heads(2, 6))
    twice = run_pass(once, FuseSdpa())
    assert [node.args[5] for node in nodes_of(twice.graph, OPERATOR)] == [0, 1]
    assert len(twice.graph.graph.nodes) == len(once.graph.graph.nodes)


def test_transposes_around_attention_cancel() -> None:
    class Encoder(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = x.view(1, 6, 2, 8).transpose(1, 2)
            return sdpa(heads, heads, heads).transpose(1, 2).reshape(1, 6, 16)

    inputs = (torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(3)),)
    before, after = _fused(Encoder(), *inputs)
    assert len(nodes_of(after.graph, torch.ops.aten.transpose.int)) == 1
    torch.testing.assert_close(after.graph(*inputs), before.graph(*inputs), atol=TOLERANCE, rtol=0)
