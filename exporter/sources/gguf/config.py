"""The config of transformers that a GGUF file's metadata and tensors describe."""

from __future__ import annotations

import re
from typing import Any

from edgec.bundle.gguf_faults import gguf_error
from edgec.bundle.gguf_values import shortened
from edgec.exporter.sources.gguf.architectures import ARCHITECTURES, Architecture
from edgec.exporter.sources.gguf.file import GgufFile
from edgec.exporter.sources.gguf.metadata import ARCHITECTURE, Numbers, token_id
from edgec.exporter.sources.gguf.rotation import rotation

EMBEDDING, LM_HEAD = "token_embd.weight", "output.weight"
_LAYER = re.compile(r"blk\.(\d+)\.")
# Names of special tokens in config.json, and in the metadata.
_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}


def architecture_of(file: GgufFile) -> Architecture:
    """How the file is to be read.

    Raises:
        InputError: E809, its architecture is not one that edgec reads.
    """
    name = file.metadata.get(ARCHITECTURE)
    known = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if known is not None:
        return known
    raise gguf_error(
        "E809",
        file.files[0],
        f"The architecture {shortened(name)} is not read from GGUF."
        if isinstance(name, str)
        else "The GGUF file names no architecture.",
        f"read are {', '.join(ARCHITECTURES)}",
        "Pass the model that it was made from, as a Hugging Face folder or id.",
    )


def gguf_config(file: GgufFile) -> dict[str, Any]:
    """What config.json would hold.

    Raises:
        InputError: E809 (architecture) or E810 (values that are absent, impossible or contradict the tensors).
    """
    known = architecture_of(file)
    numbers = Numbers(file, str(file.metadata[ARCHITECTURE]))
    config = _common(file, numbers)
    tokens = {key: token_id(file, name) for key, name in _TOKENS.items()}
    return {
        "architectures": [known.causal_class],
        "model_type": known.model_type,
        **config,
        **known.more(numbers, config),
        **tokens,
        "dtype": "float32",
    }


def _common(file: GgufFile, numbers: Numbers) -> dict[str, Any]:
    """What every decoder has."""
    layers, width = numbers.count("block_count"), numbers.count("embedding_length")
    vocabulary = _vocabulary(file, numbers, width)
    _check_layers(file, numbers, layers)
    heads = numbers.count("attention.head_count")
    key_heads = numbers.per_layer("attention.head_count_kv", layers, heads)
    head_dim = _head_dim(numbers, width, heads)
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": _feed_forward(numbers, layers),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": max(key_heads),
        "head_dim": head_dim,
        "max_position_embeddings": numbers.count("context_length"),
        "rms_norm_eps": numbers.real("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": LM_HEAD not in file.tensors,
        "rope_parameters": rotation(numbers, head_dim),
    }


def _vocabulary(file: GgufFile, numbers: Numbers, width: int) -> int:
    embedding = file.tensors.get(EMBEDDING)
    if embedding is None or len(embedding.shape) != 2 or embedding.shape[1] != width:
        found = "is absent" if embedding is None else f"has the shape {embedding.shape}"
        raise numbers.fault(f"{numbers.prefix}.embedding_length is {width}, and {EMBEDDING} {found}")
    return embedding.shape[0]


def _check_layers(file: GgufFile, numbers: Numbers, layers: int) -> None:
    """Layers that are stated and not there would keep every step busy with nothing."""
    found = {int(match[1]) for name in file.tensors if (match := _LAYER.match(name))}
    if len(found) != layers or max(found) != layers - 1:
        raise numbers.fault(f"{numbers.prefix}.block_count is {layers}, and the tensors are of {len(found)} layers")


def _feed_forward(numbers: Numbers, layers: int) -> int:
    # Files whose layers are all of experts may lack it.
    fallback = numbers.count("expert_feed_forward_length") if numbers.has("expert_feed_forward_length") else None
    widths = set(numbers.per_layer("feed_forward_length", layers, fallback))
    if len(widths) != 1:
        raise numbers.fault(f"{numbers.prefix}.feed_forward_length differs from layer to layer")
    return widths.pop()


def _head_dim(numbers: Numbers, width: int, heads: int) -> int:
    stated = numbers.count("attention.key_length", max(width // heads, 1))
    if numbers.count("attention.value_length", stated) != stated:
        raise numbers.fault(f"the keys of {numbers.prefix} are of another length than its values")
    return stated
