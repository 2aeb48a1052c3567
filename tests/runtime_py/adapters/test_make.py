"""Binding PEFT's folders to a bundle: what is written, and every refusal by its code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import edgec
from edgec.bundle.adapter_targets import TARGETS, AdapterTargets, targets_of
from edgec.bundle.folder import open_bundle
from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import read_adapter
from edgec.runtime_py.adapters.make import bind, make_adapter
from edgec.runtime_py.adapters.peft_folder import read_peft
from edgec.runtime_py.engines.open_artifact import artifact_digest
from tests.runtime_py.adapters.loras import EVERY, RECIPE, exported, pairs, write_lora

QUERY = "model.layers.0.self_attn.q_proj"


def test_every_matrix_of_the_model_is_a_target(four_bits: Path) -> None:
    targets = targets_of(open_bundle(four_bits)).targets
    names = {f"model.layers.{layer}.{module}" for layer in range(2) for module in EVERY} | {"lm_head"}
    assert {target.name for target in targets} == names and len(targets) == len(names)
    by_name = {target.name: (target.rows, target.width) for target in targets}
    assert by_name["model.layers.1.mlp.down_proj"] == (32, 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_written_adapter_is_read_as_it_was_trained(four_bits: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    changes = {name: (a.to(dtype), b.to(dtype)) for name, (a, b) in pairs().items()}
    made = make_adapter(four_bits, write_lora(tmp_path / "lora", changes), tmp_path / "a")
    read = read_adapter(tmp_path / "a")
    assert made.bytes == (tmp_path / "a").stat().st_size
    assert read.digest == made.adapter.digest and read.modules == made.adapter.modules
    assert read.base == artifact_digest(open_bundle(four_bits)) and read.trained_on == "tiny-llama"
    for module, change in zip(read.modules, read.changes, strict=True):
        a, b = changes[module.name]
        assert torch.equal(torch.from_numpy(change.a.floats().copy()), a.float()) and change.scale == 4.0
        assert torch.equal(torch.from_numpy(change.b.floats().copy()), b.float())


def test_ranks_alphas_and_rslora_are_those_of_peft(four_bits: Path, tmp_path: Path) -> None:
    changes = pairs(("self_attn.q_proj",), 4) | pairs(("mlp.down_proj",), 9)
    patterns: dict[str, Any] = {"rank_pattern": {"down_proj": 9}}
    patterns["alpha_pattern"] = {"^model.layers.1.mlp.down_proj": 3}
    folder = write_lora(tmp_path / "lora", changes, use_rslora=True, lora_alpha=8, **patterns)
    scales = {module.name: module.scale for module in bind(read_peft(folder), open_bundle(four_bits)).modules}
    assert scales == {
        **{QUERY: 4.0, "model.layers.1.self_attn.q_proj": 4.0},
        **{"model.layers.0.mlp.down_proj": 8 / 3, "model.layers.1.mlp.down_proj": 1.0},
    }


def refusal(bundle: Path, folder: Path, out: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        make_adapter(bundle, folder, out)
    assert not out.exists()
    return caught.value


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"lora_bias": True}, "lora_bias"),
        ({"bias": "all"}, "bias"),
        ({"trainable_token_indices": [1, 2]}, "trainable_token_indices"),
        ({"layer_replication": [[0, 2], [1, 2]]}, "layer_replication"),
        ({"target_parameters": ["experts.gate_up_proj"]}, "target_parameters"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens"),
        ({"use_qalora": True}, "use_qalora"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa"),
        ({"init_lora_weights": "olora"}, "olora"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"task_type": "SEQ_CLS"}, "SEQ_CLS"),
        ({"megatron_config": {"a": 1}}, "megatron_config"),
        ({"ensure_weight_tying": True}, "ensure_weight_tying"),
        ({"of_the_future": {"on": True}}, "of_the_future"),
        ({"rank_pattern": {"(a+)+b": 4}}, "regular expression"),
    ],
)
def test_features_that_are_not_computed_are_refused_by_name(
    four_bits: Path, tmp_path: Path, config: Mapping[str, Any], named: str
) -> None:
    error = refusal(four_bits, write_lora(tmp_path / "lora", pairs(), **config), tmp_path / "a")
    assert error.code == "E692" and named in error.what


@pytest.mark.parametrize(
    ("tensor", "named"),
    [
        ("model.layers.0.self_attn.q_proj.lora_magnitude_vector", "DoRA"),
        ("model.embed_tokens.lora_embedding_A", "embedding"),
        ("lm_head.modules_to_save.weight", "modules_to_save"),
        ("model.layers.0.self_attn.q_proj.lora_B.bias", "lora_bias"),
        ("model.norm.weight", "model.norm.weight"),
    ],
)
def test_tensors_of_other_features_are_refused_by_name(
    four_bits: Path, tmp_path: Path, tensor: str, named: str
) -> None:
    more = {f"base_model.model.{tensor}": torch.ones(4, 4)}
    error = refusal(four_bits, write_lora(tmp_path / "lora", pairs(), more), tmp_path / "a")
    assert error.code == "E692" and named in error.what


def test_modules_that_the_bundle_lacks_are_refused_by_name(four_bits: Path, tmp_path: Path) -> None:
    error = refusal(four_bits, write_lora(tmp_path / "lora", pairs(layers=3)), tmp_path / "a")
    assert error.code == "E693" and "model.layers.2.self_attn.q_proj" in error.what


@pytest.mark.slow
def test_a_matrix_that_xnnpack_computes_is_refused_by_name(tiny_folder: Path, tmp_path: Path) -> None:
    kept = RECIPE + '\n[[rules]]\nparameters = "model.layers.0.self_attn.q_proj.weight"\nfloat = true\n'
    bundle = exported(tiny_folder, tmp_path, kept)
    error = refusal(bundle, write_lora(tmp_path / "lora", pairs()), tmp_path / "a")
    assert error.code == "E693" and QUERY in error.what and "float" in error.why


@pytest.mark.parametrize("kind", ["rank", "width", "rows", "pattern", "vector", "infinite"])
def test_what_does_not_fit_is_refused(four_bits: Path, tmp_path: Path, kind: str) -> None:
    changes = pairs()
    config: dict[str, Any] = {}
    a, b = changes[QUERY]
    if kind == "rank":
        config = {"r": 5}
    elif kind == "pattern":
        config = {"rank_pattern": {"layers.0.self_attn.q_proj": 3}}
    else:
        other = {"width": (torch.ones(4, 33), b), "rows": (a, torch.ones(33, 4)), "vector": (torch.ones(4), b)}
        changes[QUERY] = {**other, "infinite": (a, b / 0)}[kind]
    error = refusal(four_bits, write_lora(tmp_path / "lora", changes, **config), tmp_path / "a")
    assert error.code == "E694" and QUERY in error.why


@pytest.mark.parametrize("kind", ["config", "json", "weights", "pickle", "cut", "dtype", "alone", "empty", "r", "zero"])
def test_folders_that_cannot_be_read_are_refused(four_bits: Path, tmp_path: Path, kind: str) -> None:
    changes = {name: (a.double(), b) for name, (a, b) in pairs().items()} if kind == "dtype" else pairs()
    folder = write_lora(tmp_path / "lora", {} if kind == "empty" else changes)
    config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    if kind == "config":
        config.unlink()
    elif kind == "json":
        config.write_text("{")
    elif kind == "r":
        config.write_text(json.dumps({**json.loads(config.read_text()), "r": "4"}))
    elif kind == "zero":
        config.write_text(json.dumps({**json.loads(config.read_text()), "rank_pattern": {"q_proj": 0}}))
    elif kind in ("weights", "pickle"):
        weights.unlink()
        if kind == "pickle":
            (folder / "adapter_model.bin").write_bytes(b"\x80\x02.")
    elif kind == "cut":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif kind == "alone":
        a, _ = pairs()[QUERY]
        from safetensors.torch import save_file

        save_file({f"base_model.model.{QUERY}.lora_A.weight": a}, weights)
    error = refusal(four_bits, folder, tmp_path / "a")
    assert error.code == "E691"
    assert kind != "pickle" or "safe_serialization" in error.fix


@pytest.mark.slow
def test_bundles_that_take_no_adapters_say_why(tiny_folder: Path, tiny_bundle: Path, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "lora", pairs())
    error = refusal(tiny_bundle, folder, tmp_path / "a")
    assert error.code == "E690"
    standard = exported(tiny_folder, tmp_path, 'kernels = "standard"\n' + RECIPE)
    error = refusal(standard, folder, tmp_path / "a")
    assert error.code == "E690" and "standard" in error.why


@pytest.mark.slow
def test_a_rotated_bundle_is_refused_and_the_pass_is_named(tiny_folder: Path, tmp_path: Path) -> None:
    bundle = exported(tiny_folder, tmp_path, 'prepare = ["rotate"]\n' + RECIPE)
    error = refusal(bundle, write_lora(tmp_path / "lora", pairs()), tmp_path / "a")
    assert error.code == "E690" and "rotate" in error.why


def test_modules_that_share_their_bytes_are_refused(
    four_bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = targets_of(open_bundle(four_bits))
    query = next(target for target in every.targets if target.name == QUERY)
    twin = query.model_copy(update={"name": "model.layers.1.self_attn.q_proj"})
    rest = [target for target in every.targets if target.name != twin.name]
    shared = AdapterTargets(targets=[*rest, twin])
    monkeypatch.setattr("edgec.runtime_py.adapters.make.targets_of", lambda bundle: shared)
    error = refusal(four_bits, write_lora(tmp_path / "lora", pairs()), tmp_path / "a")
    assert error.code == "E693" and "another module" in error.why


def test_the_command_makes_a_file_that_run_uses(
    four_bits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_lora(tmp_path / "lora", pairs()), tmp_path / "a.adapter"
    line = ["adapter", str(four_bits), str(folder), "--out", str(out)]
    assert run_cli(line) == 0
    assert "rank 4" in capsys.readouterr().out
    assert run_cli([*line, "--json"]) == 1 and json.loads(capsys.readouterr().out)["error"]["code"] == "E120"
    assert run_cli([*line, "--json", "--force"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ranks"] == [4] and facts["bytes"] == out.stat().st_size and QUERY in facts["modules"]
    texts = []
    for more in ([], ["--adapter", str(out)]):
        assert run_cli(["run", str(four_bits), "-p", "Once", "--raw", "--max-new-tokens", "12", *more, "--json"]) == 0
        texts.append(json.loads(capsys.readouterr().out)["text"])
    assert texts[0] != texts[1]
    model = edgec.load(four_bits)
    model.adapter = out
    assert model.generate("Once", max_new_tokens=12).text == texts[1]


def test_the_list_of_targets_is_a_file_of_the_bundle(four_bits: Path) -> None:
    assert any(file.path == TARGETS for file in open_bundle(four_bits).manifest.files)
