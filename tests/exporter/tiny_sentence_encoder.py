"""A tiny random sentence encoder in the layout of sentence-transformers, and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

WORDS = ["a", "the", "red", "ball", "park", "cat", "dog", "runs", "in", "she", "saw", "big", "little", "day"]
POSITIONS = 48


def save_sentence_encoder(folder: Path, pooling: str = "mean_tokens", normalised: bool = True, **config: Any) -> Path:
    """Write a random BERT with its tokenizer, pooling and normalisation."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    tokenizer().save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    numbers = {"vocab_size": len(tokenizer()), "max_position_embeddings": POSITIONS, **sizes, **config}
    model = BertModel(BertConfig(**numbers)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    model.save_pretrained(folder)
    parts = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    told = [{"idx": int(i), "name": i, "path": p, "type": f"sentence_transformers.models.{t}"} for i, p, t in parts]
    write(folder / "modules.json", told if normalised else told[:2])
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True})
    return folder


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
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def text_of(words: int) -> str:
    """Some words."""
    return " ".join(WORDS[i * 5 % len(WORDS)] for i in range(words))


def expected(folder: Path, text: str, pooling: str, normalised: bool) -> NDArray[np.float32]:
    """A text's vector by transformers, pooled as sentence-transformers documents it."""
    from transformers import AutoModel

    read = tokenizer()([text], return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(**read).last_hidden_state[0]
    vector = {
        "mean_tokens": lambda: states.mean(0),
        "cls_token": lambda: states[0],
        "max_tokens": lambda: states.amax(0),
        "lasttoken": lambda: states[-1],
    }[pooling]()
    made: NDArray[np.float32] = (torch.nn.functional.normalize(vector, dim=0) if normalised else vector).numpy()
    return made
