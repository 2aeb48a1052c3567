"""A random two-layer Llama with a tokenizer of its own, as a folder that ``edgec export`` takes."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer

# That of examples/tiny-llama, so that the README's commands run on this one as well.
CONTEXT = 512


def tiny_llama() -> LlamaForCausalLM:
    """Seeded weights, spread enough for greedy tokens to stand apart."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": VOCAB}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.3}
    return LlamaForCausalLM(LlamaConfig(**shape, **heads, **special)).eval()


def write_model(folder: Path) -> Path:
    """Write config, weights and tokenizer; returns the folder."""
    tiny_llama().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
