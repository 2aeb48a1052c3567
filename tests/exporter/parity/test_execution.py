"""The reference, fed as on a phone: its delta rule goes token by token."""

from __future__ import annotations

import torch
from transformers.models.qwen3_5 import modeling_qwen3_5 as file

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.exporter.parity.execution import step_by_step

# The same sums in another order, which gated norms over small heads enlarge.
TOLERANCE = 1e-3


@torch.no_grad()
def test_steps_replace_chunks_inside_the_block_only() -> None:
    model, tokens = tiny_model(tiny_config("qwen3_5_text")), torch.arange(5, 45)[None]
    chunks = file.torch_chunk_gated_delta_rule
    wanted = model(tokens, use_cache=False).logits
    with step_by_step(model):
        assert file.torch_chunk_gated_delta_rule is file.torch_recurrent_gated_delta_rule
        got = model(tokens, use_cache=False).logits
    assert file.torch_chunk_gated_delta_rule is chunks
    assert not torch.equal(got, wanted)
    torch.testing.assert_close(got, wanted, atol=TOLERANCE * float(wanted.abs().max()), rtol=0)
