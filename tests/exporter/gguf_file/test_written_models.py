"""A model that edgec writes as GGUF is, read again, the very model: every family, floats and integers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.backends.gguf.file import write_file
from edgec.bundle.gguf_header import read_gguf_header
from edgec.errors import BudgetError, InputError
from edgec.exporter.gguf_file.architectures import NAMES
from edgec.exporter.gguf_file.contents import WrittenTensor, written_tensors
from edgec.exporter.gguf_file.description import GgufDescription, describe_model, factors_tensor
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.stored_gguf import check_stored_gguf
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.capturing import capture, hold_weights
from edgec.exporter.stages.pass_orders import file_passes
from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.program import Program
from edgec.passes.contract import run_passes
from tests.exporter.sources.gguf_models import FAMILIES, Family, tiny_model

# Another order of float32 sums; norms that are stored with one added lose a bit of it.
SAME = 2e-4
TOKENS = torch.randint(0, 320, (1, 24), generator=torch.Generator().manual_seed(3))
WIDE: Mapping[str, Any] = {"hidden_size": 256, "intermediate_size": 256}


def _folder(tmp_path: Path, family: Family, **changes: Any) -> Path:
    folder, every = tmp_path / "tiny", {**family.changes, **changes}
    tiny_model(replace(family, changes=every)).save_pretrained(folder)
    # transformers saves no value that is None, and a default of its own would take the place.
    told = json.loads((folder / "config.json").read_text())
    nothing = {key: None for key, value in every.items() if value is None and key != "head_dim"}
    (folder / "config.json").write_text(json.dumps({**told, **nothing}))
    return folder


def _request(folder: Path, **options: Any) -> ExportRequest:
    return resolve_options(ExportOptions(folder, format="gguf", out=folder.parent / "out.edgec", **options)).request


def _rounded(request: ExportRequest) -> Program:
    program = capture(request.source, hold_weights(request.source), request.spec, request.limits)
    return run_passes(program, file_passes(request.recipe, request.limits))


def _written(file: Path, program: Program, request: ExportRequest) -> list[WrittenTensor]:
    description: GgufDescription = describe_model(request.source, request.tokenizer)
    tensors = written_tensors(program.graph, description.places)
    factors = [factors_tensor(name, values) for name, values in description.factors.items()]
    every = [*factors, *(tensor.file_tensor(program.graph) for tensor in tensors)]
    write_file(file, description.architecture, description.describe, every, lambda done, total: None)
    return tensors


def _logits(source: ModelSource) -> torch.Tensor:
    assert source.weights is not None
    model = source.build_on("cpu", held=False)
    put_weights(model, source.weights)
    with torch.no_grad():
        logits: torch.Tensor = model(TOKENS).logits
    return logits


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_floats_come_back_and_compute_the_same(family: Family, tmp_path: Path) -> None:
    request = _request(_folder(tmp_path, family), recipe="float")
    tensors = _written(tmp_path / "tiny.gguf", _rounded(request), request)
    assert {tensor.type for tensor in tensors} == {"F32"}
    again, expected = resolve(str(tmp_path / "tiny.gguf")), _logits(request.source)
    assert expected.std() > 0.1
    torch.testing.assert_close(_logits(again), expected, atol=SAME * float(expected.abs().max()), rtol=0)


def test_every_architecture_that_is_read_is_written() -> None:
    tried = {tiny.model_type for tiny in FAMILIES.values()}
    assert tried == set(NAMES)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["llama", "llama, tied", "qwen3moe", "gemma2", "lfm2", "phi3"])
@pytest.mark.parametrize("recipe", ["4bit", "8bit"])
def test_integers_are_read_back_to_the_bit(name: str, recipe: str, tmp_path: Path) -> None:
    request = _request(_folder(tmp_path, FAMILIES[name]), recipe=recipe)
    program, file = _rounded(request), tmp_path / "tiny.gguf"
    tensors = _written(file, program, request)
    count = check_stored_gguf(file, program.graph, tensors)
    assert count == sum(tensor.kind is not None for tensor in tensors) > 10
    kinds = {tensor.type for tensor in tensors if len(tensor.place.shape) > 1}
    # Rows of 64 and 96 values hold no blocks of 256; routers and filters stay in float32.
    # Only some architectures have down projections by that name, which get 5 bits.
    assert kinds - {"F32", "Q5_1"} == ({"Q8_0"} if recipe == "8bit" else {"Q4_1", "Q8_0"})
    assert resolve(str(file)).weights is not None


@pytest.mark.long
def test_the_default_recipe_has_the_k_types_where_rows_hold_their_blocks(tmp_path: Path) -> None:
    request = _request(_folder(tmp_path, FAMILIES["llama"], **WIDE), recipe="4bit")
    types = {
        tensor.place.parameter.split(".")[-2]: tensor.type
        for tensor in _written(tmp_path / "tiny.gguf", _rounded(request), request)
    }
    # Queries, gates and their like in 4.5 bits, down projections in 5.5; 6 bits with minimums have no type.
    assert {types[name] for name in ("q_proj", "k_proj", "gate_proj", "up_proj")} == {"Q4_K"}
    # The outputs of attention are 128 wide.
    assert (types["o_proj"], types["down_proj"], types["v_proj"]) == ("Q4_1", "Q5_K", "Q8_0")
    assert types["embed_tokens"] == types["lm_head"] == "Q8_0" and types["input_layernorm"] == "F32"


@pytest.mark.long
def test_a_tied_lm_head_is_not_written(tmp_path: Path) -> None:
    request = _request(_folder(tmp_path, FAMILIES["llama, tied"]), recipe="4bit")
    names = {tensor.place.name for tensor in _written(tmp_path / "tiny.gguf", _rounded(request), request)}
    assert "token_embd.weight" in names and "output.weight" not in names
    assert resolve(str(tmp_path / "tiny.gguf")).config["tie_word_embeddings"]


@pytest.mark.long
def test_a_wrong_bit_in_the_file_is_found(tmp_path: Path) -> None:
    request, file = _request(_folder(tmp_path, FAMILIES["llama"]), recipe="4bit"), tmp_path / "tiny.gguf"
    program = _rounded(request)
    tensors = _written(file, program, request)
    place = next(tensor for tensor in read_gguf_header(file).tensors if tensor.name == "blk.1.ffn_up.weight")
    with file.open("r+b") as stream:
        stream.seek(place.offset + place.nbytes - 1)
        byte = stream.read(1)[0]
        stream.seek(place.offset + place.nbytes - 1)
        stream.write(bytes([byte ^ 1]))
    with pytest.raises(BudgetError) as caught:
        check_stored_gguf(file, program.graph, tensors)
    assert caught.value.code == "E841" and caught.value.where == "blk.1.ffn_up.weight"


@pytest.mark.long
def test_what_no_type_holds_is_refused_by_name(tmp_path: Path) -> None:
    request = _request(_folder(tmp_path, FAMILIES["llama"]), recipe="8bit")
    program = _rounded(request)
    name = "decoder.model.layers.1.mlp.up_proj.weight_scale"
    set_buffer(program.graph, name, attribute(program.graph, name) * 1e8)
    with pytest.raises(InputError) as caught:
        written_tensors(program.graph, describe_model(request.source, None).places)
    assert caught.value.code == "E827" and caught.value.where == "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("family", "changes", "where"),
    [
        (Family("", "gpt_neox"), {}, "gpt_neox"),
        (FAMILIES["llama"], {"hidden_act": "gelu"}, "hidden_act"),
        (FAMILIES["mistral"], {"sliding_window": 16}, "sliding_window"),
        (FAMILIES["gemma2"], {"query_pre_attn_scalar": 99}, "query_pre_attn_scalar"),
        (FAMILIES["qwen3moe"], {"norm_topk_prob": False}, "norm_topk_prob"),
        (FAMILIES["llama"], {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "rope"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_model_that_llama_cpp_would_compute_otherwise_is_refused(
    family: Family, changes: Mapping[str, Any], where: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        _request(_folder(tmp_path, family, **changes), recipe="float")
    assert caught.value.code == "E825" and where in caught.value.where


def test_recipes_that_change_the_model_are_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "shared.toml"
    recipe.write_text('[shared_kv]\nmode = "reuse"\nboundary = 2\n')
    with pytest.raises(InputError) as caught:
        _request(_folder(tmp_path, FAMILIES["llama"]), recipe=recipe)
    assert caught.value.code == "E828" and "shared_kv" in caught.value.where


@pytest.mark.long
def test_a_network_that_is_no_decoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        resolve_options(ExportOptions("tests.exporter.module_factories:vit", format="gguf", out=tmp_path / "out.edgec"))
    assert caught.value.code == "E828"
