"""Integers that a GGUF file stores are kept bit for bit where edgec's kernels read them, and what is not is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import gguf
import pytest
import torch

import edgec
from edgec.backends.cpu.linear.weights import stored_matrix
from edgec.bundle.checkpoint_matrices import CheckpointMatrix, fate_shares, fates_in_words
from edgec.bundle.folder import read_manifest
from edgec.bundle.gguf_header import read_gguf_header
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Event, Progress
from edgec.exporter.recipes.file import parse_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.text import recipe_text
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.stored_forms import expected_fates
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.stages.capturing import capture, hold_weights
from edgec.exporter.stages.stored_fates import judge_stored, relative_error
from edgec.ir.attributes import attribute
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.program import Program
from edgec.ir.quantized_form import WEIGHT_FORMS, decisions_of
from edgec.ir.stored_forms import EXPRESSED_SCHEMES, FORM_BITS, HELD_SCHEMES, KEPT_SCHEMES
from edgec.ir.weight_scheme import stored_bytes
from edgec.passes.contract import run_passes
from tests.exporter.sources.gguf_forms import KindOf, q4_k_m, write_forms
from tests.exporter.sources.test_gguf_models import random_blocks

KEPT = sorted(KEPT_SCHEMES)
EXPRESSED = sorted(EXPRESSED_SCHEMES)
UNHELD = sorted(FORM_BITS.keys() - HELD_SCHEMES.keys())


def _resolved(file: Path, **options: object) -> tuple[Recipe, ModelSource, bool]:
    resolved = resolve_options(ExportOptions(file, out=file.parent / "out.edgec", **options))  # type: ignore[arg-type]
    return resolved.request.recipe, resolved.request.source, resolved.request.form.half


def _rounded(file: Path, **options: object) -> tuple[Program, ModelSource, tuple[CheckpointMatrix, ...]]:
    """The graph after the recipe's compressing passes, and what became of each matrix."""
    resolved = resolve_options(ExportOptions(file, out=file.parent / "out.edgec", **options))  # type: ignore[arg-type]
    request = resolved.request
    program = capture(request.source, hold_weights(request.source), request.spec, request.limits)
    program = run_passes(program, passes_for(request.recipe))
    return program, request.source, judge_stored(program, request.form.static and request.form.half)


def _values(program: Program) -> dict[str, torch.Tensor]:
    """What each matrix of integers in a graph stands for, by its parameter's name."""
    graph, made = program.graph, {}
    by_integers = {d.buffers[0]: d.name for d in decisions_of(graph) if d.used}
    for node in graph.graph.nodes:
        if node.target in WEIGHT_FORMS and str(node.args[0].target) in by_integers:
            integers, scale, beside = (attribute(graph, str(node.args[place].target)) for place in (0, 2, 3))
            assert integers.dtype == torch.int8
            groups = integers.float().unflatten(1, (scale.shape[1], -1))
            lifted = beside if node.target is DEQUANTIZE_MINIMUM else torch.zeros_like(scale)
            made[by_integers[str(node.args[0].target)]] = (groups * scale[..., None] + lifted[..., None]).flatten(1)
    return made


def _same(program: Program, source: ModelSource) -> int:
    """How many matrices of the graph are, to the bit, what the gguf package makes of the file."""
    assert source.weights is not None
    values = _values(program)
    for name, value in values.items():
        tied = name if name in source.weights.names() else "model.embed_tokens.weight"
        wanted = source.weights.tensor(tied)
        assert torch.equal(value, wanted.reshape(value.shape)), name
    return len(values)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", KEPT)
def test_every_matrix_is_kept_bit_for_bit(kind: str, tmp_path: Path) -> None:
    program, source, fates = _rounded(write_forms(tmp_path / "tiny.gguf", lambda name: kind))
    assert _same(program, source) == 2 * 7 + 2 == len(fates)
    assert {(matrix.found, matrix.fate, matrix.error) for matrix in fates} == {(kind, "kept", 0.0)}
    assert fates_in_words(fates) == "16 of 16 matrices kept bit for bit, 100 % of their bytes"
    told = [decision.to_json() for decision in decisions_of(program.graph)]
    assert {(each["found"], each["fate"], each["error"]) for each in told} == {(kind, "kept", 0.0)}
    nodes = [node for node in program.graph.graph.nodes if node.target in WEIGHT_FORMS and not _is_input(node)]
    assert len(nodes) == 16 and all(stored_matrix(program.graph, node) for node in nodes)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", EXPRESSED)
