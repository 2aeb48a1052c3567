"""A LoRA's folder given as the model is its base with what PEFT itself would merge into it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import read_config
from edgec.exporter.resolve.planned_source import planned_source
from edgec.exporter.sources.resolve import resolve
from tests.exporter.sources.gguf_forms import write_forms
from tests.runtime_py.adapters.loras import EVERY, PLAIN, pairs


def _adapter(folder: Path, base: str, **changes: object) -> Path:
    """A folder as PEFT's ``save_pretrained`` leaves it."""
    folder.mkdir()
    own = {"base_model_name_or_path": base, "target_modules": [name.rpartition(".")[2] for name in EVERY]}
    (folder / "adapter_config.json").write_text(json.dumps({**PLAIN, **own, **changes}))
    made = pairs(EVERY).items()
    sides = {f"base_model.model.{n}.lora_{s}.weight": v for n, ab in made for s, v in zip("AB", ab, strict=True)}
    save_file({name: side.contiguous() for name, side in sides.items()}, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize("changes", [{}, {"use_rslora": True, "alpha_pattern": {"q_proj": 3}}])
def test_every_parameter_is_the_one_that_peft_merges(
    changes: dict[str, object], tiny_folder: Path, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft")
    folder = _adapter(tmp_path / "lora", str(tiny_folder), **changes)
    base = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    untouched = {name: value.clone() for name, value in base.state_dict().items()}
    wanted = peft.PeftModel.from_pretrained(base, folder).merge_and_unload().state_dict()
    source = resolve(str(folder))
    assert source.weights is not None and source.name == "lora" and source.source == str(folder)
    changed = 0
    for name in source.weights.names():
        value = source.weights.tensor(name).float()
        # The same products and sums in float32; their order in a product of four is the library's.
        torch.testing.assert_close(value, wanted[name], atol=1e-6, rtol=1e-6)
        changed += not torch.equal(value, untouched[name])
    assert changed == 2 * len(EVERY)


def test_a_product_computed_by_hand(tiny_folder: Path, tmp_path: Path) -> None:
    folder = _adapter(tmp_path / "lora", str(tiny_folder))
    name = "model.layers.1.mlp.down_proj"
    a, b = pairs(EVERY)[name]
    source, stored = resolve(str(folder)), load_file(tiny_folder / "model.safetensors")[f"{name}.weight"]
    assert source.weights is not None
    got = source.weights.tensor(f"{name}.weight")
    torch.testing.assert_close(got, stored.float() + 16 / 4 * (b @ a), atol=1e-5, rtol=0)
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {file.name for file in source.files}


def test_a_base_is_found_beside_the_adapter_and_planned(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "base").symlink_to(tiny_folder)
    folder = _adapter(tmp_path / "lora", "../base")
    assert read_config(folder)["model_type"] == "llama"
    source = planned_source(str(folder))
    assert source.tokenizer_files
    assert {file.resolve().parent for file in source.tokenizer_files} == {tiny_folder.resolve()}


def _refused(folder: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        resolve(str(folder))
    return caught.value


@pytest.mark.parametrize("base", ["", "no/such/folder/here", "../lora"])
def test_a_base_that_is_not_known_is_refused(base: str, tmp_path: Path) -> None:
    error = _refused(_adapter(tmp_path / "lora", base))
    assert error.code == "E878" and "adapter_config.json" in error.where


def test_a_quantised_base_is_refused(tmp_path: Path) -> None:
    file = write_forms(tmp_path / "tiny.gguf", lambda name: "Q4_0")
    error = _refused(_adapter(tmp_path / "lora", str(file)))
    assert error.code == "E879" and "quantised" in error.why


def test_modules_that_the_base_lacks_are_named(tiny_folder: Path, tmp_path: Path) -> None:
    folder = _adapter(tmp_path / "lora", str(tiny_folder))
    held = load_file(folder / "adapter_model.safetensors")
    save_file({n.replace("layers.1", "layers.7"): v for n, v in held.items()}, folder / "adapter_model.safetensors")
    assert _refused(folder).code == "E693"
