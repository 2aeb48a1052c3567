"""The parts of training: losses, rates, averages, adapters' optimiser, recomputed activations, checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from edgec.errors import InputError
from edgec.exporter.adapt.checkpoint import TrainingState, restore, save
from edgec.exporter.adapt.loop import step_arithmetic
from edgec.exporter.adapt.losses import distillation, hidden_match, text_loss
from edgec.exporter.adapt.optimiser import MovingAverage, learning_rate_share, make_optimiser, set_rate
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.adapt.student import TrainableDecoder, make_trainable, move_constants
from edgec.exporter.adapt.training_graph import checkpoint_layers, fuse_attention
from edgec.passes.contract import clone
from tests.passes.train.test_fake_quantize import LENGTH, family


def test_distillation_is_the_divergence() -> None:
    ours, theirs = torch.randn(1000, 7).double(), torch.randn(1000, 7).double()
    p, q = theirs.softmax(-1), ours.softmax(-1)
    wanted = (p * (p.log() - q.log())).sum(-1).mean()
    assert float(distillation(ours, theirs, 1.0)) == pytest.approx(float(wanted), rel=1e-5)
    assert float(distillation(ours, ours, 2.0)) == pytest.approx(0, abs=1e-6)


def test_text_loss_of_a_sure_guess_is_nothing() -> None:
    assert float(text_loss(torch.eye(5) * 100, torch.arange(5))) == pytest.approx(0, abs=1e-6)
    assert float(text_loss(torch.zeros(5, 5), torch.arange(5))) == pytest.approx(math.log(5))


def test_hidden_match_is_relative() -> None:
    theirs = {0: torch.randn(4, 8), 1: torch.randn(4, 8) * 1000}
    assert float(hidden_match({k: 1.1 * v for k, v in theirs.items()}, theirs)) == pytest.approx(0.01, rel=1e-4)


def test_the_rate_rises_and_falls() -> None:
    settings = Settings(steps=100, warm_up=0.1, final_rate=0.02)
    rates = [learning_rate_share(step, settings) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == rates[10] == pytest.approx(1.0)
    assert rates[10:] == sorted(rates[10:], reverse=True) and rates[-1] == pytest.approx(0.02, abs=2e-3)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"text_loss": 1.5}, {"learning_rate": 0.0}, {"ema": 1.0}, {"length": 1}, {"low_rank": -1}]
)
def test_settings_without_a_meaning_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**wrong)
    assert caught.value.code == "E501" and next(iter(wrong)) in caught.value.what


def test_groups_of_the_optimiser() -> None:
    model = nn.Module()
    model.register_parameter("matrix", nn.Parameter(torch.zeros(2, 2)))
    model.register_parameter("norm", nn.Parameter(torch.zeros(2)))
    model.register_parameter("matrix_log_scale", nn.Parameter(torch.zeros(2, 1)))
    model.register_parameter("frozen", nn.Parameter(torch.zeros(2, 2), requires_grad=False))
    optimiser = make_optimiser(model, Settings(learning_rate=1e-3, scale_rate=2e-3, weight_decay=0.1))
    assert [(g["peak"], g["weight_decay"], len(g["params"])) for g in optimiser.param_groups] == [
        (1e-3, 0.1, 1),
        (1e-3, 0.0, 1),
        (2e-3, 0.0, 1),
    ]
    set_rate(optimiser, 0.5)
    assert [g["lr"] for g in optimiser.param_groups] == [5e-4, 5e-4, 1e-3]


def test_an_average_stands_in_for_the_weights_and_steps_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    average = MovingAverage.of(model, 0.5)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average.update(100)
    with average.in_place():
        assert float(model.weight) == 0.5
    assert float(model.weight) == 1.0


def gradients(module: Any, names: nn.Module) -> dict[str, torch.Tensor]:
    batch = torch.randint(0, 128, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    names.zero_grad()
    output = module(batch, torch.arange(LENGTH))
    logits = output[0] if isinstance(output, (tuple, list)) else output
    logits.logsumexp(-1).square().mean().backward()
    return {name: p.grad.clone() for name, p in names.named_parameters() if p.grad is not None}


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral"])
def test_fused_attention_is_the_operator(name: str) -> None:
    program = family(name)
    make_trainable(program.graph)
    fused = clone(program.graph)
    fuse_attention(fused)
    wanted, fused_gradients = gradients(program.graph, program.graph), gradients(fused, fused)
    assert wanted.keys() == fused_gradients.keys()
    for key, value in wanted.items():
        # sums in another order, through three layers and back
        torch.testing.assert_close(fused_gradients[key], value, atol=1e-4 * float(value.abs().max()), rtol=1e-3)


@pytest.mark.long
def test_recomputed_activations_give_the_same_gradients() -> None:
    program = family("llama")
    make_trainable(program.graph)
    fuse_attention(program.graph)
    wanted = gradients(program.graph, program.graph)
    recomputed = gradients(checkpoint_layers(program.graph), program.graph)
    assert wanted.keys() == recomputed.keys() and all(torch.equal(recomputed[key], wanted[key]) for key in wanted)


@pytest.mark.long
def test_layers_are_shown_where_asked_for() -> None:
    program = family("llama")
    fuse_attention(program.graph)
    logits, layers = TrainableDecoder(program, layers=True)(torch.zeros(2, 6, dtype=torch.int64))
    assert logits.shape == (2, 6, 128) and {k: tuple(v.shape) for k, v in layers.items()} == dict.fromkeys(
        range(3), (2, 6, 4, 16)
    )


def trained_once() -> tuple[nn.Linear, torch.optim.AdamW]:
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    optimiser = make_optimiser(model, Settings())
    model(torch.ones(3)).sum().backward()
    optimiser.step()
    return model, optimiser


def test_a_checkpoint_brings_everything_back(tmp_path: Path) -> None:
    file = tmp_path / "aside" / "checkpoint.pt"
    model, optimiser = trained_once()
    averages = {"weight": torch.ones(3, 3)}
    save(file, "key", TrainingState(step=4, losses=[1.0, 2.0], seconds=3.0), model, optimiser, averages)
    other = nn.Linear(3, 3)
    empty = make_optimiser(other, Settings())
    again = {"weight": torch.zeros(3, 3)}
    state = restore(file, "key", other, empty, again)
    assert (state.step, state.losses, state.seconds) == (4, [1.0, 2.0], 3.0)
    assert torch.equal(other.weight, model.weight) and torch.equal(again["weight"], averages["weight"])
    assert empty.state_dict()["state"][0]["exp_avg"].abs().sum() > 0


def test_a_foreign_or_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.pt"
    model, optimiser = trained_once()
    save(file, "key", TrainingState(), model, optimiser, {})
    for key, damage in (("other", b""), ("key", b"not a checkpoint")):
        file.write_bytes(damage or file.read_bytes())
        with pytest.raises(InputError) as caught:
            restore(file, key, model, optimiser, {})
        assert caught.value.code == "E507"


def test_settings_travel_as_data() -> None:
    settings = replace(Settings(), steps=3)
    assert Settings(**settings.to_json()) == settings


def test_a_graph_makes_its_tensors_where_it_is_placed() -> None:
    graph = torch.fx.Graph()
    made = graph.call_function(torch.ops.aten.arange.default, (3,), {"device": torch.device("cpu")})
    table = graph.placeholder("table")  # a rotary table: the device is a plain argument there
    cast = graph.call_function(torch.ops.aten.to.device, (table, torch.device("cpu"), torch.float32))
    graph.output((made, cast))
    module = torch.fx.GraphModule({}, graph)
    move_constants(module, torch.device("meta"))
    assert [each.device.type for each in module(torch.ones(2))] == ["meta", "meta"]


def test_a_teacher_may_be_padded_otherwise() -> None:
    student, teacher = torch.randn(5, 8), torch.randn(5, 8)
    padded = torch.nn.functional.pad(teacher, (0, 3), value=7.0)
    assert torch.equal(distillation(student, padded, 1.0), distillation(student, teacher, 1.0))


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_step_is_bfloat16_on_a_gpu_alone() -> None:
    assert isinstance(step_arithmetic(torch.device("cuda")), torch.autocast)
    with step_arithmetic(torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == torch.float32
