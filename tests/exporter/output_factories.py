"""Modules whose outputs are hard to judge, for ``edgec export tests.exporter.output_factories:NAME``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Tensor, ...]]
_ROWS = torch.randn(1, 64, 32, generator=torch.Generator().manual_seed(0))
_KEPT = (torch.arange(64) < 40).long().unsqueeze(0)


class _Detector(nn.Module):
    """Boxes in pixels beside a score of normalised features, whose squares float16 does not hold."""

    def __init__(self, *, by_hand: bool) -> None:
        super().__init__()
        self.boxes, self.features, self.by_hand = nn.Linear(32, 4), nn.Linear(32, 64), by_hand

    def forward(self, x: Tensor) -> Tensor:
        features = 400 * self.features(x)
        own = features / (features.pow(2).sum(-1, keepdim=True).sqrt() + 1e-6)
        unit = own if self.by_hand else functional.normalize(features, dim=-1)
        return torch.cat([torch.sigmoid(self.boxes(x)) * 640, torch.sigmoid(5 * unit[..., :1])], -1)


class _Around(nn.Module):
    """A channel that varies little around a large value, or not at all, among others."""

    def __init__(self, value: float, weight: float) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 16)
        with torch.no_grad():
            self.linear.weight[3] *= weight
            self.linear.bias[3] = value

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y


class _Hidden(nn.Module):
    """Scores of which a mask hides some."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 8)

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        scores: Tensor = self.linear(x)
        return scores.masked_fill(kept[..., None] == 0, -math.inf)


class _Masked(nn.Module):
    """Attention under an added mask of float32's least number; a row of the batch sees nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        mask = (1.0 - kept[:, None, :].float()) * torch.finfo(torch.float32).min
        result: Tensor = torch.softmax(q @ k.transpose(1, 2) + mask, -1).nan_to_num(0.0) @ v
        return result


class _Classes(nn.Module):
    """A map of classes whose scores lie close together, and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 150, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.last(functional.gelu(self.first(x)))
        return scores.argmax(1), scores[:, :1] > 0


def _made(module: nn.Module, *inputs: Tensor) -> Made:
    return module.eval(), inputs


def normalised() -> Made:
    """Boxes beside scores, made by ``F.normalize``."""
    torch.manual_seed(0)
    return _made(_Detector(by_hand=False), _ROWS)


def squared() -> Made:
    """Boxes beside scores, whose features are squared as they are."""
    torch.manual_seed(0)
    return _made(_Detector(by_hand=True), _ROWS)


def around() -> Made:
    """A channel that varies by a few around 30,000."""
    torch.manual_seed(0)
    return _made(_Around(30000.0, 4.0), _ROWS)


def constant() -> Made:
    """A channel that is always 1.2345."""
    torch.manual_seed(0)
    return _made(_Around(1.2345, 0.0), _ROWS)


def hidden() -> Made:
    """Outputs with -inf."""
    torch.manual_seed(0)
    return _made(_Hidden(), _ROWS, _KEPT)


def masked() -> Made:
    """A batch of two, the second of which sees nothing."""
    torch.manual_seed(0)
    return _made(_Masked(), torch.cat([_ROWS, _ROWS.flip(1)]), torch.cat([_KEPT, 0 * _KEPT]))


def classes() -> Made:
    """A map of classes and a mask of an image."""
    torch.manual_seed(0)
    return _made(_Classes(), torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1)))


class _Logarithm(nn.Module):
    """What is defined on its examples alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.log(x - 2).sum(-1, keepdim=True) + self.linear(x)
        return result


def logarithm() -> Made:
    """Examples above 2, while golden vectors lie below 1."""
    return _made(_Logarithm(), _ROWS.abs() + 3)
