"""A bundle of a tiny Qwen3 with random weights over any vocabulary: what it writes is as free as text can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import edgec
from edgec.runtime_py.structured.vocabulary import Vocabulary

CONFIG = Path(__file__).parents[1] / "architectures" / "tiny-qwen3.json"
CONTEXT = 640


def random_model(vocabulary: Vocabulary, folder: Path) -> Any:
    """Export the model for the host into ``folder``, and load it."""
    model = folder / "model"
    model.mkdir(parents=True)
    (end,) = vocabulary.eos
    sizes = {"vocab_size": len(vocabulary.tokens), "max_position_embeddings": CONTEXT, "eos_token_id": end}
    config = {**json.loads(CONFIG.read_text()), **sizes, "bos_token_id": None}
    (model / "config.json").write_text(json.dumps(config))
    _tokenizer(vocabulary, end).save_pretrained(model)
    bundle = edgec.export(model, target="host", random_weights=True, context=CONTEXT, out=folder / "random.edgec")
    return edgec.load(bundle)


def _tokenizer(vocabulary: Vocabulary, end: int) -> Any:
    """A byte-level tokenizer with the vocabulary and without merges: it reads prompts byte by byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = bytes_to_unicode()
    names = {"".join(letters[byte] for byte in text): token for token, text in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    mark = next(name for name, token in names.items() if token == end)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=mark)
