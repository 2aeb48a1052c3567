"""The model, its optimizer and learning rate, and its loss on training and held-out text."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from examples.training.settings import HeldOutLoss, Progress, Settings, Shape
from examples.training.tokens import BOS, EOS, Corpus, Ids, token_id


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


def build_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    """Build AdamW, with weight decay on matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))


def spent(settings: Settings, progress: Progress) -> float:
    """Return the share of the budget that is used up, between 0 and 1."""
    return min(1.0, max(progress.step / settings.steps, progress.seconds / (60 * settings.minutes)))


def learning_rate(settings: Settings, share: float) -> float:
    """Return the learning rate at a share of the budget: linear warm-up, then a cosine to a fiftieth."""
    if share < settings.warm_up:
        return settings.learning_rate * (share + 1e-3) / (settings.warm_up + 1e-3)
    angle = math.pi * (share - settings.warm_up) / (1 - settings.warm_up)
    return settings.learning_rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(angle)))


def loss_of(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of predicting each next token; negative ids in the rows are not predicted."""
    logits = model(input_ids=rows[:, :-1].clamp(min=0), use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), ignore_index=-100)


def held_out_rows(corpus: Corpus, bos: int, length: int) -> Iterator[torch.Tensor]:
    """Yield batches of held-out windows: each has its own beginning token and shares no context with the others."""
    rows: list[Ids] = []
    for ids in corpus.held_out:
        for start in range(0, len(ids), length):
            row = np.full(length + 1, -100, dtype=np.int64)
            part = ids[start : start + length]
            row[0], row[1 : len(part) + 1] = bos, part
            rows.append(row)
    for start in range(0, len(rows), 8):
        yield torch.from_numpy(np.stack(rows[start : start + 8]))


@torch.no_grad()
def held_out_loss(model: Any, corpus: Corpus, bos: int, length: int) -> HeldOutLoss:
    """Measure the model on the held-out text."""
    model.eval()
    total, tokens = 0.0, 0
    for rows in held_out_rows(corpus, bos, length):
        count = int((rows[:, 1:] >= 0).sum())
        total, tokens = total + float(loss_of(model, rows)) * count, tokens + count
    model.train()
    bits = total / math.log(2) / max(1, corpus.held_out_bytes)
    return HeldOutLoss(nats_per_token=total / max(1, tokens), bits_per_byte=bits, tokens=tokens)
