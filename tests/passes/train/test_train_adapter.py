"""An adapter beside integer weights: nothing changes until it is trained, and nothing else learns."""

from __future__ import annotations

import pytest
import torch

from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import run_pass, run_passes
from edgec.passes.train.train_adapter import TrainAdapter, adapted_modules
from tests.passes.train.test_fake_quantize import family, logits


def rounded(name: str = "llama") -> Program:
    weights = Quantize(default=WeightScheme(4, 32, scale_bits=16), lm_head=WeightScheme(8, 0))
    return run_passes(family(name), [weights, QuantizeEmbedding(8, 0, min_rows=1)])


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", pytest.param("gemma3_text", marks=pytest.mark.slow)])
def test_an_untrained_adapter_changes_no_bit(name: str) -> None:
    program = rounded(name)
    assert torch.equal(logits(run_pass(program, TrainAdapter(4))), logits(program))


@pytest.mark.long
def test_every_linear_layer_but_the_lm_head_has_a_change_named_as_its_module() -> None:
    names = {module.name for module in adapted_modules(run_pass(rounded(), TrainAdapter(4)).graph)}
    layers = {name.split(".")[2] for name in names}
    leaves = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}
    leaves |= {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}
    assert names == {f"model.layers.{layer}.{leaf}" for layer in layers for leaf in leaves}


@pytest.mark.long
def test_only_the_changes_learn_and_gradients_reach_all_of_them() -> None:
    graph = run_pass(rounded(), TrainAdapter(4)).graph
    learned = dict(graph.named_parameters())
    with torch.no_grad():
        for module in adapted_modules(graph):
            learned[module.b].normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
    graph(torch.arange(10, 26)[None], torch.arange(16))[0].square().mean().backward()
    sides = {name for module in adapted_modules(graph) for name in (module.a, module.b)}
    for name, parameter in learned.items():
        moves = parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
        assert moves == parameter.requires_grad == (name in sides), name


@pytest.mark.long
def test_what_has_no_integers_takes_no_adapter() -> None:
    with pytest.raises(InputError, match="E698"):
        run_pass(family("llama"), TrainAdapter(4))


@pytest.mark.long
def test_a_rank_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="E501"):
        run_pass(rounded(), TrainAdapter(0))
