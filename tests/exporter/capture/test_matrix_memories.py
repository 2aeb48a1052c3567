"""Linear attention known by its class, beside transformers' own code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.recurrences import call_recurrences
from tests.families import Family

# Sums in float32 in another order.
TOLERANCE = 5e-6
# What xLSTM's eps of 1e-6 adds to divisors that edgec leaves without it, where gates are wide open.
WITHOUT_EPS = 2e-4
HEADS, KEYS, VALUES = 3, 8, 12


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _difference(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.abs().max())


def _lightning(index: int) -> nn.Module:
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    torch.manual_seed(1)
    config = Family("minimax", {"layer_types": ["linear_attention"] * 3, "block_size": 5}).config()
    result: nn.Module = MiniMaxLightningAttention(config, index).eval()
    return result


@torch.no_grad()
@pytest.mark.parametrize("index", [0, 2], ids=["forgets", "keeps almost everything"])
@pytest.mark.parametrize("tokens", [1, 5, 23])
def test_lightning_attention(index: int, tokens: int) -> None:
    layer: Any = _lightning(index)
    x = _random(1, tokens, 64)
    wanted, _ = layer(x, None, None)
    with call_recurrences(layer):
        got, state = layer(x, None, None)
    assert state is None and _difference(got, wanted) < TOLERANCE


def test_the_shares_that_are_kept_are_the_checkpoints() -> None:
    layer: Any = _lightning(0)
    layer.slope_rate.mul_(3.0)
    x = _random(1, 9, 64)
    with torch.no_grad(), call_recurrences(layer):
        changed = layer(x, None, None)[0]
    with torch.no_grad(), call_recurrences(usual := _lightning(0)):
        assert _difference(changed, usual(x, None, None)[0]) > 1e-2


def _cell(**options: Any) -> Any:
    from transformers.models.xlstm.modeling_xlstm import xLSTMBackend

    return xLSTMBackend(Family("xlstm", {"chunk_size": 4, **options}, absent=("num_attention_heads",)).config())


def _gated(tokens: int, opened: float, kept: float) -> dict[str, Tensor]:
    q, k = (_random(1, HEADS, tokens, KEYS, seed=seed) for seed in (0, 1))
    i, f = (_random(1, HEADS, tokens, seed=seed) for seed in (3, 4))
    value = _random(1, HEADS, tokens, VALUES, seed=2)
    return {"query": q, "key": k, "value": value, "igate": i + opened, "fgate": f + kept}


@torch.no_grad()
@pytest.mark.parametrize("tokens", [1, 4, 22])
@pytest.mark.parametrize(("opened", "kept"), [(0.0, 0.0), (-10.0, 4.0), (4.0, -4.0), (3.0, 6.0)])
@pytest.mark.parametrize(("eps", "tolerance"), [(0.0, TOLERANCE), (1e-6, WITHOUT_EPS)])
def test_gated_memories(tokens: int, opened: float, kept: float, eps: float, tolerance: float) -> None:
    cell, operands = _cell(eps=eps), _gated(tokens, opened, kept)
    wanted, _ = cell(**operands)
    with call_recurrences(cell):
        got, state = cell(**operands)
    assert state is None and _difference(got, wanted) < tolerance


@torch.no_grad()
def test_some_divisors_are_sums_and_some_are_one() -> None:
    """Else the test above would not tell what is divided."""
    operands = _gated(22, 0.0, 0.0)
    keys = (operands["query"] * operands["key"]).sum(-1).abs() * KEYS**-0.5 * operands["igate"].exp()
    assert bool((keys > 1).any()) and bool((keys < 1).any())


@pytest.mark.parametrize("options", [{"gate_soft_cap": 100.0}, {"eps": 0.1}])
def test_what_float32_cannot_hold_is_refused(options: dict[str, float]) -> None:
    cell = _cell(**options)
    with call_recurrences(cell), pytest.raises(ValueError, match="gate_soft_cap"):
        cell(**_gated(3, 0.0, 0.0))


def test_a_memory_that_does_not_begin_empty_is_refused() -> None:
    cell, state = _cell(), torch.zeros(1)
    with call_recurrences(cell), pytest.raises(ValueError, match="initial state"):
        cell(**_gated(3, 0.0, 0.0), c_initial=state, n_initial=state, m_initial=state)