def test_codebooks_and_narrow_forms_have_the_very_values_in_wider_integers(kind: str, tmp_path: Path) -> None:
    program, source, fates = _rounded(write_forms(tmp_path / "tiny.gguf", lambda name: kind), requantise="never")
    assert _same(program, source) == 16 == len(fates)
    used = f"{EXPRESSED_SCHEMES[kind].stored} as stored"
    assert {(m.found, m.used, m.fate, m.error) for m in fates} == {(kind, used, "re-expressed", 0.0)}
    assert fates_in_words(fates) == "16 of 16 matrices re-expressed without loss, 100 % of their bytes"
    nodes = [node for node in program.graph.graph.nodes if node.target in WEIGHT_FORMS and not _is_input(node)]
    assert len(nodes) == 16 and all(stored_matrix(program.graph, node) for node in nodes)


@pytest.mark.long
def test_powers_of_two_that_float16_lacks_are_rounded_again_and_it_is_said(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "MXFP4")
    (tensor,) = (each for each in read_gguf_header(file).tensors if each.name == "blk.1.ffn_up.weight")
    raw = bytearray(file.read_bytes())
    raw[tensor.offset : tensor.offset + 2] = bytes((90, 0x12))
    file.write_bytes(bytes(raw))
    again = [matrix for matrix in _rounded(file)[2] if matrix.fate == "rounded again"]
    assert [(matrix.name, matrix.found) for matrix in again] == [("model.layers.1.mlp.up_proj.weight", "MXFP4")]
    assert "a power of two that float16 does not hold" in again[0].reason


def _is_input(node: torch.fx.Node) -> bool:
    return node.args[0].op != "get_attr"  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KEPT)
