"""What a config ties is one tensor only where the checkpoint holds one: as transformers 5 loads it, for every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.weights.names import same_values
from tests.exporter.tiny_sources import ENCODER, LLAMA
from tests.vision_language import save_vision_language

# Float32 in the same code, but attention may add in another order; logits are up to about 10.
TOLERANCE = 1e-5
HEAD = "lm_head.weight"
TOKENS = torch.tensor([[1, 5, 202, 511]])
VOCABULARY = 512


def _llama() -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**{**LLAMA, "architectures": None, "vocab_size": VOCABULARY})
    )


def _t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
    config = transformers.T5Config(**sizes, tie_word_embeddings=True, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def _bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**{**ENCODER, "vocab_size": VOCABULARY}))


# How a model is made, the name of its tied matrix in a checkpoint, that of its owner, and the inputs that read both.
KINDS: Mapping[str, tuple[Callable[[], Any], str, str, str | None, Mapping[str, Tensor]]] = {
    "decoder": (_llama, HEAD, "model.embed_tokens.weight", None, {"input_ids": TOKENS}),
    "encoder-decoder": (
        _t5,
        HEAD,
        "shared.weight",
        None,
        {"input_ids": TOKENS, "decoder_input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)},
    ),
    "masked words": (
        _bert,
        "cls.predictions.decoder.weight",
        "bert.embeddings.word_embeddings.weight",
        "fill-mask",
        {"input_ids": TOKENS},
    ),
}


def _saved(folder: Path, kind: str, change: Callable[[Tensor], Tensor] | None) -> Path:
    """A model of a kind whose checkpoint holds the tied matrix too, changed."""
    make, name, owner, *_ = KINDS[kind]
    torch.manual_seed(0)
    make().eval().save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    if change is not None:
        tensors[name] = change(tensors[owner].clone())
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _inner_rows(matrix: Tensor) -> Tensor:
    """Other values in rows that lie at neither end."""
    matrix[200:204] += 1.0
    return matrix


def _all_rows(matrix: Tensor) -> Tensor:
    return matrix.flip(0) * 1.5


def _built(source: ModelSource) -> nn.Module:
    assert source.weights is not None
    if source.factory is not None:
        return source.factory()[0]
    model: nn.Module = source.build_on("cpu")
    put_weights(model, source.weights)
    return model


def _logits(source: ModelSource, inputs: Mapping[str, Tensor]) -> Tensor:
    model = _built(source)
    with torch.no_grad():
        if source.factory is not None:
            given = {"token_type_ids": torch.zeros_like(TOKENS), "attention_mask": torch.ones_like(TOKENS), **inputs}
            made = model(*(given[name] for name in source.input_names))
            return made if isinstance(made, Tensor) else made[0]
        logits: Tensor = model(**inputs).logits
        return logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [None, Tensor.clone, _inner_rows, _all_rows], ids=["one", "same", "inner", "all"])
def test_logits_are_those_of_transformers(tmp_path: Path, kind: str, change: Callable[[Tensor], Tensor] | None) -> None:
    make, _, _, task, inputs = KINDS[kind]
    folder = _saved(tmp_path, kind, change)
    source = resolve(str(folder), task=task)
    with torch.no_grad():
        wanted = type(make()).from_pretrained(folder).eval()(**inputs).logits
    torch.testing.assert_close(_logits(source, inputs), wanted, atol=TOLERANCE, rtol=TOLERANCE)
    assert bool(source.untied) is (change in (_inner_rows, _all_rows))


def test_a_separate_matrix_is_said_in_the_config_that_forecasts_read(tmp_path: Path) -> None:
    assert model_spec(resolve(str(_saved(tmp_path / "a", "decoder", _inner_rows))).config).tied is False
    assert model_spec(resolve(str(_saved(tmp_path / "b", "decoder", None))).config).tied is True


def test_a_model_with_vision_has_its_own_lm_head_whole_or_as_a_text_decoder(tmp_path: Path) -> None:
    folder = save_vision_language("gemma3", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    head = tensors["language_model.model.embed_tokens.weight"].clone()
    head[len(head) // 2] += 1.0
    save_file({**tensors, HEAD: head}, folder / "model.safetensors", metadata={"format": "pt"})
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    tokens = torch.tensor([[1, 5, len(head) // 2, 7]])
    with torch.no_grad():
        wanted = model(input_ids=tokens).logits
    for task in (None, "text-generation"):
        source = resolve(str(folder), task=task)
        assert source.untied == (HEAD,)
        torch.testing.assert_close(_logits(source, {"input_ids": tokens}), wanted, atol=TOLERANCE, rtol=TOLERANCE)


def test_values_are_compared_whatever_their_dtypes() -> None:
    one = torch.randn(300, 70).bfloat16()
    other = one.float()
    assert same_values(one, other) and same_values(one.float().half(), one.float().half().double())
    other[299, 69] += 1e-3
    assert not same_values(one, other) and not same_values(one, one[:299])
