"""Integers of a checkpoint on accelerators: each format holds some forms, and says of the others what they lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgec
from edgec.backends.qnn.block_scales import block_integers
from edgec.backends.qnn.float_weights import IntegerGrid
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.support import support_of
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.stored_forms import expected_fates
from edgec.exporter.sources.stored_parameters import stored_parameters
from edgec.ir.attributes import attribute
from edgec.ir.kernel_grids import held
from edgec.ir.quantized_form import decisions_of
from edgec.ir.stored_forms import HELD_SCHEMES, PACKED_FORMS
from tests.exporter.sources.gguf_forms import write_forms
from tests.exporter.test_packed_checkpoints import awq_of, gptq_of, graph_of, written

QNN = "snapdragon-8-elite"


@pytest.mark.parametrize(
    ("backend", "form", "group", "cut"),
    [
        ("onnx", "GPTQ int4", 128, 128),
        ("onnx", "GPTQ int4", 96, 32),
        ("onnx", "GPTQ int4", 0, 0),
        ("onnx", "GPTQ uint4", 128, None),
        ("onnx", "GPTQ int8", 128, None),
        ("onnx", "compressed-tensors int8", 0, 0),
        ("qnn", "GPTQ int4", 128, 64),
        ("qnn", "AWQ int4", 32, 32),
        ("qnn", "MXFP4 as 5-bit integers", 32, None),
        ("xnnpack", "GPTQ uint4", 128, 128),
        ("onnx", "GPTQ int4, act-order", 128, None),
        ("xnnpack", "GPTQ int4, act-order", 128, 128),
        ("coreml", "GPTQ int4", 128, None),
        ("coreml", "GPTQ int4", 0, 0),
        ("coreml", "ternary", 0, None),
        ("coreml_gpu", "GPTQ int3", 128, None),
        ("coreml_gpu", "GPTQ int8", 128, 128),
        ("coreml_gpu", "AWQ uint4", 128, 128),
        ("coreml_gpu", "MXFP4 as 5-bit integers", 32, None),
        ("coreml_gpu", "GPTQ uint4, act-order", 128, None),
        ("coreai_gpu", "GPTQ int4", 128, 128),
        ("coreai_gpu", "AWQ uint4", 128, None),
        ("coreai", "compressed-tensors int8", 0, 0),
    ],
)
def test_groups_are_kept_whole_or_cut_where_integers_lie_around_zero(
    backend: str, form: str, group: int, cut: int | None
) -> None:
    support = support_of(backend)
    assert support is not None
    scheme = held(PACKED_FORMS[form].scheme(group), support.stored)
    assert (scheme.group_size if scheme else None) == cut
    assert scheme is None or scheme.stored == form


def test_of_gguf_only_the_groups_of_four_bits_are_held() -> None:
    for backend in ("onnx", "qnn"):
        support = support_of(backend)
        assert support is not None
        assert [name for name, scheme in HELD_SCHEMES.items() if held(scheme, support.stored)] == ["Q4_0"]


@pytest.mark.long
def test_a_matrix_with_groups_of_128_has_each_scale_twice_on_snapdragon(tmp_path: Path) -> None:
    meant = written(tmp_path / "model", gptq_of(4, 128, True))
    program, fates = graph_of(tmp_path / "model", target=QNN)
    assert {(matrix.found, matrix.fate) for matrix in fates} == {("GPTQ int4", "kept")}
    kept = [decision for decision in decisions_of(program.graph) if decision.found]
    assert len(kept) == len(fates) > 0
    for decision in kept:
        assert decision.used is not None and (decision.used.group_size, decision.used.activation_bits) == (64, 0)
        codes, scale = (attribute(program.graph, name) for name in decision.buffers[:2])
        assert torch.equal(scale[:, ::2], scale[:, 1::2])
        # What the compiler is given is found again in the floats that ONNX Runtime's quantiser reads.
        again = block_integers(meant[decision.name][..., None, None], IntegerGrid(4, scale.float()))
        assert torch.equal(again, codes[:])


def test_a_table_that_an_npu_reads_in_8_bits_is_rounded_again_and_it_is_said(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q4_0")
    with pytest.raises(InputError) as caught:
        resolve_options(ExportOptions(file, target=QNN, out=tmp_path / "x.edgec", requantise="never"))
    assert caught.value.code == "E813" and "1 of 16 matrices" in caught.value.what


@pytest.mark.long
def test_onnx_holds_the_integers_of_the_file(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, numpy_helper

    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q4_0", {"num_hidden_layers": 1})
    bundle = edgec.export(file, format="onnx", context=128, out=tmp_path / "x.edgec", requantise="never")
    manifest = read_manifest(bundle)
    assert manifest.recipe_name == "as-stored" and {matrix.fate for matrix in manifest.checkpoint} == {"kept"}
    resolved = resolve_options(ExportOptions(file, format="onnx", out=tmp_path / "y.edgec"))
    stored = stored_parameters(resolved.request.source)
    assert stored is not None
    model = onnx.load(next(bundle.rglob("decode*.onnx")))
    packed = [tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.INT4]
    held_here = [numpy_helper.to_array(tensor).astype(np.int8) for tensor in packed]
    names = [matrix.name for matrix in manifest.checkpoint if "embed_tokens" not in matrix.name]
    assert len(packed) == len(names) == 8
    for name in names:
        codes = stored.integers(name).integers[:].T.numpy()
        assert any(np.array_equal(codes, each) for each in held_here), name


GPU: dict[str, Any] = {"target": "iphone-16-pro", "unit": "gpu"}
ON_GPUS = {
    **dict.fromkeys(("Q4_0", "Q4_1", "Q8_0"), "kept"),
    "IQ4_NL": "re-expressed",
    **dict.fromkeys(("Q5_0", "Q5_1", "TQ1_0", "TQ2_0", "MXFP4"), "rounded again"),
    **dict.fromkeys(("Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "IQ4_XS"), "rounded again"),
}
"""What becomes of GGUF's types on Apple's GPUs, which read 4 and 8 bits under float16 scales."""


@pytest.mark.parametrize("kind", ON_GPUS)
def test_what_becomes_of_ggufs_types_on_gpus_is_said_before_any_work(kind: str, tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: kind)
    request = resolve_options(ExportOptions(file, out=tmp_path / "x.edgec", **GPU)).request
    fates = expected_fates(request.recipe, request.source, half=True)
    assert {fate for fate, names in fates.items() if names} == {ON_GPUS[kind]}
    assert request.recipe.keep_stored == (ON_GPUS[kind] != "rounded again")


@pytest.mark.slow
def test_a_package_for_gpus_holds_every_kind_of_integers(tmp_path: Path) -> None:
    """Of 4 and 8 bits, of a codebook and with minimums, in one model, executed by the interpreter."""
    kinds = {"attn_q": "Q4_0", "attn_k": "Q8_0", "attn_v": "Q4_1", "attn_output": "IQ4_NL", "ffn_gate": "Q4_1"}
    kinds |= {"ffn_up": "Q4_0", "ffn_down": "Q4_1", "token_embd": "Q4_1", "output": "Q8_0"}
    file = write_forms(tmp_path / "tiny.gguf", lambda name: kinds[name.split(".")[-2]], {"num_hidden_layers": 1})
    loose = {"kl_mean": 5.0, "top1_agreement": 0.0}
    bundle = edgec.export(file, context=128, out=tmp_path / "x.edgec", budgets=loose, **GPU)
    manifest = read_manifest(bundle)
    fates = {matrix.found: matrix.fate for matrix in manifest.checkpoint}
    assert fates == {kind: ON_GPUS[kind] for kind in kinds.values()}
    lowering = next(rung for rung in manifest.parity if (rung.stage, rung.half) == ("artifact", "lowering"))
    assert lowering.passed and "9 matrices read from the file are the graph's to the bit" in lowering.note
    quality = [rung for rung in manifest.parity if rung.half == "quality"]
    assert all(rung.kl_mean is not None and rung.kl_mean < 1e-3 for rung in quality)


@pytest.mark.slow
@pytest.mark.parametrize("form", [awq_of(64), gptq_of(4, 64, True)], ids=["zero points", "around 0"])
def test_a_package_for_gpus_holds_integers_of_safetensors(form: Any, tmp_path: Path) -> None:
    written(tmp_path / "m", form)
    bundle = edgec.export(tmp_path / "m", context=128, out=tmp_path / "x.edgec", requantise="never", **GPU)
    manifest = read_manifest(bundle)
    assert {(matrix.fate, matrix.error) for matrix in manifest.checkpoint} == {("kept", 0.0)}
    assert all(rung.passed for rung in manifest.parity)
