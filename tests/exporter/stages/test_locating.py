"""A failed rung names the pass and the layer at fault, for decoders, other modules and static methods alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch.fx import GraphModule

import edgec
from edgec.backends.cpu.lower import lower_methods
from edgec.backends.cpu.static_lowering import lower_static
from edgec.bundle.entry_points import Limits
from edgec.errors import BudgetError
from edgec.exporter.capture.encoder_decoder import CapturedEncoderDecoder
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.divergence import call_layers, first_diverging_layer, method_layers, program_layers
from edgec.exporter.parity.encoder_decoder import EncoderDecoderReference, ProbedEncoderDecoder, SourceProbe
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.exporter.progress import LOCATING, Progress
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.decoder import decoder_measure
from edgec.exporter.stages.locating import first_layer_lowered_otherwise, locate_in_artifact
from edgec.exporter.stages.module_measure import module_measure
from edgec.exporter.stages.module_orders import module_passes
from edgec.exporter.stages.pass_orders import encoder_decoder_passes
from edgec.exporter.stages.rewriting import rewrite
from edgec.ir.attention import OPERATOR, layer_of
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, clone, nodes_of, run_passes
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from tests.encoder_decoders import captured_encoder_decoder, example_source, save_encoder_decoder
from tests.exporter import module_factories
from tests.exporter.parity.test_parity import HalvesTheScale
from tests.passes import static_methods
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens
from tests.vision_language import save_vision_language


def refusal(stopped: pytest.ExceptionInfo[BudgetError]) -> tuple[str, str]:
    assert stopped.value.code == "E201"
    return stopped.value.what, stopped.value.where


def test_a_decoders_pass_is_named_out_of_its_group() -> None:
    program = captured("llama")
    probe = Probe(tuple(tokens(24)), call_plan(24, 12, ROWS), "seeded")
    eager = Stage("eager", run_program(program, probe.tokens, probe.plan))
    measure = decoder_measure(probe, Recipe("float"), trained=True)
    told: list[str] = []
    with pytest.raises(BudgetError) as stopped:
        rewrite(
            lambda: replace(program, graph=clone(program.graph)),
            eager,
            [[RemoveNoops(), HalvesTheScale(), RemoveNoops()]],
            measure,
            Progress(lambda event: told.append(event.detail)),
        )
    assert told[-1] == LOCATING
    what, where = refusal(stopped)
    assert "halves_the_scale" in what and where == "stage halves_the_scale, first at layer 1"


@pytest.mark.long
def test_a_modules_pass_is_located() -> None:
    model, inputs = module_factories.vit()
    with torch.no_grad():
        outputs = model(*inputs)
    measure = module_measure([inputs], forms_of(outputs), Recipe("float"), trained=True)
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
    calls = [ProbeCall(inputs)]
    assert sorted(call_layers(program, calls)) == [0, 1]

    def lower_wrongly(exposed: Program) -> bytes:
        return lower_static(doubled(exposed, 1)).artifact

    assert locate_in_artifact(program, calls, lambda exposed: lower_static(exposed).artifact) is None
    assert locate_in_artifact(program, calls, lower_wrongly) == 1


def doubled(program: Program, layer: int) -> Program:
    """The program with twice the output of a layer's last attention."""
    graph = clone(program.graph)
    value = [node for node in graph.graph.nodes if layer_of(node) == layer][-1]
    with graph.graph.inserting_after(value):
        twice = graph.graph.call_function(torch.ops.aten.mul.Tensor, (value, 2.0))
    twice.meta = {"val": value.meta["val"]}
    value.replace_all_uses_with(twice, delete_user_cb=lambda user: user is not twice)
    return replace(program, graph=graph)


