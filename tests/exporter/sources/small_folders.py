"""The smallest folder that has matrices to quantise: no model, for readers of tensors alone."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file


def layer_folder(folder: Path, width: int = 128, rows: int = 32) -> Path:
    """A folder with two matrices [rows, width] and a norm."""
    made = folder / "float"
    made.mkdir(exist_ok=True)
    (made / "config.json").write_text("{}")
    generator = torch.Generator().manual_seed(3)
    names = ("layer.a_proj.weight", "layer.b_proj.weight")
    tensors = {name: 0.05 * torch.randn(rows, width, generator=generator) for name in names}
    save_file({**tensors, "norm.weight": torch.ones(width)}, made / "model.safetensors")
    return made
