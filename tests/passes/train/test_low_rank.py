"""Low-rank adapters change nothing at first, and merge into one weight in the end."""

from __future__ import annotations

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.adapt.student import make_trainable
from edgec.ir.attributes import owner_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import clone, run_pass
from edgec.passes.train.fake_quantize import FakeQuantize, prepared
from edgec.passes.train.low_rank import LowRank, merge_weight
from tests.passes.train.test_fake_quantize import family, logits


@pytest.mark.long
def test_untrained_adapters_change_nothing() -> None:
    program = family("llama")
    assert torch.equal(logits(run_pass(program, LowRank(4))), logits(program))


@pytest.mark.long
def test_trained_adapters_are_merged_into_the_weights() -> None:
    program = family("llama")
    make_trainable(program.graph)
    corrected = run_pass(program, LowRank(4))
    with torch.no_grad():
        for name, parameter in corrected.graph.named_parameters():
            if name.endswith("_low_rank_tall"):
                parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(len(name)))
    merged = clone(program.graph)
    for target in corrected.graph.meta[LowRank.RECORD]:
        value = merge_weight(corrected.graph, target)
        setattr(*owner_of(merged, target), torch.nn.Parameter(value))
    graphs = (merged, corrected.graph, program.graph)
    logits, wanted, plain = (graph(torch.zeros(1, 8).long(), torch.arange(8))[0] for graph in graphs)
    assert torch.equal(logits, wanted) and not torch.equal(logits, plain)


@pytest.mark.long
def test_rounding_happens_after_the_correction() -> None:
    program = run_pass(family("llama"), LowRank(4))
    rounded = run_pass(program, FakeQuantize(Quantize(default=WeightScheme(4, 32))))
    assert len(prepared(rounded.graph)) == len([t for t in program.graph.meta[LowRank.RECORD] if "lm_head" not in t])


@pytest.mark.long
def test_a_rank_of_nothing_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        run_pass(family("llama"), LowRank(0))
    assert caught.value.code == "E501"