@dataclass(frozen=True)
class HalvesTheScaleOf:
    """A pass broken by hand: it claims to be exact and halves the scale of a layer's first attention."""

    layer: int
    name: str = "halves_the_scale_of"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None: ...

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        node = next(node for node in nodes_of(graph, OPERATOR) if layer_of(node) == self.layer)
        node.update_arg(6, float(node.args[6]) / 2)  # type: ignore[arg-type]
        return program.interface

    def ensures(self, program: Program) -> None: ...


SAVE = {"encoder_decoder": lambda folder: save_encoder_decoder("t5", folder)}
SAVE["vision_language"] = lambda folder: save_vision_language("idefics3", folder)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "method", "layer"),
    [
        ("encoder_decoder", "encode", 1),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [
                ("encoder_decoder", "forward", 0),
                ("encoder_decoder", "forward", 2),
                ("vision_language", "vision_encoder", 1),
                ("vision_language", "forward", 1),
            ]
        ),
    ],
)
def test_the_method_the_pass_and_the_layer_are_named(
    kind: str, method: str, layer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = f"edgec.exporter.stages.{kind}", f"{kind}_passes"
    usual = getattr(import_module(module), name)

    def broken(recipe: Recipe, limits: Limits) -> dict[str, list[Pass]]:
        passes = usual(recipe, limits)
        first, *others = passes[method]
        return {**passes, method: [first, HalvesTheScaleOf(layer), *others]}

    monkeypatch.setattr(f"{module}.{name}", broken)
    # The same model may have been exported by another test, whose stages the broken pass would not touch.
    monkeypatch.setattr("edgec.exporter.stage_cache.StageCache.get", lambda cache, key: None)
    with pytest.raises(BudgetError) as stopped:
        edgec.export(SAVE[kind](tmp_path / "model"), recipe="float", out=tmp_path / "x.edgec", context=64)
    assert refusal(stopped)[1] == f"stage {method}: halves_the_scale_of, first at layer {layer}"


def probed_t5(programs: CapturedEncoderDecoder) -> ProbedEncoderDecoder:
    """A tiny T5 on two sources, with what its captured programs compute in transformers' place."""
    sources = tuple(example_source("t5", length) for length in (11, 5))
    probe = Probe(tuple(tokens(24)), call_plan(24, 12, ROWS), "seeded")
    with torch.no_grad():
        states = tuple(programs.encode.graph(each) for each in sources)
        memory = tuple(programs.cross.graph(states[0]))
    reference = EncoderDecoderReference(states, memory, torch.empty(0))
    return ProbedEncoderDecoder(SourceProbe("input_ids", sources), probe, reference)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "layer"), [("encode", 1), ("cross", 2), ("forward", 1)])
def test_one_of_several_lowered_methods_is_located(method: str, layer: int) -> None:
    captured_t5, limits = captured_encoder_decoder("t5"), Limits(context=CONTEXT, prefill_chunk=12, logit_rows=ROWS)
    passes = encoder_decoder_passes(Recipe("float"), limits)
    programs = {name: run_passes(getattr(captured_t5, name), passes[name]) for name in passes}
    probed = probed_t5(captured_t5).methods()[method]
    damage = doubled_keys if method == "cross" else doubled

    def lower(exposed: Program) -> bytes:
        return lower_methods({**programs, method: exposed}).artifact

    wanted = probed.layers(programs[method])
    locate = partial(first_layer_lowered_otherwise, programs[method], wanted, probed.executed_layers)
    assert len(wanted) == (2 if method == "encode" else 3) and locate(lower) is None
    assert locate(lambda exposed: lower(damage(exposed, layer))) == layer


def doubled_keys(program: Program, layer: int) -> Program:
    """The method ``cross`` with twice the keys of a layer."""
    graph = clone(program.graph)
    name = next(n for n, _ in graph.named_parameters() if f"block.{layer}." in n and "EncDecAttention.k" in n)
    setattr(*owner_of(graph, name), torch.nn.Parameter(attribute(graph, name) * 2, requires_grad=False))
    return replace(program, graph=graph)


@pytest.mark.long
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
