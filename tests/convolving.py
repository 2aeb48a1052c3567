"""Small convolving modules, seeded, with batch norms as training leaves them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def trained(module: nn.Module) -> nn.Module:
    """The module in evaluation mode, with running statistics and factors that differ from channel to channel."""
    torch.manual_seed(1)
    for each in module.modules():
        if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d):
            assert each.running_mean is not None and each.running_var is not None
            nn.init.normal_(each.running_mean, 0.0, 0.5)
            nn.init.uniform_(each.running_var, 0.2, 3.0)
            nn.init.uniform_(each.weight, 0.5, 1.5)
            nn.init.normal_(each.bias, 0.0, 0.2)
    return module.eval()


class Residual(nn.Module):
    """Two convolutions whose result is added to what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return torch.relu(self.norm(self.second(x)) + x)


class Branches(nn.Module):
    """Two convolutions and a pooling side by side, whose channels the next convolution reads as one."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 6, 3, padding=1)
        self.joined = nn.Conv2d(14, 5, 3)

    def forward(self, x: Tensor) -> Tensor:
        narrow, wide = torch.relu(self.narrow(x)), torch.relu(self.wide(3 * x))
        pooled = nn.functional.max_pool2d(narrow, 3, 1, 1)
        return torch.relu(self.joined(torch.cat([narrow, wide, pooled], 1)))


class Averaged(nn.Module):
    """A convolution whose means a second one reads: the head of many a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.last(nn.functional.adaptive_avg_pool2d(torch.relu(self.first(x)), 1)))


class Pitch(nn.Module):
    """What torchcrepe's nets are made of: padded at one side more, ReLU before the norm, pooled; then a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(1, 16, (16, 1), (4, 1)), nn.BatchNorm2d(16)
        self.second, self.second_norm = nn.Conv2d(16, 8, (8, 1)), nn.BatchNorm2d(8)
        self.classifier = nn.Linear(8 * 8, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for conv, norm, pad in ((self.first, self.first_norm, (6, 6)), (self.second, self.second_norm, (3, 4))):
            x = norm(torch.relu(conv(nn.functional.pad(x, (0, 0, *pad)))))
            x = nn.functional.max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def _images(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


MAKERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv": (lambda: _images(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6()), (1, 3, 12, 12)),
    "strided, dilated, without bias": (lambda: nn.Conv2d(3, 8, 3, 2, 2, 2, bias=False), (1, 3, 13, 12)),
    "sound": (
        lambda: _images(nn.Conv1d(4, 8, 5, padding=2), nn.ReLU(), nn.Conv1d(8, 6, 3, stride=2)),
        (1, 4, 40),
    ),
    "same": (lambda: nn.Conv1d(4, 8, 4, padding="same"), (1, 4, 20)),
    "depthwise": (
        lambda: _images(nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)),
        (1, 8, 10, 10),
    ),
    "grouped": (lambda: _images(nn.Conv2d(8, 12, 3, groups=4), nn.ReLU()), (1, 8, 10, 10)),
    "transposed": (lambda: nn.ConvTranspose2d(6, 5, 3, stride=2, padding=1, output_padding=1), (1, 6, 7, 7)),
    "transposed sound": (lambda: _images(nn.ConvTranspose1d(6, 5, 4, stride=2), nn.LeakyReLU(0.1)), (1, 6, 11)),
    "residual": (Residual, (1, 3, 12, 12)),
    "branches": (Branches, (1, 3, 12, 12)),
    "averaged": (Averaged, (1, 3, 12, 12)),
    "pitch": (Pitch, (1, 128)),
}
"""Modules by name: how each is made, and the shape of its input."""


def made(name: str) -> tuple[nn.Module, list[tuple[Tensor]]]:
    """A module, and six inputs for it."""
    make, shape = MAKERS[name]
    torch.manual_seed(0)
    module, drawn = trained(make()), torch.Generator().manual_seed(2)
    return module, [(torch.randn(shape, generator=drawn),) for _ in range(6)]
