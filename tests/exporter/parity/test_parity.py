"""The ladder bites: a miscompile, a broken pass and rounding beyond the budget are all caught."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.fx import GraphModule

from edgec.errors import BudgetError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.divergence import first_diverging_layer, program_layers
from edgec.exporter.parity.execution import run_artifact, run_program
from edgec.exporter.parity.ladder import Stage, gate, lowering_rung, quality_rung, with_error
from edgec.exporter.parity.metrics import difference, tie_margin
from edgec.ir.attention import OPERATOR
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import clone, nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

PLAN = call_plan(24, 12, ROWS)


@dataclass(frozen=True)
class HalvesTheScale:
    """A pass broken by hand: it claims to be exact and halves the attention scale of the second layer."""

    name: str = "halves_the_scale"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None: ...

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        node = nodes_of(graph, OPERATOR)[1]
        node.update_arg(6, float(node.args[6]) / 2)  # type: ignore[arg-type]
        return program.interface

    def ensures(self, program: Program) -> None: ...


def stage(name: str, program: Program) -> Stage:
    return Stage(name, run_program(program, tokens(24), PLAN))


@pytest.mark.long
def test_a_broken_pass_is_caught_and_located() -> None:
    before = captured("llama")
    after = run_pass(before, HalvesTheScale())
    rung = lowering_rung(stage("before", before), stage("after", after))
    assert not rung.passed
    with pytest.raises(BudgetError) as stopped:
        gate([rung])
    assert stopped.value.code == "E201" and stopped.value.exit_code == 2
    wanted, got = (program_layers(program, tokens(24), PLAN) for program in (before, after))
    assert first_diverging_layer(wanted, got, 1e-3) == 1


def weight_only(program: Program) -> Program:
    scheme = WeightScheme(bits=8, group_size=0, activation_bits=0)
    return run_pass(program, Quantize(default=scheme, lm_head=scheme))


def lowered_by_the_stock_partitioner(module: torch.nn.Module, inputs: torch.Tensor) -> bytes:
    """A module through ExecuTorch's own route, as its users write it."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    exported = torch.export.export(module, (inputs,), strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], compile_config=config)
    return bytes(edge.to_executorch().buffer)


@pytest.mark.long
def test_the_weight_only_miscompile_of_the_stock_partitioner_is_caught(tmp_path: Path) -> None:
    """torchao's weight-only int8 through ExecuTorch 1.5.1 lowers and runs without an error, and drops the scales."""
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis

    from edgec.runtime_py.engines.open_artifact import TorchMethod

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False)).eval()
    inputs = torch.randn(3, 64)
    exact = Stage("float", module(inputs).detach())
    quantize_(module, IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)))
    rounded = Stage("rounded", module(inputs).detach())
    # The rounded module itself is fine ...
    assert quality_rung(exact, rounded, {"max_relative": 0.05}, gated=True).passed
    (tmp_path / "wrong.pte").write_bytes(lowered_by_the_stock_partitioner(module, inputs))
    executed = Stage("artifact", TorchMethod(tmp_path / "wrong.pte")([inputs])[0].clone())
    # ... what runs is not.
    rung = lowering_rung(rounded, executed, {"max_relative": 0.1}, rounded=True)
    assert not rung.passed
    with pytest.raises(BudgetError):
        gate([rung])


@pytest.mark.slow
def test_edgecs_own_clusters_keep_the_scales(tmp_path: Path) -> None:
    from edgec.backends.cpu.lower import lower

    program = weight_only(run_pass(captured("llama"), KvCache(CONTEXT, 12)))
    (tmp_path / "model.pte").write_bytes(lower(program).artifact)
    executed = Stage("artifact", run_artifact(tmp_path / "model.pte", tokens(24), PLAN))
    assert lowering_rung(stage("rounded", program), executed, ladder.FLOAT_LOWERING).passed


def test_equal_logits_pass() -> None:
    logits = torch.randn(5, 7)
    rung = lowering_rung(Stage("a", logits), Stage("b", logits.clone()))
    assert rung.passed and rung.max_abs == 0.0 and rung.top1_agreement == 1.0
    gate([rung])


def test_numbers_that_are_not_finite_never_pass() -> None:
    logits = torch.randn(5, 7)
    broken = logits.clone()
    broken[2, 3] = math.nan
    rung = lowering_rung(Stage("a", logits), Stage("b", broken), ladder.ROUNDED_LOWERING)
    assert not rung.passed and rung.max_abs is None
    with pytest.raises(BudgetError, match="differs"):
        gate([rung])


def test_quality_is_reported_but_not_gated_on_random_weights() -> None:
    rung = quality_rung(Stage("a", torch.randn(5, 7)), Stage("b", torch.randn(5, 7)), {"kl_mean": 1e-6}, gated=False)
    assert not rung.passed
    gate([rung])


def test_kl_is_that_of_the_formula() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.5, 0.3, 0.2])
    gap = difference(p.log()[None], q.log()[None], 0.0)
    assert gap.kl_mean == pytest.approx(float((p * (p / q).log()).sum()), abs=1e-6)