def test_decisions_count_the_bytes_of_the_file(kind: str) -> None:
    values = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]
    assert stored_bytes((6, 512), KEPT_SCHEMES[kind]) == random_blocks(kind, 6, 512 // values).size
    assert stored_bytes((6, 512), KEPT_SCHEMES[kind]) == 6 * 512 * FORM_BITS[kind] / 8


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", UNHELD)
def test_forms_that_no_kernel_reads_are_rounded_again_and_it_is_measured(kind: str, tmp_path: Path) -> None:
    program, source, fates = _rounded(write_forms(tmp_path / "tiny.gguf", lambda name: kind))
    values = _values(program)
    assert source.weights is not None
    for matrix in fates:
        wanted = source.weights.tensor(matrix.name)
        apart = float((values[matrix.name] - wanted).norm() / wanted.norm())
        assert matrix.fate == "rounded again" and kind in matrix.reason, matrix
        # Sums in float64 there and in float32 here.
        assert 0 < matrix.error == pytest.approx(apart, rel=1e-4)
        assert matrix.error < 0.25
    bits = {d.name: d.used.bits for d in decisions_of(program.graph) if d.used and d.role != "embedding"}
    assert set(bits.values()) == {4, 5, 6, 8}, "nothing is kept: the default recipe, with its rules and its lm_head"


@pytest.mark.long
def test_a_mixed_file_with_a_tied_head_is_kept_and_its_table_stored_once(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", q4_k_m, {"tie_word_embeddings": True})
    program, source, fates = _rounded(file)
    assert Counter(matrix.found for matrix in fates) == {"Q4_K": 10, "Q6_K": 5}
    assert all(matrix.fate == "kept" for matrix in fates) and _same(program, source) == 15
    table, head = (
        next(d for d in decisions_of(program.graph) if d.role == role) for role in ("embedding", "vocabulary")
    )
    assert table.buffers == head.buffers and table.name == head.name


@pytest.mark.long
def test_queries_and_keys_are_in_the_order_of_the_model(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q4_1")
    program, source, _ = _rounded(file)
    other = _rounded(write_forms(tmp_path / "other.gguf", lambda name: "Q4_1", family="qwen3"))[0]
    name = "model.layers.0.self_attn.q_proj.weight"
    one, same = _values(program)[name], _values(other)[name]
    assert not torch.equal(one, same) and torch.equal(one.sum(1).sort().values, same.sum(1).sort().values)
    assert _same(program, source)


@pytest.mark.long
def test_gates_and_ups_of_experts_are_kept_joined(tmp_path: Path) -> None:
    changes = {"moe_intermediate_size": 256}
    file = write_forms(tmp_path / "tiny.gguf", _without_routers("Q4_K"), changes, family="qwen3moe")
    program, source, fates = _rounded(file)
    assert all(matrix.fate == "kept" for matrix in fates) and _same(program, source) == len(fates)
    assert sum(matrix.name.endswith("experts.gate_up_proj") for matrix in fates) == 2


def _without_routers(kind: str) -> KindOf:
    return lambda name: "F32" if "ffn_gate_inp" in name else kind


@pytest.mark.long
def test_floats_are_rounded_by_the_default_recipe_and_told_apart(tmp_path: Path) -> None:
    file = write_forms(
        tmp_path / "tiny.gguf", lambda name: "F32" if "ffn" in name else "IQ4_XS" if "attn_v" in name else "Q5_K"
    )
    program, _, fates = _rounded(file)
    assert Counter(matrix.fate for matrix in fates) == {"kept": 8, "rounded again": 2}
    floats = [d for d in decisions_of(program.graph) if not d.found]
    assert len(floats) == 6 and all(d.used and d.used.bits == 4 and not d.fate and not d.reason for d in floats)
    assert "8 of 10 matrices kept bit for bit, " in fates_in_words(fates)
    again = next(share for share in fate_shares(fates) if share.fate == "rounded again")
    assert f"; 2 rounded again, {100 * again.share:.0f} % of their bytes (error up to " in fates_in_words(fates)
    assert again.bytes == sum(m.bytes for m in fates if m.fate == "rounded again") and 0 < again.share < 0.5


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, 16),
        ({"recipe": "4bit"}, 0),
        ({"kernels": "standard"}, 0),
        ({"target": "iphone-16-pro"}, 0),
        ({"target": "android-cpu"}, 16),
    ],
)
def test_the_recipe_is_as_stored_only_where_it_can_be(options: dict[str, str], kept: int, tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q8_0")
    recipe, source, half = _resolved(file, **options)
    assert (recipe.name == "as-stored") == recipe.keep_stored == bool(kept)
    fates = expected_fates(recipe, source, half)
    assert {fate: len(names) for fate, names in fates.items()} == {
        "kept": kept,
        "re-expressed": 0,
        "rounded again": 16 - kept,
    }


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["Q4_K", "Q2_K", "F32"])
def test_what_is_expected_is_what_is_measured(kind: str, tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: kind)
    for options in ({}, {"recipe": "float"}, {"recipe": "8bit"}):
        recipe, source, _ = _resolved(file, **options)
        measured: dict[str, set[str]] = {}
        for matrix in _rounded(file, **options)[2]:
            measured.setdefault(matrix.fate, set()).add(matrix.name)
        expected = {fate: set(names) for fate, names in expected_fates(recipe, source, False).items() if names}
        assert measured == expected


@pytest.mark.long
def test_a_float_recipe_has_the_same_values(tmp_path: Path) -> None:
    _, _, fates = _rounded(write_forms(tmp_path / "tiny.gguf", lambda name: "Q3_K"), recipe="float", requantise="never")
    assert {(matrix.fate, matrix.used) for matrix in fates} == {("re-expressed", "float32")}


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("Q4_0", {"recipe": "8bit"}, "bits of its own"),
        ("IQ4_XS", {}, "no kernel reads these forms"),
        ("Q8_0", {"kernels": "standard"}, "of this target read none"),
        ("Q8_0", {"target": "iphone-16-pro", "recipe": "float"}, "of this target read none"),
    ],
)
def test_never_refuses_before_any_work(kind: str, options: dict[str, str], why: str, tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: kind)
    with pytest.raises(InputError) as caught:
        _resolved(file, requantise="never", **options)
    assert caught.value.code == "E813" and why in caught.value.why
    assert "16 of 16 matrices" in caught.value.what and kind in caught.value.what


