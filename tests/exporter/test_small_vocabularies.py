"""Tied embeddings of few rows, as of models of letters or DNA: the float table beside the integers is meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.folder import read_manifest
from tests.exporter.tiny_sources import write_config

pytestmark = pytest.mark.slow
LATENT: Mapping[str, Any] = {
    "architectures": ["MiniCPM3ForCausalLM"],
    "model_type": "minicpm3",
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}


@pytest.mark.parametrize(
    ("target", "form", "recipe"),
    [
        ("host", None, "4bit"),
        ("host", "onnx", "8bit"),
        ("iphone", None, "4bit"),
        ("iphone", "mlpackage", "lut2"),
        ("iphone", "aimodel", "8bit"),
    ],
)
def test_sixty_four_letters_are_exported(tmp_path: Path, target: str, form: str | None, recipe: str) -> None:
    if form == "aimodel":
        pytest.importorskip("coreai")
    if form == "onnx":
        pytest.importorskip("onnxruntime")
    rows = _exported(tmp_path, {"vocab_size": 64}, target, form, recipe)
    named = read_manifest(tmp_path / "small.edgec").runtime.backends
    assert (named == ["EdgecEmbedding", "EdgecLinear"]) == (target == "host" and form is None), named
    assert form == "aimodel" or {"lm_head.weight", "lm_head.weight_int"} <= rows.keys()


def test_a_converters_empty_tensor_is_no_weight(tmp_path: Path) -> None:
    rows = _exported(tmp_path, {**LATENT, "vocab_size": 256}, "iphone", None, "4bit")
    (empty,) = (row for name, row in rows.items() if "aten_new_empty" in name)
    assert "one value repeated" in empty["reason"]


def _exported(
    folder: Path, changes: Mapping[str, Any], target: str, form: str | None, recipe: str
) -> dict[str, dict[str, Any]]:
    """The ledger's rows by name."""
    config = write_config(folder / "model", changes) / "config.json"
    bundle = edgec.export(
        config, target=target, format=form, recipe=recipe, random_weights=True, out=folder / "small.edgec"
    )
    rows = json.loads((bundle / "manifest.json").read_text())["ledger"]["rows"]
    return {row["name"]: row for row in rows}