def near_ties(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits as random weights give them, close together, and the same with noise."""
    generator = torch.Generator().manual_seed(3)
    reference = torch.randn(64, 20_000, generator=generator)
    return reference, reference + noise * torch.randn(reference.shape, generator=generator)


def test_a_flip_counts_where_the_margin_is_wider_than_the_noise() -> None:
    reference, candidate = near_ties(0.11)
    fixed, scaled = (difference(reference, candidate, 0.1, widest) for widest in (0.0, tie_margin(0.01)))
    # Noise of 0.11 on each logit is 0.006 nats: half of the margins are narrower than what it may swap.
    assert scaled.kl_mean == pytest.approx(0.11**2 / 2, rel=0.1)
    assert fixed.top1_agreement < 0.97 <= scaled.top1_agreement
    assert 0.3 < scaled.epsilon < tie_margin(0.01)
    assert 0 < scaled.decided < 64


def test_noise_excuses_no_flip_beyond_the_budget() -> None:
    reference, candidate = near_ties(1.0)
    gap = difference(reference, candidate, 0.1, tie_margin(0.01))
    assert gap.epsilon == tie_margin(0.01)
    assert gap.top1_agreement < 0.97


def test_noise_at_few_positions_excuses_no_flip_at_others() -> None:
    reference = torch.zeros(40, 50)
    reference[:, 0] = 0.4
    candidate = reference.clone()
    candidate[:5, 1] = 1.0
    gap = difference(reference, candidate, 0.1, tie_margin(0.01))
    assert gap.epsilon == 0.1
    assert gap.top1_agreement == 35 / 40


def test_a_flip_within_epsilon_is_no_disagreement() -> None:
    reference, candidate = torch.tensor([[1.0, 1.0005, 0.0]]), torch.tensor([[1.001, 1.0, 0.0]])
    assert difference(reference, candidate, 1e-2).top1_agreement == 1.0
    assert difference(reference, candidate, 0.0).top1_agreement == 0.0


def test_the_ladder_says_where_what_and_how_much() -> None:
    rung = lowering_rung(Stage("a", torch.zeros(2, 3)), Stage("b", torch.ones(2, 3)))
    with pytest.raises(BudgetError) as stopped:
        gate([rung.model_copy(update={"first_diverging_layer": 4})])
    assert "layer 4" in stopped.value.where and "2 positions" in stopped.value.why


@pytest.mark.slow
def test_a_broken_artifact_is_located_by_lowering_it_with_its_layers_exposed() -> None:
    from edgec.backends.cpu.lower import lower
    from edgec.exporter.parity.probe_calls import text_calls
    from edgec.exporter.stages.locating import locate_in_artifact

    program = run_pass(captured("llama"), KvCache(CONTEXT, 12))

    def lower_wrongly(exposed: Program) -> bytes:
        graph = clone(exposed.graph)
        name = "decoder.model.layers.1.self_attn.v_proj.weight"
        wrong = torch.nn.Parameter(attribute(graph, name) * 2, requires_grad=False)
        setattr(*owner_of(graph, name), wrong)
        return lower(Program(graph, exposed.interface, exposed.spec)).artifact

    calls = text_calls(program.interface, tokens(24), PLAN)
    assert locate_in_artifact(program, calls, lower_wrongly) == 1
    assert locate_in_artifact(program, calls, lambda exposed: lower(exposed).artifact) is None


def test_layers_computed_for_chosen_rows_only_are_compared_where_all_have_them() -> None:
    cached = run_pass(captured("llama"), KvCache(CONTEXT, 12))
    skipping = run_pass(cached, PrefillSkip())
    plan = call_plan(30, 12, ROWS)
    wanted, got, uncached = (program_layers(one, tokens(30), plan) for one in (cached, skipping, captured("llama")))
    assert {value.shape for value in got.values()} == {value.shape for value in uncached.values()}
    # The same float32 sums over fewer rows.
    assert first_diverging_layer(wanted, got, 1e-4) is None and first_diverging_layer(uncached, got, 1e-4) is None
    got[1] = got[1] + 1.0
    assert first_diverging_layer(wanted, got, 1e-4) == 1


@pytest.mark.parametrize(
    ("kl", "top1", "passed"), [(0.22, 0.9, True), (0.27, 0.9, False), (0.1, 0.68, True), (0.1, 0.3, False)]
)
def test_a_figure_within_its_error_is_judged_later(kl: float, top1: float, passed: bool) -> None:
    rung = lowering_rung(Stage("a", torch.zeros(4, 3)), Stage("b", torch.zeros(4, 3)))
    limits = {"kl_mean": 0.2, "top1_agreement": 0.7}
    figures = {"kl_mean": kl, "kl_error": 0.05, "top1_agreement": top1, "positions": 87, "budget": limits}
    failed = rung.model_copy(update={"half": "quality", "passed": False, **figures})
    assert with_error(failed).passed == passed
    assert not with_error(failed.model_copy(update={"half": "lowering"})).passed
    unknown = {"kl_mean": 0.2, "max_abs": 1.0}
    assert not with_error(failed.model_copy(update={"budget": unknown})).passed, "a figure without an error"
