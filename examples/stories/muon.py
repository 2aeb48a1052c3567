"""Muon: momentum made orthogonal, matrix by matrix (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

torch.optim.Muon computes in bfloat16, which processors without such instructions emulate slowly. This one computes in
float32, and all matrices of a shape at once.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonal(update: Tensor) -> Tensor:
    """The nearest matrices with singular values of about one, for [count, rows, columns] float32."""
    wide = update.transpose(1, 2) if update.shape[1] > update.shape[2] else update
    out: Tensor = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, second, third = COEFFICIENTS
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = out @ out.transpose(1, 2)
        out = first * out + (second * gram + third * gram @ gram) @ out
    return out.transpose(1, 2) if update.shape[1] > update.shape[2] else out


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; for the matrices inside the blocks, not for embeddings or norms."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step; a matrix of R rows and C columns moves by ``lr`` times sqrt(max(1, R / C))."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                shapes[parameter.shape].append(parameter)
            for same in shapes.values():
                self._move(same, group)

    def _move(self, same: list[Tensor], group: dict[str, Any]) -> None:
        updates = torch.stack([self._momentum(parameter, group["momentum"]) for parameter in same])
        rows, columns = same[0].shape
        rate = group["lr"] * max(1.0, rows / columns) ** 0.5
        for parameter, update in zip(same, orthogonal(updates), strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=rate)

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)
