"""Medusa folders as github.com/FasterDecoding/Medusa saves them: a state dict of its modules, written here again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn


class ResBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, value: Tensor) -> Tensor:
        return value + nn.functional.silu(self.linear(value))


def medusa_heads(heads: int, blocks: int, width: int, vocabulary: int | None, seed: int = 3) -> nn.ModuleList:
    """Random heads; ``vocabulary``: None for those of the first release, which have no lm_head."""
    torch.manual_seed(seed)

    def head() -> nn.Sequential:
        own = [nn.Linear(width, vocabulary, bias=False)] if vocabulary else []
        return nn.Sequential(*(ResBlock(width) for _ in range(blocks)), *own)

    return nn.ModuleList([head() for _ in range(heads)]).requires_grad_(False)


def write_medusa(
    folder: Path, modules: nn.ModuleList, blocks: int, prefix: str = "", pickled: bool = False, **config: Any
) -> Path:
    """Save heads and their config, as the trainers do."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"{prefix}{name}": value.contiguous() for name, value in modules.state_dict().items()}
    if pickled:
        torch.save(state, folder / "medusa_lm_head.pt")
    else:
        save_file(state, folder / "medusa_lm_head.safetensors")
    said = {"medusa_num_heads": len(modules), "medusa_num_layers": blocks, "base_model_name_or_path": "tiny/base"}
    (folder / "config.json").write_text(json.dumps({**said, **config}))
    return folder


def fitted_heads(model: Any, texts: Tensor, heads: int) -> nn.ModuleList:
    """Heads that foresee what the model said: the least-squares solution in place of training, in no time.

    Args:
        model: a causal language model of transformers.
        texts: token ids [N, T] that it wrote.
        heads: how many; each has one block, which is left at nothing.
    """
    vocabulary, width = model.lm_head.weight.shape
    modules = medusa_heads(heads, 1, width, vocabulary)
    with torch.no_grad():
        hidden = model.model(texts, use_cache=False).last_hidden_state
        for place, head in enumerate(modules, 2):
            read, said = hidden[:, :-place].flatten(0, 1), texts[:, place:].flatten()
            wanted = nn.functional.one_hot(said, vocabulary).float()
            gram = read.T @ read + 1e-3 * torch.eye(width)
            head.get_parameter("0.linear.weight").zero_()
            head.get_parameter("0.linear.bias").zero_()
            head.get_parameter("1.weight").copy_(torch.linalg.solve(gram, read.T @ wanted).T)
    return modules
