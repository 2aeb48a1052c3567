"""Tiny random encoders and vision models; ``modules.toml`` names their classes and sizes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.coverage_parts.tiny import tiny

MODULES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("modules.toml").read_text())
PARTS = ("text", "vision", "audio")
_MOST_PARAMETERS = 20_000_000
_LABELS = 5


def module_types(*parts: str) -> list[str]:
    """The model types of some parts of the table, or of all, sorted within each."""
    return [kind for part in parts or PARTS for kind in sorted(MODULES[part])]


def module_model(kind: str, seed: int = 0) -> Any:
    """A model of a type with seeded random weights, in eager attention.

    Raises:
        Exception: whatever the classes raise; there is no tiny configuration of that type.
        ValueError: the config is not tiny; nothing was allocated.
    """
    import transformers
    from transformers.initialization import no_init_weights

    part = next(part for part in PARTS if kind in MODULES[part])
    maker = getattr(transformers, MODULES[part][kind])
    config = tiny(maker.config_class, part, {"num_labels": _LABELS, **MODULES["type"].get(kind, {})})
    if getattr(config, "is_decoder", False):
        config.is_decoder = False
    with torch.device("meta"), no_init_weights():
        count = sum(p.numel() for p in maker(config).parameters())
    if count > _MOST_PARAMETERS:
        raise ValueError(f"the tiny config has {count} parameters")
    torch.manual_seed(seed)
    model = _eager(maker, config)
    _spread(model, torch.Generator().manual_seed(seed))
    return model.eval()


def _eager(maker: Any, config: Any) -> Any:
    try:
        return maker._from_config(config, attn_implementation="eager", dtype=torch.float32)
    except ValueError:  # A class with one form of attention only.
        return maker._from_config(config, dtype=torch.float32)


def _spread(model: nn.Module, drawn: torch.Generator) -> None:
    """Weights as large as trained ones, statistics of batch norms other than those they start from."""
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point():
                _draw(name.rpartition(".")[2], tensor, drawn)


def _draw(leaf: str, tensor: Tensor, drawn: torch.Generator) -> None:
    noise = torch.randn(tensor.shape, generator=drawn)
    if isinstance(tensor, nn.Parameter) and tensor.dim() > 1:
        tensor.copy_(noise * max(1, prod(tensor.shape[1:])) ** -0.5)
    elif leaf in ("weight", "gamma") or leaf.startswith("lambda"):
        tensor.add_(0.1 * noise)
    elif leaf in ("bias", "beta", "running_mean"):
        tensor.copy_(0.1 * noise)
    elif leaf == "running_var":
        tensor.copy_(1 + 0.2 * noise.abs())
