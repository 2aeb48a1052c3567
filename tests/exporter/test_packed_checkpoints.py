"""Integers of safetensors checkpoints are kept bit for bit where edgec's kernels read them, and what is not is told."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

import edgec
from edgec.backends.cpu.linear.layout import FROM_ZERO, SYMMETRIC, BlockRows, PackedMatrix, pack_matrix
from edgec.backends.cpu.linear.scale_forms import ScaleForm
from edgec.backends.cpu.linear.weights import stored_matrix
from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.checkpoint_matrices import CheckpointMatrix, fates_in_words
from edgec.bundle.folder import open_bundle, read_manifest
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.stored_forms import expected_fates
from edgec.exporter.stages.capturing import capture, hold_weights
from edgec.exporter.stages.stored_fates import judge_stored
from edgec.ir.program import Program
from edgec.ir.quantized_form import WEIGHT_FORMS, decisions_of
from edgec.ir.stored_rows import rows_of
from edgec.passes.compress.column_order import INDEX_SELECT
from edgec.passes.contract import nodes_of, run_passes
from tests.exporter.sources.gguf_models import COMMON
from tests.exporter.sources.packed.test_gptq import AWQ, GPTQ
from tests.exporter.sources.packed_writers import STORIES, PartsOf, awq_parts, gptq_parts, rounded, write_packed
from tests.exporter.sources.test_joined_matrices import EXPERTS
from tests.exporter.sources.test_packed_others import mxfp4_codes

Folder = tuple[Path, dict[str, Tensor]]


def gptq_of(bits: int, group: int, symmetric: bool, order: Any = None) -> tuple[dict[str, Any], PartsOf]:
    settings = {**GPTQ, "bits": bits, "group_size": group, "sym": symmetric, "desc_act": order is not None}

    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        columns = None if order is None else np.random.default_rng(0).permutation(np.arange(weight.shape[1]) // group)
        made = rounded(weight, bits, group, symmetric, columns)
        return gptq_parts(made), made.values

    return settings, parts


def awq_of(group: int) -> tuple[dict[str, Any], PartsOf]:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        made = rounded(weight, 4, group, False)
        return awq_parts(made), made.values

    return {**AWQ, "group_size": group}, parts


def written(folder: Path, form: tuple[Mapping[str, Any], PartsOf]) -> dict[str, Tensor]:
    return write_packed(folder, form[0], form[1])


def graph_of(folder: Path, **options: Any) -> tuple[Program, tuple[CheckpointMatrix, ...]]:
    """The graph after the recipe's compressing passes, and what became of each matrix."""
    request = resolve_options(ExportOptions(folder, out=folder.parent / "out.edgec", **options)).request
    program = capture(request.source, hold_weights(request.source), request.spec, request.limits)
    program = run_passes(program, passes_for(request.recipe))
    fates = judge_stored(program, request.form.static and request.form.half)
    expected = expected_fates(request.recipe, request.source, request.form.static and request.form.half)
    measured = Counter(matrix.fate for matrix in fates)
    assert measured == {fate: len(names) for fate, names in expected.items() if names}, "said before any work"
    return program, fates


def read_by_kernels(program: Program, meant: Mapping[str, Tensor]) -> Counter[str]:
    """The forms of scales in which kernels store the matrices, each of which must be what the checkpoint means."""
    graph, forms = program.graph, Counter[str]()
    by_integers = {d.buffers[0]: d.name for d in decisions_of(graph) if d.used and d.name in meant}
    for node in graph.graph.nodes:
        name = by_integers.get(str(node.args[0].target)) if node.target in WEIGHT_FORMS and _is_leaf(node) else None
        if name is None:
            continue
        assert torch.equal(rows_of(graph, node, slice(None)), meant[name]), name
        stored = stored_matrix(graph, node)
        assert stored is not None, name
        forms[f"{stored.form} {stored.grid.bits}"] += 1
    return forms


def _is_leaf(node: torch.fx.Node) -> bool:
    return node.args[0].op == "get_attr"  # type: ignore[union-attr]


