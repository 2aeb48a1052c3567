"""Weights that stay in 16 bits give the numbers of a model loaded in float32."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from edgec.exporter.parity import float32_mode
from edgec.exporter.parity.float32_mode import InFloat32
from tests.families import FAMILIES, Family


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_bit_for_bit_the_model_in_float32(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    config = family.config()
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    stored = [matrix.detach().to(torch.bfloat16) for matrix in matrices]
    for matrix, value in zip(matrices, stored, strict=True):
        matrix.data = value.float()
    ids = torch.randint(0, config.get_text_config().vocab_size, (1, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    for matrix, value in zip(matrices, stored, strict=True):
        matrix.data = value
    with torch.no_grad(), InFloat32():
        assert torch.equal(model(ids, use_cache=False).logits, wanted)
    monkeypatch.setattr(float32_mode, "_BLOCK_VALUES", 1)
    with torch.no_grad(), InFloat32():
        # a row at a time: the same sums, perhaps in another order
        assert torch.allclose(model(ids, use_cache=False).logits, wanted, rtol=1e-4, atol=1e-4)


def test_a_stored_dtype_does_not_leak_into_activations() -> None:
    weight = torch.ones(4, 4, dtype=torch.float16)
    with InFloat32():
        assert weight.dtype == torch.float32
        assert torch.full((2,), 1e5).to(weight.dtype).isfinite().all()
        assert (weight * 2).dtype == torch.float32
        assert weight[0].dtype == weight.T.dtype == torch.float32
    assert weight.dtype == torch.float16
