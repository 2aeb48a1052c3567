"""The parts of a training run: the model's shape, the settings, and the progress."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from examples.training.tokens import Corpus


@dataclass(frozen=True)
class Shape:
    """The model's widths, all multiples of 32, so that every group size of four-bit weights fits."""

    vocabulary: int = 2048
    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    intermediate: int = 512
    context: int = 512


@dataclass(frozen=True)
class Settings:
    """The settings of one training run: its texts, its budget and its output."""

    texts: tuple[Path, ...]
    out: Path
    checkpoint: Path
    steps: int = 6000
    minutes: float = 70.0
    seed: int = 0
    batch: int = 4
    length: int = 512
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.1
    warm_up: float = 0.03
    dialogue_share: float = 0.15
    checkpoint_seconds: float = 600.0
    log_steps: int = 20
    threads: int = 2
    resume: bool = False
    measure_only: bool = False


@dataclass(frozen=True)
class Progress:
    """The progress of a run, kept in the checkpoint."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class HeldOutLoss:
    """Loss on the held-out text, per token and per byte."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


@dataclass(frozen=True)
class Session:
    """The objects that the steps of one run share."""

    settings: Settings
    tokenizer: Tokenizer
    corpus: Corpus
    model: Any
    optimizer: torch.optim.Optimizer
