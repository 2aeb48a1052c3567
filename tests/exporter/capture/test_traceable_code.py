"""Model code that is traced in another form computes what transformers' own does, at every length."""

from __future__ import annotations

import pytest
import torch
from transformers import DebertaConfig, DebertaModel

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Dynamic
from tests.modules import spread

SPAN, LONGEST = 8, 24


@pytest.mark.long
@torch.no_grad()
@pytest.mark.parametrize("length", [1, 5, SPAN, LONGEST])
def test_deberta_finds_its_relative_positions_below_and_above_the_span(length: int) -> None:
    config = DebertaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
        relative_attention=True,
        max_relative_positions=SPAN,
        pos_att_type=["c2p", "p2c"],
    )
    model = spread(DebertaModel(config))
    example = torch.arange(12).unsqueeze(0)
    program = capture_module(model, {"input_ids": example}, tokens=Dynamic("T", 1, LONGEST))
    text = torch.arange(length).unsqueeze(0) + 7
    torch.testing.assert_close(program.graph(text)[0], model(text)[0], atol=1e-5, rtol=0)
