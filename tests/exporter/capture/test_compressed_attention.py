"""ZAYA's queries, keys and values by edgec's operators are transformers' own, from the first token on."""

from __future__ import annotations

import pytest
import torch

from benchmarks.coverage_parts.tiny import tiny_config
from edgec.exporter.capture.compressed_attention import compressed_projection

TOKENS = 9


@pytest.mark.parametrize("places", [(2, 2), (3, 4)])
@pytest.mark.parametrize("biased", [False, True])
def test_queries_keys_and_values_are_those_of_transformers(places: tuple[int, int], biased: bool) -> None:
    from transformers.models.zaya.modeling_zaya import ZayaCCAProjection

    config = tiny_config("zaya")
    config.cca_time0, config.cca_time1 = places
    config.attention_bias = biased
    drawn = torch.Generator().manual_seed(0)
    projection = ZayaCCAProjection(config, 0)
    with torch.no_grad():
        for parameter in projection.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn) / 4)
        x = torch.randn(2, TOKENS, config.hidden_size, generator=drawn)
        wanted, made = projection(x, None), compressed_projection(projection, x)
    # The sums are the same in another order: float32 on values of up to 20.
    for one, other in zip(wanted, made, strict=True):
        torch.testing.assert_close(other, one, atol=1e-4, rtol=1e-5)