def test_another_recipe_says_what_it_does_before_any_work(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q4_0")
    told: list[Event] = []
    for recipe in (None, "8bit"):
        options = ExportOptions(file, recipe=recipe, out=tmp_path / "x.edgec")
        progress = Progress(told.append)
        progress.enter("resolve")
        resolve_options(options, progress)
    notes = [event.detail for event in told if event.noted]
    assert notes == [
        "16 of 16 matrices that the checkpoint stores as integers (Q4_0) are rounded again by the recipe 8bit"
    ]


def test_an_unknown_answer_is_refused() -> None:
    with pytest.raises(InputError, match="rounded again") as caught:
        ExportOptions("model", requantise="always").check()
    assert caught.value.code == "E115"


def test_a_recipe_that_keeps_is_read_and_written() -> None:
    recipe = parse_recipe({"keep_stored": True, "weights": {"bits": 4, "group_size": 32}}, "mine", "mine.toml")
    assert recipe.keep_stored and "keep_stored = true" in recipe_text(recipe)
    assert "keep_stored" not in recipe_text(replace(recipe, keep_stored=False))


@pytest.mark.long
def test_rules_win_over_what_is_stored(tmp_path: Path) -> None:
    toml = tmp_path / "mine.toml"
    toml.write_text(
        "keep_stored = true\n[weights]\nbits = 4\ngroup_size = 32\nscale_bits = 16\n[embedding]\nbits = 8\n"
        'group_size = 0\n[[rules]]\nparameters = "*.q_proj.weight"\nbits = 8\ngroup_size = 0\n'
    )
    _, _, fates = _rounded(write_forms(tmp_path / "tiny.gguf", lambda name: "Q5_0"), recipe=toml)
    again = {matrix.name for matrix in fates if matrix.fate == "rounded again"}
    assert again == {f"model.layers.{layer}.self_attn.q_proj.weight" for layer in range(2)}


def test_errors_are_relative_to_the_norm() -> None:
    wanted = torch.tensor([[3.0, 4.0]])
    assert relative_error(wanted + torch.tensor([[0.0, 0.5]]), wanted) == pytest.approx(0.1)
    assert relative_error(wanted, wanted) == 0.0
    assert relative_error(torch.ones(1, 2), torch.zeros(1, 2)) == 1.0


@pytest.mark.long
def test_a_file_of_all_held_forms_is_exported_executed_and_reported(tmp_path: Path) -> None:
    kinds = cycle(sorted(HELD_SCHEMES))
    file = write_forms(tmp_path / "tiny.gguf", lambda name: next(kinds))
    bundle = edgec.export(file, out=tmp_path / "x.edgec", requantise="never")
    manifest = read_manifest(bundle)
    assert manifest.recipe_name == "as-stored" and len(manifest.checkpoint) == 16
    assert {matrix.found for matrix in manifest.checkpoint} == HELD_SCHEMES.keys()
    fates = {matrix.found: matrix.fate for matrix in manifest.checkpoint}
    assert fates == dict.fromkeys(KEPT, "kept") | dict.fromkeys(EXPRESSED, "re-expressed")
    ledger = manifest.ledger
    assert ledger is not None and [share.fate for share in ledger.fates] == ["kept", "re-expressed"]
    assert sum(share.share for share in ledger.fates) == pytest.approx(1.0)
    held = {row.name.removesuffix("_embedding_int").removesuffix("_int"): row for row in ledger.rows if row.fate}
    assert {(name, row.found, row.fate) for name, row in held.items()} == {
        (matrix.name, matrix.found, matrix.fate) for matrix in manifest.checkpoint
    }
    for share in ledger.fates:
        assert share.bytes == sum(m.bytes for m in manifest.checkpoint if m.fate == share.fate)
        rows = [row.bytes for row in ledger.rows if row.fate == share.fate]
        # Rows of matrices are filled up to whole blocks; what is re-expressed here takes up to twice its bytes.
        assert share.artifact_bytes == sum(rows) and 1.0 <= share.artifact_bytes / share.bytes < 2.0
    told = (bundle / "report.html").read_text()
    assert " of 16 matrices kept bit for bit" in told and " re-expressed without loss, " in told
    quality = [rung for rung in manifest.parity if rung.half == "quality"]
    # Activations in 8 bits, 32 values at a time, and keys in float16, are all that is rounded.
    assert quality and all(rung.kl_mean is not None and rung.kl_mean < 0.02 for rung in quality)
