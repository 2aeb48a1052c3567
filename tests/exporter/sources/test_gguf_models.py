"""Models in GGUF files compute what transformers computes with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from edgec.bundle.gguf_header import READ_TYPES
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import decoder_shape, read_config
from edgec.exporter.sources.gguf.architectures import ARCHITECTURES
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from tests.exporter.sources.gguf_models import FAMILIES, Family, finish, model_writer, tiny_model, write_model

# The same float32 weights in the same code; norms that were stored with one added lost a bit of it.
SAME = 2e-4
TOKENS = torch.randint(0, 320, (1, 24), generator=torch.Generator().manual_seed(3))


def _logits(source: ModelSource) -> torch.Tensor:
    assert source.weights is not None
    model = source.build_on("cpu", held=False)
    put_weights(model, source.weights)
    with torch.no_grad():
        logits: torch.Tensor = model(TOKENS).logits
    return logits


def _expected(model: Any) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(TOKENS).logits
    return logits


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_model_computes_what_it_did(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    source = resolve(str(write_model(tmp_path / "tiny.gguf", family, model)))
    assert (source.name, source.kind, source.trained) == ("tiny", "decoder", True)
    expected = _expected(model)
    assert expected.std() > 0.1
    torch.testing.assert_close(_logits(source), expected, atol=SAME * float(expected.abs().max()), rtol=0)


def test_every_architecture_is_tried() -> None:
    assert {family.architecture for family in FAMILIES.values()} == set(ARCHITECTURES)


def test_a_wrong_order_of_rows_would_show(tmp_path: Path) -> None:
    llama = FAMILIES["llama"]
    model = tiny_model(llama)
    wrong = Family(llama.architecture, llama.model_type, pairs=False)
    source = resolve(str(write_model(tmp_path / "wrong.gguf", wrong, model)))
    assert (_logits(source) - _expected(model)).abs().max() > 0.1


# Those that the gguf package can write.
@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"], ids=str
)
def test_a_quantised_model_is_what_its_blocks_say(kind: str, tmp_path: Path) -> None:
    family = Family("qwen3", "qwen3", {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64})
    model = tiny_model(family)
    source = resolve(str(write_model(tmp_path / "tiny.gguf", family, model, kind)))
    number = gguf.GGMLQuantizationType[kind]
    for value in model.parameters():
        if value.dim() == 2:
            again = gguf.dequantize(gguf.quantize(value.detach().numpy(), number), number)
            value.data = torch.from_numpy(np.array(again, np.float32))
    expected = _expected(model)
    torch.testing.assert_close(_logits(source), expected, atol=SAME * float(expected.abs().max()), rtol=0)


@pytest.mark.parametrize("kind", READ_TYPES)
def test_every_type_is_read_as_the_package_reads_it(kind: str, tmp_path: Path) -> None:
    number = gguf.GGMLQuantizationType[kind]
    raw = random_blocks(kind, rows=320, blocks=1 if gguf.GGML_QUANT_SIZES[number][0] == 256 else 256 // 32)
    file = _with_embedding(tmp_path / "tiny.gguf", raw, number)
    source = resolve(str(file))
    assert source.weights is not None
    read = source.weights.tensor("model.embed_tokens.weight")
    expected = torch.from_numpy(np.array(gguf.dequantize(raw, number), np.float32))
    assert torch.equal(read.float(), expected)
    plain = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    assert read.dtype == plain.get(kind, torch.float32)


def test_a_scale_that_is_not_a_number_is_refused_by_name(tmp_path: Path) -> None:
    raw = random_blocks("Q8_0", rows=320, blocks=8)
    raw[17, :2] = np.array([np.nan], np.float16).view(np.uint8)
    file = _with_embedding(tmp_path / "tiny.gguf", raw, gguf.GGMLQuantizationType.Q8_0)
    with pytest.raises(InputError, match="E812") as caught:
        resolve(str(file))
    assert "'token_embd.weight', of type Q8_0" in caught.value.why


def random_blocks(kind: str, rows: int, blocks: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Random bytes of a type whose scales are finite; values of float types come as random numbers."""
    dice = np.random.default_rng(0)
    number = gguf.GGMLQuantizationType[kind]
    _, size = gguf.GGML_QUANT_SIZES[number]
    if kind in ("F32", "F16", "BF16"):
        made = gguf.quantize(dice.normal(size=(rows, 256)).astype(np.float32), number)
        return np.ascontiguousarray(made).view(np.uint8)
    raw = dice.integers(0, 256, (rows * blocks, size), dtype=np.uint8)
    for at in _SCALES.get(kind, (0,)):
        raw[:, at : at + 2] = dice.normal(size=(len(raw), 1)).astype(np.float16).view(np.uint8)
    if kind == "MXFP4":  # a power of two that float16 holds; the largest are infinite
        raw[:, 0] = dice.integers(104, 144, len(raw))
    if kind == "TQ2_0":  # three values of the four that two bits hold
        raw[:, :64] &= ~((raw[:, :64] & 0x55) << 1)
    return raw.reshape(rows, -1)


# Where the float16 scales of a block lie.
_SCALES = {
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    **{"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": ()},
}


def _with_embedding(file: Path, raw: Any, number: Any) -> Path:
    family = Family("qwen3", "qwen3", {"hidden_size": 256, "intermediate_size": 64, "head_dim": 32})
    model = tiny_model(family)
    writer = model_writer(file, family, model)
    tensors = writer.tensors[0]
    tensors["token_embd.weight"] = tensors["token_embd.weight"].__class__(
        shape=(320, 256), dtype=number, nbytes=raw.nbytes, tensor=raw
    )
    return finish(writer, file)


def test_random_weights_need_no_values(tmp_path: Path) -> None:
    family = FAMILIES["llama"]
    file = write_model(tmp_path / "tiny.gguf", family, tiny_model(family))
    source = resolve(str(file), random_weights=True)
    assert not source.trained and source.weights is not None
    assert source.weights.names().keys() == resolve(str(file)).weights.names().keys()  # type: ignore[union-attr]


def test_parts_are_one_model(tmp_path: Path) -> None:
    family = FAMILIES["llama"]
    model = tiny_model(family)
    writer = model_writer(tmp_path / "tiny.gguf", family, model, split_max_tensors=15)
    finish(writer, tmp_path / "tiny.gguf")
    parts = sorted(tmp_path.glob("*.gguf"))
    assert [part.name for part in parts] == [f"tiny-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    for named in (parts[0], parts[2], tmp_path):
        source = resolve(str(named))
        assert source.name == "tiny" and set(parts) <= set(source.files)
    assert torch.equal(_logits(source), _expected(model))


def test_a_view_of_the_file_is_not_written_to(tmp_path: Path) -> None:
    family = FAMILIES["llama"]
    file = write_model(tmp_path / "tiny.gguf", family, tiny_model(family))
    before = file.read_bytes()
    weights = resolve(str(file)).weights
    assert weights is not None
    weights.tensor("model.norm.weight").zero_()
    assert file.read_bytes() == before


def test_a_plan_reads_the_config_alone(tmp_path: Path) -> None:
    family = FAMILIES["llama, tied"]
    file = write_model(tmp_path / "tiny.gguf", family, tiny_model(family))
    for model in (file, tmp_path):
        config = read_config(model)
        assert (config["model_type"], config["vocab_size"], config["head_dim"]) == ("llama", 320, 32)
    shape = decoder_shape(read_config(file))
    weights = resolve(str(file)).weights
    assert weights is not None
    assert {parameter.name for parameter in shape.parameters} == set(weights.names())