KEPT = [
    (gptq_of(4, 128, True), "GPTQ int4", f"{ScaleForm.FLOAT16} 4"),
    (gptq_of(4, 128, False), "GPTQ uint4", f"{ScaleForm.FLOAT16_ZERO} 4"),
    (gptq_of(4, -1, True), "GPTQ int4", f"{ScaleForm.ROW} 4"),
    (gptq_of(4, -1, False), "GPTQ uint4", f"{ScaleForm.FLOAT16_ZERO} 4"),
    (gptq_of(3, 32, False), "GPTQ uint3", f"{ScaleForm.FLOAT16_ZERO} 3"),
    (gptq_of(2, 64, True), "GPTQ int2", f"{ScaleForm.FLOAT16} 2"),
    (gptq_of(8, 128, True), "GPTQ int8", f"{ScaleForm.FLOAT16} 8"),
    (awq_of(128), "AWQ uint4", f"{ScaleForm.FLOAT16_ZERO} 4"),
]


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize(("form", "found", "held"), KEPT, ids=[f"{found} {held}" for _, found, held in KEPT])
def test_every_matrix_is_kept_bit_for_bit(form: Any, found: str, held: str, tmp_path: Path) -> None:
    meant = written(tmp_path / "m", form)
    program, fates = graph_of(tmp_path / "m", requantise="never")
    assert {(matrix.found, matrix.fate, matrix.error) for matrix in fates} == {(found, "kept", 0.0)}
    assert fates_in_words(fates) == "56 of 56 matrices kept bit for bit, 100 % of their bytes"
    assert read_by_kernels(program, meant) == {held: 56}


FAMILIES: dict[str, dict[str, Any]] = {"qwen2": {}, "qwen3": {}, "qwen3_moe": EXPERTS}


def random_folder(family: str, folder: Path) -> Path:
    """Eight layers of an architecture with random weights, and the tokenizer of the tiny model."""
    sizes = {**COMMON, "vocab_size": 2064, "head_dim": 32, **FAMILIES[family], "num_hidden_layers": 8}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes)).save_pretrained(folder)
    for file in STORIES.glob("tokenizer*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_eight_layers_of_other_architectures_are_kept(family: str, tmp_path: Path) -> None:
    settings, parts = gptq_of(4, 32, False)
    meant = write_packed(tmp_path / "m", settings, parts, random_folder(family, tmp_path / "float"))
    program, fates = graph_of(tmp_path / "m", requantise="never")
    assert {(matrix.found, matrix.fate) for matrix in fates} == {("GPTQ uint4", "kept")}
    assert len(fates) == 8 * (6 if family == "qwen3_moe" else 7)
    alone = {name: value for name, value in meant.items() if ".experts." not in name}
    assert read_by_kernels(program, alone) == {f"{ScaleForm.FLOAT16_ZERO} 4": len(alone)}


def gpt_oss_folder(folder: Path) -> dict[str, Tensor]:
    """Two layers of a random gpt-oss with experts in MXFP4, and what these mean as a graph reads them: [E, N, K]."""
    sizes = {**COMMON, "vocab_size": 2064, "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt_oss", **sizes)).save_pretrained(folder)
    for file in STORIES.glob("tokenizer*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    tensors, meant = load_file(folder / "model.safetensors"), {}
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, width, rows = tensors.pop(name).shape
        packed, powers, values = mxfp4_codes(experts * rows, width)
        tensors[f"{name}_blocks"] = packed.view(experts, rows, width // 32, 16)
        tensors[f"{name}_scales"] = powers.view(experts, rows, width // 32)
        meant[name] = values
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "mxfp4"}}))
    return meant


@pytest.mark.long
def test_experts_of_gpt_oss_are_re_expressed(tmp_path: Path) -> None:
    meant = gpt_oss_folder(tmp_path / "m")
    program, fates = graph_of(tmp_path / "m", requantise="never")
    assert {(matrix.found, matrix.fate, matrix.error) for matrix in fates} == {("MXFP4", "re-expressed", 0.0)}
    assert len(fates) == len(meant) == 4
    assert read_by_kernels(program, meant) == {f"{ScaleForm.FLOAT16} 5": 4}


def packed_by_kernels(name: str, symmetric: bool) -> bytes:
    """A matrix of the tiny model in groups of 128, laid out for this machine from the writer's own numbers."""
    made = rounded(load_file(STORIES / "model.safetensors")[name].float(), 4, 128, symmetric)
    codes, scales = torch.from_numpy(made.codes), torch.from_numpy(made.scale).float()
    grid = SYMMETRIC[4] if symmetric else FROM_ZERO[4]
    form = ScaleForm.FLOAT16 if symmetric else ScaleForm.FLOAT16_ZERO
    rows, width = made.codes.shape
    shape = PackedMatrix(rows, width, 128, grid, BlockRows.of(platform.machine()), form)
    minimums = None if symmetric else -scales * torch.from_numpy(made.zero).float()
    integers = (codes - 8 if symmetric else codes).to(torch.int8)
    return pack_matrix(shape, integers, scales, minimums).numpy().tobytes()


