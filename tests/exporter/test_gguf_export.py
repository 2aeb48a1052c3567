"""``edgec export --format gguf``: a bundle with a file for llama.cpp, verified as any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.bundle.folder import open_bundle, read_manifest
from edgec.bundle.gguf_header import read_gguf_header
from edgec.errors import ToolError
from edgec.exporter.sources.resolve import resolve
from tests.exporter.sources.gguf_forms import q4_k_m, write_forms


@pytest.mark.long
def test_a_folder_becomes_a_verified_file(tiny_folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(tiny_folder, format="gguf", out=tmp_path / "out.edgec")
    manifest = read_manifest(bundle)
    assert (manifest.format, manifest.artifact, manifest.recipe_name) == ("gguf", "model.gguf", "4bit")
    assert all(rung.passed for rung in manifest.parity)
    last = manifest.parity[-2]
    assert (last.stage, last.half) == ("artifact", "lowering") and "to the bit" in last.note
    assert manifest.ledger is not None and {row.dtype for row in manifest.ledger.rows} == {
        "Q4_1",
        "Q8_0",
        "Q5_1",
        "F32",
    }
    assert manifest.ledger.artifact_bytes == (bundle / "model.gguf").stat().st_size
    again = resolve(str(bundle / "model.gguf"))
    assert again.tokenizer_files and again.config["hidden_size"] == 32
    assert open_bundle(bundle).manifest.delegation is None


@pytest.mark.long
def test_what_runs_it_is_named(tiny_folder: Path, tmp_path: Path) -> None:
    bundle = edgec.export(tiny_folder, format="gguf", recipe="float", out=tmp_path / "out.edgec")
    with pytest.raises(ToolError) as caught:
        edgec.load(bundle)
    assert caught.value.code == "E824" and "llama-cli" in caught.value.fix


@pytest.mark.long
def test_two_exports_give_the_same_bytes(tiny_folder: Path, tmp_path: Path) -> None:
    files = [
        edgec.export(tiny_folder, format="gguf", recipe="8bit", seed=seed, out=tmp_path / f"{seed}.edgec")
        / "model.gguf"
        for seed in (0, 1)
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.long
def test_a_gguf_file_comes_out_as_it_went_in(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", q4_k_m, {"tie_word_embeddings": True})
    bundle = edgec.export(file, format="gguf", requantise="never", out=tmp_path / "out.edgec")
    manifest = read_manifest(bundle)
    assert manifest.recipe_name == "as-stored"
    assert {matrix.fate for matrix in manifest.checkpoint} == {"kept"}
    before = {tensor.name: tensor for tensor in read_gguf_header(file).tensors}
    after = {tensor.name: tensor for tensor in read_gguf_header(bundle / "model.gguf").tensors}
    assert {name: tensor.type for name, tensor in before.items()} == {name: each.type for name, each in after.items()}
    for name, tensor in before.items():
        one, other = (np.memmap(each.file, np.uint8, "r", each.offset, each.nbytes) for each in (tensor, after[name]))
        # A scale of a K type may be written as another product of the same value.
        assert tensor.type in ("Q4_K", "Q6_K") or np.array_equal(one, other), name
