"""Small models that are not decoders, seeded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """Two linear layers: float32 [B, 8] to [B, 3]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.last(torch.relu(self.first(features)))
        return result


class ConvNet(nn.Module):
    """Two convolutions with batch norm and a classifier: float32 [1, 3, 16, 16] to [1, 5]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, groups=8),
            nn.ReLU6(),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        result: Tensor = self.head(self.body(image).mean((2, 3)))
        return result


def spread(model: nn.Module) -> Any:
    """Weights as large as trained ones, so that a wrong mask or scale shows."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, parameter[0].numel() ** -0.5)
    return model.eval()


def bert(vocab_size: int = 128) -> Any:
    """A two-layer BERT with a classifier of 4 classes."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=4,
    )
    return spread(BertForSequenceClassification._from_config(config, attn_implementation="sdpa"))


def bert_body() -> Any:
    """The same without a classifier: a vector for each token, and one for the text."""
    from transformers import BertModel

    return spread(BertModel._from_config(bert().config, attn_implementation="sdpa"))


def vit() -> Any:
    """A two-layer ViT for float32 [1, 3, 16, 16], 4 classes."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
        num_labels=4,
    )
    return spread(ViTForImageClassification._from_config(config, attn_implementation="sdpa"))


def padded_text() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Twelve tokens of which the last four are padding, and the first eight alone."""
    tokens = torch.randint(3, 128, (1, 12), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(tokens)
    mask[:, 8:] = 0
    padded = {"input_ids": tokens, "attention_mask": mask}
    return padded, {name: value[:, :8] for name, value in padded.items()}
