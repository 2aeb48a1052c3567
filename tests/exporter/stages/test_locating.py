"""A failed rung names the pass and the layer at fault, for decoders, other modules and static methods alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgec.backends.xnnpack.static_lowering import lower_static
from edgec.errors import BudgetError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.divergence import expose_layers, first_diverging_layer, method_layers, program_layers
from edgec.exporter.parity.execution import record_layers, run_program
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.outputs import flatten_outputs, sizes_of
from edgec.exporter.parity.probe import Probe
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.decoder import decoder_measure
from edgec.exporter.stages.module import _executed_layers, module_measure
from edgec.exporter.stages.pass_orders import module_passes
from edgec.exporter.stages.rewriting import rewrite
from edgec.ir.attention import layer_of
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.call_plan import call_plan
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, clone, run_passes
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from tests.exporter import module_factories
from tests.exporter.parity.test_parity import HalvesTheScale
from tests.passes import static_methods
from tests.passes.decoders import ROWS, captured, tokens


def refusal(stopped: pytest.ExceptionInfo[BudgetError]) -> tuple[str, str]:
    assert stopped.value.code == "E201"
    return stopped.value.what, stopped.value.where


def test_a_decoders_pass_is_named_out_of_its_group() -> None:
    program = captured("llama")
    probe = Probe(tuple(tokens(24)), call_plan(24, 12, ROWS), "seeded")
    eager = Stage("eager", run_program(program, probe.tokens, probe.plan))
    measure = decoder_measure(probe, Recipe("float"), trained=True)
    with pytest.raises(BudgetError) as stopped:
        rewrite(
            lambda: replace(program, graph=clone(program.graph)),
            eager,
            [[RemoveNoops(), HalvesTheScale(), RemoveNoops()]],
            measure,
            Progress(),
        )
    what, where = refusal(stopped)
    assert "halves_the_scale" in what and where == "stage halves_the_scale, first at layer 1"


def test_a_modules_pass_is_located() -> None:
    model, inputs = module_factories.vit()
    with torch.no_grad():
        outputs = model(*inputs)
    measure = module_measure(inputs, sizes_of(outputs), Recipe("float"), trained=True)
    groups: list[list[Pass]] = [[RemoveNoops()], [FuseSdpa()], [HalvesTheScale()]]
    with pytest.raises(BudgetError) as stopped:
        rewrite(
            lambda: capture_module(model, inputs, "vit", ("image",)),
            Stage("e", flatten_outputs(outputs)),
            groups,
            measure,
            Progress(),
        )
    assert refusal(stopped)[1] == "stage halves_the_scale, first at layer 1"


@pytest.mark.slow
def test_a_modules_artifact_is_located_by_lowering_it_with_its_layers_exposed() -> None:
    model, inputs = module_factories.vit()
    program = run_passes(capture_module(model, inputs, "vit", ("image",)), module_passes(Recipe("float")))
    wanted = record_layers(program.graph, inputs)
    assert sorted(wanted) == [0, 1]
    exposed = expose_layers(program)
    same = _executed_layers(lower_static(exposed).artifact, inputs, list(wanted))
    assert first_diverging_layer(wanted, same, 1e-3) is None
    value = next(n for n in exposed.graph.graph.nodes if layer_of(n) == 1)
    with exposed.graph.graph.inserting_after(value):
        doubled = exposed.graph.graph.call_function(torch.ops.aten.mul.Tensor, (value, 2.0))
    doubled.meta = {"val": value.meta["val"]}
    value.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)
    wrong = _executed_layers(lower_static(exposed).artifact, inputs, list(wanted))
    assert first_diverging_layer(wanted, wrong, 0.1) == 1


@pytest.mark.parametrize("updates", ["in_place", pytest.param("caller", marks=pytest.mark.slow)])
def test_static_methods_are_located(updates: str) -> None:
    cached = static_methods.cached("llama")
    passes: list[Pass] = [PositionTables(static_methods.CONTEXT), StaticCache(32, updates)]
    methods = static_methods.methods(cached, passes)
    ids, plan = static_methods.tokens(), static_methods.PLAN
    wanted = program_layers(cached, ids, plan)
    # Float32 sums in another order.
    assert first_diverging_layer(wanted, method_layers(methods, ids, plan), 1e-3) is None
    assert sorted(method_layers(methods, ids, plan)) == sorted(wanted)
    decode = methods["decode"]
    graph = clone(decode.graph)
    name = next(
        str(n.target) for n in graph.graph.nodes if n.op == "get_attr" and "layers.1.self_attn.v" in str(n.target)
    )
    wrong = torch.nn.Parameter(attribute(graph, name) * 2, requires_grad=False)
    setattr(*owner_of(graph, name), wrong)
    broken = {**methods, "decode": replace(decode, graph=graph)}
    assert first_diverging_layer(wanted, method_layers(broken, ids, plan), 1e-3) == 1
