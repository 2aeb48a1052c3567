"""The story model before it is trained, and its loss on rows of tokens."""

from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from examples.stories.settings import Shape
from examples.stories.tokens import BOS, EOS, token_id


def build_model(shape: Shape, tokenizer: Tokenizer) -> Any:
    """Build the model with random weights."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=shape.context,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=token_id(tokenizer, BOS),
        eos_token_id=token_id(tokenizer, EOS),
        use_cache=True,
    )
    return LlamaForCausalLM(config)


def loss_of(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of predicting each next token; negative ids in the rows are not predicted."""
    logits = model(input_ids=rows[:, :-1].clamp(min=0), use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), ignore_index=-100)
