"""Tiny random decoders with every type of rotary positions that transformers has, for tests of their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Short of it a text is shorter than the model was first trained for; the longest text is CONTEXT.
FIRST, CONTEXT = 40, 96
HEAD = 16
SIZES: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    # Queries and keys large enough that attention follows the angles.
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING, FULL = "sliding_attention", "full_attention"
LAYERS: Mapping[str, Any] = {"layer_types": [SLIDING, FULL], "sliding_window": 32, "head_dim": HEAD}
BASE = 10000.0


def longrope(width: int = HEAD, **others: Any) -> dict[str, Any]:
    """LongRoPE whose long factors are far from the short ones."""
    short = [1.0 + 0.1 * index for index in range(width // 2)]
    long = [3.0 + index for index in range(width // 2)]
    return {"rope_type": "longrope", "rope_theta": BASE, "short_factor": short, "long_factor": long, **others}


def rope(kind: str, **others: Any) -> dict[str, Any]:
    """The parameters of another type."""
    return {"rope_type": kind, "rope_theta": BASE, **others}


@dataclass(frozen=True)
class RopeModel:
    """A tiny decoder.

    Attributes:
        name: of the case.
        parameters: its rope_parameters.
        family: transformers' ``model_type``.
        options: what its config says beyond SIZES.
        first: the longest text with its first frequencies, where others exist.
        others: an artifact may have those.
        experts: its layers have experts, which static targets do not hold.
    """

    name: str
    parameters: Mapping[str, Any]
    family: str = "llama"
    options: Mapping[str, Any] = field(default_factory=lambda: {"head_dim": HEAD})
    first: int | None = None
    others: bool = True
    experts: bool = False

    def config(self, **changed: Any) -> Any:
        """The transformers config; ``changed``: rope parameters in the place of its own."""
        from transformers import AutoConfig

        parameters = {**self.parameters, **changed}
        return AutoConfig.for_model(self.family, **{**SIZES, **self.options}, rope_parameters=parameters)

    def model(self, config: Any = None) -> Any:
        """The model with its seeded weights, which do not depend on the rope parameters."""
        from transformers import AutoModelForCausalLM

        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(config or self.config(), attn_implementation="eager")
        return made.float().eval()

    def save(self, folder: Path) -> Path:
        """The model's folder."""
        self.model().save_pretrained(folder)
        return folder


YARN = rope("yarn", factor=2.4, original_max_position_embeddings=FIRST)
LLAMA3 = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": FIRST}
MODELS = (
    RopeModel("default", rope("default")),
    RopeModel("linear", rope("linear", factor=4.0)),
    RopeModel("dynamic", rope("dynamic", factor=4.0), first=CONTEXT, others=False),
    RopeModel("yarn", YARN),
    RopeModel("yarn, attention_factor", {**YARN, "attention_factor": 0.7}),
    RopeModel("yarn, mscale", {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False}),
    RopeModel("llama3", rope("llama3", **LLAMA3)),
    RopeModel("proportional", rope("proportional", partial_rotary_factor=0.5)),
    RopeModel("longrope", longrope(original_max_position_embeddings=FIRST, factor=2.4), first=FIRST),
    RopeModel("longrope beside the parameters", longrope(), "phi3", {"original_max_position_embeddings": FIRST}, FIRST),
    RopeModel(
        "longrope of half a head",
        longrope(HEAD // 2, partial_rotary_factor=0.5, attention_factor=1.3),
        "phi3",
        {"original_max_position_embeddings": FIRST},
        FIRST,
    ),
    RopeModel(
        "longrope in some layers",
        {SLIDING: rope("default"), FULL: longrope(original_max_position_embeddings=FIRST)},
        "gemma3_text",
        LAYERS,
        FIRST,
    ),
    RopeModel(
        "dynamic in some layers",
        {SLIDING: rope("dynamic", factor=2.0), FULL: rope("linear", factor=8.0)},
        "gemma3_text",
        LAYERS,
        CONTEXT,
        others=False,
    ),
    RopeModel("queries scaled by position", {**YARN, "llama_4_scaling_beta": 0.5}, "ministral3", {"head_dim": HEAD}),
    RopeModel(
        "scaled by length",
        longrope(original_max_position_embeddings=FIRST, short_mscale=1.1, long_mscale=1.4),
        "phimoe",
        {"num_local_experts": 4},
        FIRST,
        others=False,
        experts=True,
    ),
)
BY_NAME = {each.name: each for each in MODELS}


def text(length: int = CONTEXT) -> list[int]:
    """Seeded token ids."""
    return torch.randint(3, 128, (length,), generator=torch.Generator().manual_seed(2)).tolist()


def whole(model: Any, tokens: Sequence[int]) -> Tensor:
    """transformers' logits after a text that it reads in one call, [V]."""
    with torch.no_grad():
        logits: Tensor = model(torch.tensor([list(tokens)]), use_cache=False).logits[0, -1]
    return logits
