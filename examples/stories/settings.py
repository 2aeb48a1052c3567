"""The settings of a training run on sampled stories, and its progress."""

from dataclasses import dataclass, field
from pathlib import Path


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
class StorySettings:
    """One run: its stories, its budget and its output.

    The learning rate follows the share of the budget that is used up, in steps or in minutes, whichever is further on.
    ``learning_rate`` is that of AdamW (embedding and norms), ``matrix_rate`` that of Muon (the blocks' matrices).
    """

    stories: Path
    out: Path
    shape: Shape = field(default_factory=Shape)
    steps: int = 5000
    minutes: float = 90.0
    seed: int = 0
    batch: int = 8
    length: int = 512
    learning_rate: float = 3e-3
    matrix_rate: float = 0.02
    weight_decay: float = 0.05
    warm_up: float = 0.02
    checkpoint_seconds: float = 300.0
    log_steps: int = 10
    threads: int = 1

    @property
    def checkpoint(self) -> Path:
        """The file that a stopped run continues from."""
        return self.out.with_name(self.out.name + ".checkpoint.pt")


@dataclass(frozen=True)
class Progress:
    """How far a run has come; ``loss`` is a running mean of the training loss, in nats per token."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    loss: float = 0.0

    def spent(self, settings: StorySettings) -> float:
        """The share of the budget that is used up, 0 to 1."""
        return min(1.0, max(self.step / settings.steps, self.seconds / (60 * settings.minutes)))
