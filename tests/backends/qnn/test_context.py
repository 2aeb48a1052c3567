"""What is done to a method before Qualcomm's compiler sees it, and what its emulation makes of the result."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch

import edgec
from edgec.backends.onnx.translate import TABLES, translated
from edgec.backends.onnx.weight_file import write_models
from edgec.backends.onnx.work import work_of
from edgec.backends.qnn.calibrate import FloatRun, calibrated
from edgec.backends.qnn.context import _divided
from edgec.backends.qnn.float_weights import FloatWeights, grids
from edgec.backends.qnn.host_part import split_host
from edgec.backends.qnn.hosted_work import HostedWork
from edgec.backends.qnn.legality import check_chip
from edgec.backends.qnn.narrow_mask import NarrowMask
from edgec.bundle.folder import open_bundle
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.ir.program import Program
from edgec.ir.static_methods import named_results, run_static
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.parts.cut_model import cut_model, stored_sizes
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.static_cache import StaticCache
from edgec.runtime_py.verify.verify import verify
from tests.backends.machine_paths import machine_paths
from tests.passes.static_methods import CONTEXT, PLAN, applied, cached, methods, run, tokens

FORM = (PositionTables(CONTEXT), StaticCache(1, "caller"), FiniteMask())
# Random weights are hard to round. What is judged is what the compiler makes of the numbers, with budgets of its own.
RANDOM = {"kl_mean": 1.0, "top1_agreement": 0.5}
CHANNEL = WeightScheme(bits=4, group_size=0, activation_bits=0)
GROUPS = WeightScheme(bits=4, group_size=32, activation_bits=0)


@lru_cache(maxsize=2)
def programs(family: str, scheme: WeightScheme | None = None) -> dict[str, Program]:
    rounded = applied(cached(family), [Quantize((), scheme, scheme)] if scheme else [])
    return methods(rounded, FORM)


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_both_halves_say_together_what_the_method_says(family: str) -> None:
    halves = {name: [split_host(program)] for name, program in programs(family).items()}
    assert torch.equal(run_static(FloatRun(halves), tokens(), PLAN), run(programs(family)))
    host, npu = halves["prefill"][0]
    assert {tensor.name for tensor in host.interface.inputs} == {"tokens", "start", "last"}
    assert not {"tokens", "start"} & {tensor.name for tensor in npu.interface.inputs}


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", pytest.param("gemma3_text", marks=pytest.mark.slow)])
def test_parts_below_a_limit_say_together_what_the_method_says(family: str) -> None:
    """Rows for the caller's states are outputs of every part; they do not speak against a cut."""
    halves = {}
    for name, program in programs(family).items():
        sizes = stored_sizes(program)
        halves[name] = [split_host(part) for part in cut_model(program, sizes, sum(sizes.values()) * 6 // 10)]
    assert len(halves["prefill"]) == len(halves["decode"]) >= 2
    assert torch.equal(run_static(FloatRun(halves), tokens(), PLAN), run(programs(family)))


def test_a_narrow_mask_hides_as_well() -> None:
    wide = programs("llama")
    narrow = {name: run_pass(program, NarrowMask()) for name, program in wide.items()}
    wanted = run(wide)
    # e^-100 of a weight, in sums of 64: nothing in float32.
    assert float((run(narrow) - wanted).abs().max()) <= 1e-6 * float(wanted.abs().max())


@pytest.mark.long
def test_integers_become_floats_that_their_grid_gives_back() -> None:
    _, npu = split_host(programs("llama", CHANNEL)["decode"])
    converted = run_pass(npu, LinearToConv2d())
    floats, held = run_pass(converted, FloatWeights()), grids(converted)
    assert held and all(grid.bits == 4 for grid in held.values())
    for name, grid in held.items():
        steps = floats.graph.get_parameter(name) if name in dict(floats.graph.named_parameters()) else None
        value = steps if steps is not None else dict(floats.graph.named_buffers())[name]
        integers = value / grid.scale.reshape(-1, *[1] * (value.dim() - 1))
        assert float((integers - integers.round()).abs().max()) < 1e-3
        assert float(integers.abs().max()) <= 8.001


@pytest.mark.long
def test_groups_within_a_row_are_refused() -> None:
    with pytest.raises(InputError) as error:
        run_pass(programs("llama", GROUPS)["decode"], FloatWeights())
    assert error.value.code == "E591"


def test_calibration_sees_chunks_single_tokens_and_every_state() -> None:
    halves = {name: [split_host(program)] for name, program in programs("llama").items()}
    run = calibrated(halves, tokens())
    assert set(run.calls) == {"prefill_0", "decode_0"} and len(run.calls["decode_0"]) == 12
    assert set(run.ranges) == {state.buffer for state in programs("llama")["decode"].interface.states}
    assert all(low < 0 < high for low, high in run.ranges.values())
    feed = [*run.feeds("decode_0")][-1]
    assert named_results(halves["decode"][0][1], feed)["logits"].isfinite().all()


def test_a_call_can_be_repeated_though_states_are_held_once() -> None:
    """The plan has a padded chunk, whose padding later calls overwrite."""
    halves = {name: [split_host(program)] for name, program in programs("llama").items()}
    run = FloatRun(halves)
    wanted = run_static(run, tokens(), PLAN)
    again = [named_results(halves["decode"][0][1], feed)["logits"].reshape(-1) for feed in run.feeds("decode_0")]
    # Hidden slots hold zeros here and padding there: the same numbers in sums of another alignment.
    assert float((torch.stack(again) - wanted[-len(again) :]).abs().max()) <= 1e-6 * float(wanted.abs().max())


@pytest.mark.parametrize(
    ("name", "soc", "generation"),
    [
        ("snapdragon-8-gen-2", 43, "V73"),
        ("snapdragon-8-gen-3", 57, "V75"),
        ("snapdragon-8-elite", 69, "V79"),
        ("snapdragon-8-elite-gen-5", 87, "V81"),
    ],
)
def test_chips_are_data(name: str, soc: int, generation: str) -> None:
    target = load_target(name)
    assert (target.soc_model, target.hexagon, target.format) == (soc, generation, "qnn")
    check_chip(target, for_backend(load_recipe("4bit"), "qnn"))


def test_old_and_unknown_chips_and_float_recipes_are_refused_early() -> None:
    target, recipe = load_target("snapdragon-8-elite"), load_recipe("8bit")
    for changed, word in (
        (replace(target, hexagon="V69"), "weights shared"),
        (replace(target, soc_model=None), "does not know which Hexagon"),
    ):
        with pytest.raises(InputError) as error:
            check_chip(changed, recipe)
        assert error.value.code == "E594" and word in error.value.why
    with pytest.raises(InputError) as error:
        check_chip(target, load_recipe("float"))
    assert error.value.code == "E595"


@pytest.mark.slow
def test_what_the_cpu_computes_is_listed_with_its_share() -> None:
    pytest.importorskip("onnxscript")
    host, npu = _divided(programs("llama", CHANNEL)["decode"])
    translations = [translated(host, "decode", TABLES), translated(run_pass(npu, FloatWeights()), "decode", TABLES)]
    hosted, inside = map(work_of, translations)
    work = HostedWork({"prefill": [hosted], "decode": [hosted]}, {"prefill": [inside], "decode": [inside]})
    delegation = work.delegation(2)
    nodes = Counter(node.op_type for node in translations[0].graph)
    assert {f.operator: f.count for f in delegation.fallbacks} == {name: 2 * count for name, count in nodes.items()}
    assert {"Gather", "Sub", "GreaterOrEqual"} <= nodes.keys() and all(f.reason for f in delegation.fallbacks)
    assert delegation.delegated_share + sum(f.share for f in delegation.fallbacks) == pytest.approx(1.0)
    assert 0.9 < delegation.delegated_share < 1.0
    layers = npu.spec.layers if npu.spec else ()
    heads, width, context = layers[0].heads, layers[0].head_dim, CONTEXT
    # Scores and their sums over the cache and over the token itself, for every query head.
    assert inside.operations["MatMul"] == len(layers) * 2 * heads * width * (context + 1)


@pytest.mark.long
def test_the_hosts_model_says_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    host, _ = _divided(programs("llama", CHANNEL)["decode"])
    write_models({"host_decode": translated(host, "decode", TABLES)}, tmp_path / "part_0")
    assert machine_paths(tmp_path / "part_0") == {}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["8bit", "4bit"])
def test_a_context_is_compiled_and_says_in_the_emulation_what_fixed_point_says(
    recipe: str, tiny_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime_qnn")
    out = edgec.export(
        tiny_folder,
        target="snapdragon-8-elite",
        recipe=recipe,
        context=128,
        budgets=RANDOM,
        out=tmp_path / "tiny.edgec",
    )
    manifest = open_bundle(out).manifest
    stages = [rung.stage for rung in manifest.parity]
    assert stages[-3:] == ["fixed point", "artifact", "artifact"]
    assert "simulated" in manifest.parity[-2].note and manifest.parity[-2].passed
    assert {state.dtype for state in manifest.states} == {"uint8"}
    assert manifest.delegation is not None and manifest.delegation.delegated_share < 1.0
    assert {"Gather", "Cast"} <= {fallback.operator for fallback in manifest.delegation.fallbacks}
    assert sum(file.path.endswith(".bin") and "qnn" in file.path for file in manifest.files) >= 1
    assert machine_paths(out / manifest.artifact) == {}
    # A context of shared weights cannot be loaded into the emulation: nothing failed, and the report says why.
    report = verify(out)
    assert report.passed and any(check.status == "unavailable" for check in report.checks)