@pytest.mark.long
def test_act_order_is_kept_and_layers_read_their_inputs_in_it(tmp_path: Path) -> None:
    written(tmp_path / "m", gptq_of(4, 64, False, order=True))
    program, fates = graph_of(tmp_path / "m", requantise="never")
    assert {(m.found, m.fate, m.error) for m in fates} == {("GPTQ uint4, act-order", "kept", 0.0)} and len(fates) == 56
    # Queries, keys and values read one order, gates and ups another.
    assert len(nodes_of(program.graph, INDEX_SELECT)) == 8 * 4


@pytest.mark.long
@pytest.mark.parametrize("options", [{"target": "snapdragon-8-elite"}, {"format": "onnx"}, {"recipe": "4bit"}])
def test_act_order_is_rounded_again_elsewhere_and_it_is_said(options: dict[str, Any], tmp_path: Path) -> None:
    written(tmp_path / "m", gptq_of(4, 64, False, order=True))
    with pytest.raises(InputError, match="56 of 56 matrices") as caught:
        resolve_options(ExportOptions(tmp_path / "m", out=tmp_path / "x.edgec", requantise="never", **options))
    assert caught.value.code == "E813" and "act-order" in caught.value.what


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"recipe": "float"}, {"recipe": "8bit"}, {"target": "iphone-16-pro"}])
def test_other_recipes_and_targets_say_what_they_do(options: dict[str, str], tmp_path: Path) -> None:
    written(tmp_path / "m", awq_of(64))
    fates = graph_of(tmp_path / "m", **options)[1]
    again = options != {"recipe": "float"}
    assert {matrix.fate for matrix in fates} == {"rounded again" if again else "re-expressed"}
    assert all((matrix.error > 0) == again for matrix in fates)


@pytest.mark.slow
def test_an_export_with_act_order_is_executed_and_takes_no_adapters(tmp_path: Path) -> None:
    written(tmp_path / "m", gptq_of(4, 64, False, order=True))
    bundle = edgec.export(tmp_path / "m", out=tmp_path / "x.edgec", requantise="never")
    manifest = read_manifest(bundle)
    assert Counter(matrix.fate for matrix in manifest.checkpoint) == {"kept": 56}
    artifact = [rung for rung in manifest.parity if rung.stage == "artifact"]
    assert artifact and all(rung.passed for rung in artifact)
    assert all(rung.kl_mean is not None and rung.kl_mean < 0.02 for rung in artifact if rung.half == "quality")
    with pytest.raises(InputError, match="act-order") as caught:
        targets_of(open_bundle(bundle))
    assert caught.value.code == "E690"


@pytest.mark.slow
@pytest.mark.parametrize(("form", "symmetric"), [(gptq_of(4, 128, True), True), (awq_of(128), False)])
def test_an_export_keeps_all_and_reads_as_the_checkpoint(form: Any, symmetric: bool, tmp_path: Path) -> None:
    written(tmp_path / "m", form)
    bundle = edgec.export(tmp_path / "m", out=tmp_path / "x.edgec", requantise="never")
    manifest = read_manifest(bundle)
    assert packed_by_kernels("model.layers.3.mlp.up_proj.weight", symmetric) in (bundle / "model.pte").read_bytes()
    assert manifest.recipe_name == "as-stored"
    assert Counter(matrix.fate for matrix in manifest.checkpoint) == {"kept": 56}
    quality = [rung for rung in manifest.parity if rung.half == "quality"]
    # Activations in 8 bits, keys in float16 and the table of words in 8 bits are all that is rounded.
    assert quality and all(rung.kl_mean is not None and rung.kl_mean < 0.02 for rung in quality)


@pytest.mark.slow
def test_an_export_of_gpt_oss_executes_its_experts(tmp_path: Path) -> None:
    gpt_oss_folder(tmp_path / "m")
    budgets = {"kl_mean": 100.0, "top1_agreement": 0.0}  # random weights
    bundle = edgec.export(tmp_path / "m", out=tmp_path / "x.edgec", requantise="never", budgets=budgets)
    manifest = read_manifest(bundle)
    assert {matrix.fate for matrix in manifest.checkpoint} == {"re-expressed"} and len(manifest.checkpoint) == 4
    executed = [rung for rung in manifest.parity if rung.stage == "artifact" and rung.half == "lowering"]
    assert executed and all(rung.passed and "to the bit" in rung.note for rung in executed)
