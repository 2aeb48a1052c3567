"""The rungs of a decoder's passes: what is gated, and against what."""

from __future__ import annotations

import pytest

from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import QUALITY, Stage
from edgec.exporter.parity.probe import Probe
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.decoder import decoder_measure, quality_budget
from edgec.exporter.stages.rewriting import group_exact_passes, rewrite
from edgec.ir.call_plan import call_plan
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

PROBE = Probe(tuple(tokens(30)), call_plan(30, 12, ROWS), "seeded")


@pytest.mark.long
def test_rounding_behind_sink_tokens_is_gated_against_the_same_model_in_float() -> None:
    program = captured("mistral", sliding_window=8)
    eager = Stage("transformers float32", run_program(program, PROBE.tokens, PROBE.plan))
    recipe = Recipe("sinks", kv_dtype="float16", sink_tokens=2)
    passes = [KvCache(CONTEXT, 12, "float16", 2)]
    done = rewrite(
        lambda: run_pass(program, RemoveNoops()),
        eager,
        group_exact_passes(passes),
        decoder_measure(PROBE, recipe, trained=True),
        Progress(),
    )
    drift, rounding = done.rungs[1:]
    assert (drift.effect, drift.gated, drift.stage) == ("semantic", False, "kv_cache in float")
    assert (rounding.reference, rounding.gated, rounding.passed) == ("kv_cache in float", True, True)
    assert done.reference.name == "kv_cache in float"


def test_a_recipes_budget_goes_over_the_defaults_one_by_one() -> None:
    assert quality_budget(Recipe("r", budgets={"kl_mean": 0.01})) == {**QUALITY, "kl_mean": 0.01}
