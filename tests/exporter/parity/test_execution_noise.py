"""The limit of lowering is what two right executions of the very graph differ by, and faults differ by more."""

from __future__ import annotations

from functools import lru_cache, partial

import pytest
import torch

from edgec.exporter.parity import ladder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.execution_noise import HALF, HALF_SUMS, ROUNDED, Noise, _summed_in_half, moved
from edgec.exporter.parity.ladder import ALONE, FLOOR, MULTIPLE, Stage, executed_budget, lowering_rung, measured
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.stages.static_decoder import lowering_budget
from edgec.ir.call_plan import call_plan
from edgec.ir.kernel_grids import LINEAR_KERNELS
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import Pass, run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.exporter.parity.planted_faults import LOST, ROWS_OFF, SWAPPED, damaged
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

IDS, PLAN = tokens(40), call_plan(40, 12, ROWS)
RUN = partial(run_program, tokens=IDS, plan=PLAN)
QUIET = Noise(kl_mean=0.0, max_relative=0.0, how="")


@lru_cache(maxsize=2)
def rounded(activation_bits: int = 8) -> Program:
    """A random Llama of four layers with 8-bit weights; in smaller ones no value lies midway between two integers."""
    scheme = WeightScheme(8, 32, activation_bits=activation_bits, scale_bits=16)
    passes: list[Pass] = [
        KvCache(CONTEXT, 12, "float16"),
        Quantize(default=scheme, lm_head=scheme, kernels=LINEAR_KERNELS),
    ]
    program = captured("llama", hidden_size=128, intermediate_size=256, num_hidden_layers=4, initializer_range=0.1)
    for each in passes:
        program = run_pass(program, each)
    return program


def noise(program: Program) -> Noise:
    return ROUNDED.noise(program, RUN(program), RUN)


@pytest.mark.long
def test_rounded_activations_fall_to_the_other_side_and_others_do_not() -> None:
    loud, quiet = noise(rounded()), noise(rounded(activation_bits=0))
    # Values moved by 1e-6 of themselves alone make a KL of (1e-6)^2; an integer step of an activation is 1e-2 of a row.
    assert quiet.kl_mean < 1e-6 < loud.kl_mean < 0.1


@pytest.mark.long
def test_the_second_execution_is_the_same_every_time_and_leaves_the_graph_alone() -> None:
    program = rounded()
    before = RUN(program)
    assert noise(program) == noise(program) and torch.equal(RUN(program), before)
    assert len(moved(program).graph.graph.nodes) > len(program.graph.graph.nodes)


def test_values_in_float16_move_a_graph_more_than_sums_in_another_order() -> None:
    program = rounded(activation_bits=0)
    half = HALF.noise(program, RUN(program), RUN)
    assert noise(program).kl_mean < half.kl_mean < 1e-2 and half.how == "values rounded to float16"


def test_the_limit_follows_the_noise_and_never_hides_a_fault_behind_it() -> None:
    recipe = load_recipe("4bit")
    for kl, wanted in ((0.0, FLOOR), (0.004, MULTIPLE * 0.004 + FLOOR), (1.0, ladder.MOST_NOISE)):
        budget = executed_budget(recipe, rounded=True, noise=Noise(kl_mean=kl, max_relative=0.0, how=""))
        assert budget["kl_mean"] == wanted and budget["top1_agreement"] == 0.97
    half = lowering_budget(recipe, half=True, untrained=False, noise=Noise(kl_mean=1e-4, max_relative=0.0, how=""))
    assert half == {"kl_mean": ALONE * 1e-4 + FLOOR, "top1_agreement": 1.0}


@pytest.mark.long
def test_faults_differ_by_more_than_two_right_executions() -> None:
    program = rounded()
    logits = RUN(program)
    budget = measured(ladder.ROUNDED_LOWERING, noise(program), MULTIPLE)
    assert lowering_rung(Stage("graph", logits), Stage("again", RUN(moved(program))), budget, rounded=True).passed
    for fault in (SWAPPED, ROWS_OFF, LOST):
        wrong = RUN(damaged(program, fault, "layers.1.mlp.down_proj"))
        assert not lowering_rung(Stage("graph", logits), Stage(fault, wrong), budget, rounded=True).passed, fault


def test_sums_in_float16_are_those_of_the_order_one_after_the_other() -> None:
    x, weight = torch.randn(3, 40), torch.randn(5, 40)
    total = torch.zeros(3, 5, dtype=torch.float16)
    for step in range(40):
        product = x[:, step, None].half().float() * weight[None, :, step].half().float()
        total = (total.float() + product).half()
    assert torch.equal(_summed_in_half(x, weight), total.float())
    assert torch.equal(_summed_in_half(x[None], weight, torch.ones(5)), total.float()[None] + 1)


@pytest.mark.long
def test_sums_in_float16_cost_more_than_results_in_float16() -> None:
    program = rounded(activation_bits=0)
    logits = RUN(program)
    results, sums = (second.noise(program, logits, RUN) for second in (HALF, HALF_SUMS))
    assert 3 * results.kl_mean < sums.kl_mean < 1e-2
