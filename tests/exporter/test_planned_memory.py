"""The memory that artifacts plan for an encoder's tensors beside its forecast, at the widths of published models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.exporter.dimensions.shapes import model_shape
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.open_artifact import artifact_digest
from edgec.runtime_py.engines.packed_cache import packed_file

pytestmark = pytest.mark.slow
RECIPES = ("float", "8bit", "4bit")
# The widths and lengths of MiniLM-L6, ViT-B/16 and Whisper base, with two layers and few words.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "minilm": {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 384, "intermediate_size": 1536,
        "num_attention_heads": 12, "num_hidden_layers": 2, "max_position_embeddings": 512, "vocab_size": 512,
    },
    "vit-b": {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768,
        "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 2, "image_size": 224,
        "patch_size": 16,
    },
    "whisper-base": {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True,
        "d_model": 512, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "num_mel_bins": 80,
        "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 512, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    },
}  # fmt: skip
PARTS = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
POOLING = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}


def folder_of(name: str, folder: Path) -> Path:
    """A folder with the config, for the sentence encoder with its parts."""
    files: dict[str, Any] = {"config.json": CONFIGS[name]}
    files |= {"modules.json": PARTS, "1_Pooling/config.json": POOLING} if name == "minilm" else {}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    return folder


def planned_by_method(bundle_path: Path) -> dict[str, int]:
    """Bytes of activations that the artifact plans, by method; outputs are among them."""
    bundle = open_bundle(bundle_path)
    methods = [method.name for method in bundle.manifest.methods]
    packed = packed_file(artifact_digest(bundle))
    return {name: EngineModel(bundle.artifact_path, name, packed).info.scratch_bytes for name in methods}


@pytest.fixture(scope="module", params=[(name, recipe) for name in CONFIGS for recipe in RECIPES], ids=str)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, int]]:
    name, recipe = request.param
    folder = folder_of(name, tmp_path_factory.mktemp(name))
    out = edgec.export(folder, recipe=recipe, random_weights=True, target="host", out=folder / "model.edgec")
    return name, folder, planned_by_method(out)


def test_the_encoders_activations_lie_within_the_forecast(made: tuple[str, Path, dict[str, int]]) -> None:
    """5 % for what a graph adds, as masks."""
    name, folder, methods = made
    encoder = model_shape(CONFIGS[name], folder=folder / "config.json").encoder
    assert encoder is not None and encoder.activation_bytes is not None
    # What `cross` plans is counted with the encoder's.
    planned = next(iter(methods.values())) + methods.get("cross", 0)
    assert encoder.activation_bytes * 0.95 <= planned <= encoder.most_activation_bytes * 1.05


def test_keys_and_values_of_a_source_are_planned_once(made: tuple[str, Path, dict[str, int]]) -> None:
    name, folder, methods = made
    if name != "whisper-base":
        assert list(methods) == ["forward"]
        return
    encoder = model_shape(CONFIGS[name], folder=folder / "config.json").encoder
    assert encoder is not None
    source, layer = 4 * encoder.memory_values, 4 * 1500 * 512
    assert source <= methods["cross"] <= source + 1.05 * layer
