"""The meaning of recurrent layers, against torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from edgec.ir.recurrent_layers import GRU, LSTM

BATCH, STEPS, WIDTH, HIDDEN = 2, 6, 5, 7


@pytest.mark.parametrize("backwards", [False, True])
def test_lstm_is_torchs(backwards: bool) -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
    x, (h, c) = torch.randn(BATCH, STEPS, WIDTH), torch.randn(2, 2, BATCH, HIDDEN)
    end, side = ("_reverse", 1) if backwards else ("", 0)
    parts = [getattr(layer, f"{name}_l0{end}") for name in ("weight_ih", "bias_ih", "bias_hh", "weight_hh")]
    with torch.no_grad():
        wanted, (_, cells) = layer(x, (h, c))
        got = LSTM(nn.functional.linear(x, parts[0], parts[1] + parts[2]), h[side], c[side], parts[3], None, backwards)
    # The same sums in another order, over six steps.
    torch.testing.assert_close(got[:, :-1], wanted[..., side * HIDDEN :][..., :HIDDEN], atol=1e-6, rtol=0)
    torch.testing.assert_close(got[:, -1], cells[side], atol=1e-6, rtol=0)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_gru_is_torchs(backwards: bool, biased: bool) -> None:
    torch.manual_seed(0)
    layer = nn.GRU(WIDTH, HIDDEN, batch_first=True, bidirectional=True, bias=biased)
    x, h = torch.randn(BATCH, STEPS, WIDTH), torch.randn(2, BATCH, HIDDEN)
    end, side = ("_reverse", 1) if backwards else ("", 0)
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    known: dict[str, Any] = {name: getattr(layer, f"{name}_l0{end}", None) for name in names}
    with torch.no_grad():
        given = nn.functional.linear(x, known["weight_ih"], known["bias_ih"])
        got = GRU(given, h[side], known["weight_hh"], known["bias_hh"], None, backwards)
        wanted = layer(x, h)[0][..., side * HIDDEN :][..., :HIDDEN]
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=0)


def test_integers_stand_for_their_products_with_scales() -> None:
    torch.manual_seed(0)
    given, h, c = torch.randn(1, 3, 8), torch.randn(1, 2), torch.randn(1, 2)
    integers, scale = torch.randint(-127, 128, (8, 2), dtype=torch.int8), torch.rand(8) / 100
    floats = integers.float() * scale[:, None]
    assert torch.equal(LSTM(given, h, c, integers, scale, False), LSTM(given, h, c, floats, None, False))
    known = given[..., :6], h
    read, held = GRU(*known, integers[:6], None, scale[:6], True), GRU(*known, floats[:6], None, None, True)
    assert torch.equal(read, held)
