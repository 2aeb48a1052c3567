from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.sources.drafts.kinds import open_heads


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"architectures": ["EagleLlamaForCausalLM"]}, "an EAGLE folder"),
        ({"model_type": "mlp_speculator"}, "MLP speculator"),
        ({"hydra_num_heads": 4}, "Hydra"),
        ({"model_type": "gemma4_assistant"}, "draft model"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": 64}, "whole model"),
        ({}, "does not know"),
    ],
)
def test_folders_of_other_kinds_are_named(config: dict[str, Any], named: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="E842") as error:
        open_heads(tmp_path)
    assert named in error.value.why


@pytest.mark.parametrize("content", [None, "[1]", "{"])
def test_folders_that_say_nothing_are_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match="E842"):
        open_heads(tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="E197"):
        open_heads(tmp_path / "none.safetensors")
