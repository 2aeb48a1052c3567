"""The share of a stored tensor that one token reads."""

from __future__ import annotations

import pytest

from edgec.exporter.stages.active_share import active_shares
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import Pass, run_passes
from tests.passes.decoders import captured

ROWS = 96
FOUR = Quantize(default=WeightScheme(4, 32, activation_bits=0))


@pytest.mark.long
@pytest.mark.parametrize("passes", [(), (FOUR, QuantizeEmbedding(8)), (FOUR, QuantizeEmbedding(4, 32, min_rows=1))])
def test_a_token_reads_a_row_of_a_table_and_all_of_a_matrix(passes: tuple[Pass, ...]) -> None:
    shares = active_shares(run_passes(captured("llama"), passes).graph)
    tables = {share for name, share in shares.items() if "embed_tokens" in name}
    others = {share for name, share in shares.items() if "embed_tokens" not in name}
    assert tables == {1 / ROWS} and others == {1.0}


@pytest.mark.long
def test_a_table_that_the_lm_head_reads_too_is_read_whole() -> None:
    shares = active_shares(run_passes(captured("llama", tie_word_embeddings=True), ()).graph)
    assert set(shares.values()) == {1.0}
