"""Encoder-decoders captured as three programs, against transformers' own forward."""

from __future__ import annotations

import pytest
import torch

from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_passes
from tests.encoder_decoders import (
    SPEECH_FAMILIES,
    TEXT_FAMILIES,
    captured_encoder_decoder,
    example_source,
    tiny_encoder_decoder,
)

# Sums in another order; T5 does not scale its scores, so that its sharp softmax makes more of the last bits.
TOLERANCE = 1e-4


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    ["t5", *[pytest.param(f, marks=pytest.mark.slow) for f in (*TEXT_FAMILIES, *SPEECH_FAMILIES) if f != "t5"]],
)
def test_the_programs_compute_what_transformers_computes(family: str) -> None:
    programs, model = captured_encoder_decoder(family), tiny_encoder_decoder(family)
    source, tokens = example_source(family), torch.randint(4, 90, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(**{model.main_input_name: source}, decoder_input_ids=tokens).logits
        memory = programs.cross.graph(programs.encode.graph(source))
        logits = programs.forward.graph(tokens, torch.arange(9), *memory)
    torch.testing.assert_close(logits, wanted, atol=TOLERANCE * float(wanted.abs().max()), rtol=0)


@pytest.mark.long
def test_a_decoder_layer_attends_twice_and_computes_no_keys_of_the_encoder() -> None:
    programs = captured_encoder_decoder("t5")
    calls = [AttentionCall.of(node) for node in nodes_of(programs.forward.graph, OPERATOR)]
    assert [call.causal for call in calls] == [True, False] * 3
    held = {name for name, _ in programs.forward.graph.named_parameters()}
    assert not [name for name in held if "EncDecAttention.k" in name or "EncDecAttention.v" in name]
    cross = run_passes(programs.cross, [RemoveNoops()])
    assert all("EncDecAttention" in name for name, _ in cross.graph.named_parameters())
