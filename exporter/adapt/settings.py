"""Every number that training depends on, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgec.errors import InputError


@dataclass(frozen=True)
class Settings:
    """The settings of one training run.

    Attributes:
        steps: updates of the weights.
        batch: sequences of one forward pass, per process.
        accumulation: forward passes per update.
        length: tokens per sequence.
        learning_rate: peak, of the weights.
        scale_rate: peak, of the logarithms of scales.
        weight_decay: of matrices; norms, biases and scales have none.
        warm_up: share of the steps over which the rates rise, 0..1.
        final_rate: where the cosine ends, as a share of the peak, 0..1.
        clip: largest norm of the gradient.
        text_loss: weight of the text's next token in the loss, 0..1; the teacher has the rest.
        hidden_loss: weight of the match of each layer's attention output, 0 for none.
        temperature: of both distributions in the distillation loss.
        ema: decay of the moving average that is evaluated and written; 0 writes the last weights.
        low_rank: rank of an adapter that is trained beside the rounded, frozen weights; 0 trains the weights.
        merge: train the weights as W + B A of that rank instead, inside the rounding, and write the merged model.
        recompute: compute activations again in the backward pass (saves memory, costs time).
        seed: of the order of the text.
        evaluate_every: updates between measurements on the held-out text.
        held_out_tokens: how much of that text is measured.
        checkpoint_every: updates between checkpoints; 0 writes none.
    """

    steps: int = 1000
    batch: int = 4
    accumulation: int = 1
    length: int = 256
    learning_rate: float = 5e-4
    scale_rate: float = 5e-4
    weight_decay: float = 0.01
    warm_up: float = 0.05
    final_rate: float = 0.02
    clip: float = 1.0
    text_loss: float = 0.0
    hidden_loss: float = 0.0
    temperature: float = 1.0
    ema: float = 0.0
    low_rank: int = 0
    merge: bool = False
    recompute: bool = False
    seed: int = 0
    evaluate_every: int = 50
    held_out_tokens: int = 8192
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            InputError: E501.
        """
        for names, good, wanted in _RULES:
            for name in names:
                value = getattr(self, name)
                if not good(value):
                    raise InputError(f"{name} is {value}", "adapt's settings", fix=f"give {wanted}", code="E501")
        if self.merge and not self.low_rank:
            raise InputError("merge without low_rank", "adapt's settings", fix="give --low-rank too", code="E501")

    @property
    def adapter(self) -> bool:
        """Whether an adapter is trained, and the model's own weights are frozen."""
        return bool(self.low_rank) and not self.merge

    def to_json(self) -> dict[str, Any]:
        """The settings as plain data, for checkpoints and the report."""
        return asdict(self)


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Settings from the values that were given; the others have their defaults."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


_RULES: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("steps", "batch", "accumulation", "evaluate_every"), lambda v: v >= 1, "1 or more"),
    (("length", "held_out_tokens"), lambda v: v >= 2, "2 or more tokens"),
    (("learning_rate", "temperature", "clip"), lambda v: v > 0, "a number above 0"),
    (("scale_rate", "weight_decay", "hidden_loss"), lambda v: v >= 0, "a number of at least 0"),
    (("warm_up", "final_rate", "text_loss"), lambda v: 0 <= v <= 1, "a share from 0 to 1"),
    (("ema",), lambda v: 0 <= v < 1, "a decay from 0 to below 1"),
    (("low_rank", "checkpoint_every"), lambda v: v >= 0, "0 or more"),
)
