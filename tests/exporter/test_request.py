"""What the finished stages of an export depend on: every file that was read, each in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from edgec.exporter.options import ExportOptions
from edgec.exporter.request import request_inputs
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stage_cache import StageCache, stage_key
from tests.exporter.tiny_sentence_encoder import save_sentence_encoder


def key(folder: Path, cache: Path) -> str:
    request = resolve_options(ExportOptions(model=str(folder), target="host", recipe="float")).request
    with StageCache(cache) as opened:
        return stage_key(request_inputs(request, opened))


def other_weights(part: Path) -> None:
    tensors = load_file(part / "model.safetensors")
    save_file({name: value + 1 for name, value in tensors.items()}, part / "model.safetensors")


def other_activation(part: Path) -> None:
    config = json.loads((part / "config.json").read_text())
    config["activation_function"] = "torch.nn.modules.activation.Tanh"
    (part / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("part", ["2_Dense", "3_Dense"])
def test_each_part_of_a_sentence_encoder_makes_another_export(tmp_path: Path, part: str) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny", dense=("Identity", "Identity"))
    before = key(folder, tmp_path / "cache")
    assert key(folder, tmp_path / "cache") == before
    other_weights(folder / part)
    trained = key(folder, tmp_path / "cache")
    other_activation(folder / part)
    assert len({before, trained, key(folder, tmp_path / "cache")}) == 3


def test_what_the_preprocessor_says_makes_another_export(tmp_path: Path) -> None:
    folder = save_sentence_encoder(tmp_path / "tiny")
    before = key(folder, tmp_path / "cache")
    (folder / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": 8000}))
    assert key(folder, tmp_path / "cache") != before
