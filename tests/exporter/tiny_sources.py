"""Model folders of a few kilobytes, whole and damaged."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ENCODER: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 64,
}
VISION: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def write_config(folder: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """A folder with LLAMA's config.json, changed as asked; a value of None removes the key."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in {**LLAMA, **(changes or {})}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def llama_shapes(hidden: int = 32, inner: int = 64, vocab: int = 128) -> dict[str, tuple[int, ...]]:
    """The parameters of a two-layer Llama with as many key/value heads as half its heads, embeddings tied."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.{norm}.weight": (hidden,) for norm in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{prefix}.self_attn.{name}_proj.weight": (hidden, hidden) for name in "qo"}
        shapes |= {f"{prefix}.self_attn.{name}_proj.weight": (hidden // 2, hidden) for name in "kv"}
        shapes |= {f"{prefix}.mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        shapes |= {f"{prefix}.mlp.down_proj.weight": (hidden, inner)}
    return shapes


def llama_tensors() -> dict[str, torch.Tensor]:
    """Seeded tensors that fit LLAMA."""
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in llama_shapes().items()}


def write_sparse(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """A float32 safetensors file full of holes that read as zeros; returns the bytes it claims."""
    entries, position = {}, 0
    for name, shape in shapes.items():
        end = position + 4 * prod(shape)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [position, end]}
        position = end
    header = json.dumps(entries).encode()
    head = raw_safetensors(header + b" " * (-len(header) % 8))
    with file.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + position)
    return position


def write_llama(
    folder: Path, changes: Mapping[str, Any] | None = None, tensors: Mapping[str, torch.Tensor] | None = None
) -> Path:
    """A whole model folder: config.json and model.safetensors."""
    write_config(folder, changes)
    save_file(dict(tensors if tensors is not None else llama_tensors()), folder / "model.safetensors")
    return folder


def write_shards(folder: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """The same model in two shards with an index."""
    write_config(folder, changes)
    tensors = llama_tensors()
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in halves.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def raw_safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """The bytes of a safetensors file with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tree(folder: Path) -> dict[str, int]:
    """Every file below a folder with its size."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
