"""Tiny random sentence encoders in the layout of sentence-transformers, and what they mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

WORDS = ["a", "the", "red", "ball", "park", "cat", "dog", "runs", "in", "she", "saw", "big", "little", "day"]
POSITIONS = 48


def save_sentence_encoder(
    folder: Path, pooling: str = "mean_tokens", normalised: bool = True, model: Any = None, dense: Sequence[str] = ()
) -> Path:
    """Write a random model (BERT by default) with its tokenizer, pooling, dense layers and normalisation.

    Args:
        folder: to write to.
        pooling: the name of the pooling's flag.
        normalised: whether vectors have length 1.
        model: of 32 values per token.
        dense: the activation of each dense layer after pooling, which makes 24 values of 32, then 24 of 24.
    """
    torch.manual_seed(0)
    tokenizer().save_pretrained(folder)
    model = (bert() if model is None else model).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    model.save_pretrained(folder)
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True})
    for n, activation in enumerate(dense, 2):
        _save_dense(folder / f"{n}_Dense", 32 if n == 2 else 24, 24, activation)
    layers = [(f"{n}_Dense", "Dense") for n in range(2, 2 + len(dense))]
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), *layers, *([("9_Normalize", "Normalize")] * normalised)]
    told = [
        {"idx": i, "name": str(i), "path": p, "type": f"sentence_transformers.models.{t}"}
        for i, (p, t) in enumerate(parts)
    ]
    write(folder / "modules.json", told)
    return folder


def bert(positions: int = POSITIONS) -> Any:
    """A random BERT."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_attention_heads=2, **_sizes(positions)))


def qwen3(positions: int = POSITIONS) -> Any:
    """The decoder of embedders such as Qwen3-Embedding, whose config names the class that generates."""
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(num_attention_heads=4, num_key_value_heads=2, head_dim=16, **_sizes(positions))
    model = Qwen3Model(config)
    model.config.architectures = ["Qwen3ForCausalLM"]
    return model


def gemma3() -> Any:
    """EmbeddingGemma's kind: Gemma 3 reading in both directions, with windows."""
    from transformers import Gemma3TextConfig, Gemma3TextModel

    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    return Gemma3TextModel(Gemma3TextConfig(**heads, **_sizes(), sliding_window=16, use_bidirectional_attention=True))


def _sizes(positions: int = POSITIONS) -> dict[str, int]:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    return {"vocab_size": len(tokenizer()), "max_position_embeddings": positions, **sizes}


def _save_dense(folder: Path, width: int, made: int, activation: str) -> None:
    from safetensors.torch import save_file

    name = f"torch.nn.modules.activation.{activation}"
    write(folder / "config.json", {"in_features": width, "out_features": made, "activation_function": name})
    save_file(
        {"linear.weight": torch.randn(made, width) * 0.3, "linear.bias": torch.randn(made)},
        folder / "model.safetensors",
    )


def write(file: Path, value: object) -> None:
    """Write JSON, with the folder."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value))


def tokenizer() -> Any:
    """Words, with [CLS] before and [SEP] after."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", pair, special_tokens=ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def text_of(words: int) -> str:
    """Some words."""
    return " ".join(WORDS[i * 5 % len(WORDS)] for i in range(words))


def expected(folder: Path, text: str, pooling: str, normalised: bool, unpooled: int = 0) -> NDArray[np.float32]:
    """A text's vector by transformers, made of the tokens' but the first few as sentence-transformers documents it."""
    from safetensors.torch import load_file
    from transformers import AutoModel

    read = tokenizer()([text], return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(**read).last_hidden_state[0, unpooled:]
    vector = {
        "mean_tokens": lambda: states.mean(0),
        "cls_token": lambda: states[0],
        "max_tokens": lambda: states.amax(0),
        "lasttoken": lambda: states[-1],
    }[pooling]()
    for part in sorted(folder.glob("?_Dense")):
        layer = load_file(part / "model.safetensors")
        name = json.loads((part / "config.json").read_text())["activation_function"].rpartition(".")[2]
        vector = getattr(torch.nn, name)()(layer["linear.weight"] @ vector + layer["linear.bias"])
    made: NDArray[np.float32] = (torch.nn.functional.normalize(vector, dim=0) if normalised else vector).numpy()
    return made
