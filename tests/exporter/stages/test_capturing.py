"""The model's own code, which gives the reference numbers, may fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edgec
from edgec.errors import InputError

# CodeGen's code cuts its heads into four parts, whatever their number.
SIX_HEADS = {"model_type": "codegen", "n_head": 6, "n_embd": 96, "n_layer": 1, "rotary_dim": 8, "vocab_size": 64}


@pytest.mark.long
def test_a_model_whose_own_code_fails_is_refused_with_what_it_said(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**SIX_HEADS, "n_positions": 64, "architectures": ["CodeGenForCausalLM"]}))
    with pytest.raises(InputError) as caught:
        edgec.export(config, random_weights=True, context=32, out=tmp_path / "x.edgec")
    assert caught.value.code == "E769" and "RuntimeError: shape" in str(caught.value.why)
    assert list(tmp_path.iterdir()) == [config]
