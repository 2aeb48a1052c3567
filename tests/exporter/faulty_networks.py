"""A minimal network for each way in which trained networks once broke an export, with weights made here.

Each is a factory: a module, and an example of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

Made = tuple[nn.Module, tuple[Tensor, ...]]


class First(nn.Module):
    """A recurrent layer whose outputs alone are used."""

    def __init__(self, recurrent: nn.Module) -> None:
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.recurrent(x)[0]
        return outputs


class Upsample(nn.Module):
    """A sequence that is stretched by a quarter before a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(16, 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        stretched = nn.functional.interpolate(x, size=x.shape[-1] * 5 // 4, mode="linear", align_corners=True)
        outputs: Tensor = self.convolution(stretched)
        return outputs


class Normalize(nn.Module):
    """Vectors of length 1 along the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(16, 32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(self.convolution(x), dim=1)


class Computed(nn.Module):
    """A convolution whose weight is a product of two parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shape = nn.Parameter(torch.rand(40, 1)), nn.Buffer(torch.rand(1, 125))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv1d(x, (self.scale.abs() @ self.shape)[:, None], stride=10)


class Mels(nn.Module):
    """Sound to the logarithms of 20 bands, which a convolution reads: the front of many networks that hear."""

    def __init__(self) -> None:
        super().__init__()
        self.window, self.bands = nn.Buffer(torch.hann_window(256)), nn.Buffer(torch.rand(20, 129) / 129)
        self.convolution = nn.Conv1d(20, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 256, 128, window=self.window, return_complex=True)
        outputs: Tensor = self.convolution((self.bands @ spectrum.abs().square()).clamp(min=1e-4).log())
        return outputs


def _made(module: Callable[[], nn.Module], *shape: int) -> Made:
    torch.manual_seed(0)
    return module().eval(), (torch.randn(*shape),)


def lstm() -> Made:
    """A layer of 32 over eight steps."""
    return _made(lambda: First(nn.LSTM(32, 32, batch_first=True)), 1, 8, 32)


def bilstm() -> Made:
    """The same in both directions."""
    return _made(lambda: First(nn.LSTM(32, 32, batch_first=True, bidirectional=True)), 1, 8, 32)


def gru() -> Made:
    """A layer of 32 over eight steps."""
    return _made(lambda: First(nn.GRU(32, 32, batch_first=True)), 1, 8, 32)


def traced() -> Made:
    """A TorchScript."""
    module, inputs = _made(lambda: nn.Linear(4, 4), 1, 4)
    return torch.jit.trace(module, inputs), inputs


def prelu() -> Made:
    """A slope for each channel of an image."""
    return _made(lambda: nn.Sequential(nn.Conv2d(3, 32, 3), nn.PReLU(32)), 1, 3, 48, 48)


def prelu_of_vectors() -> Made:
    """A slope for each value of a vector; trained slopes differ, and those of a new module are all 0.25."""
    module, inputs = _made(lambda: nn.Sequential(nn.Linear(16, 32), nn.PReLU(32), nn.Linear(32, 4)), 1, 16)
    nn.init.uniform_(module[1].weight, 0.1, 0.5)  # type: ignore[index]
    return module, inputs


def upsample() -> Made:
    """Linear upsampling of a sequence."""
    return _made(Upsample, 1, 16, 200)


def instance() -> Made:
    """An instance norm with weights."""
    return _made(lambda: nn.Sequential(nn.Conv1d(16, 32, 3), nn.InstanceNorm1d(32, affine=True)), 1, 16, 64)


def normalize() -> Made:
    """``F.normalize``."""
    return _made(Normalize, 1, 16, 64)


def group() -> Made:
    """A group norm over 16,384 values."""
    return _made(lambda: nn.GroupNorm(4, 512), 1, 512, 128)


def layer() -> Made:
    """A layer norm over 2,048 values."""
    return _made(lambda: nn.LayerNorm(2048), 1, 16, 2048)


def pool() -> Made:
    """The mean of 25,600 values."""
    return _made(lambda: nn.AdaptiveAvgPool2d(1), 1, 8, 160, 160)


def weightless() -> Made:
    """No weights at all."""
    return _made(nn.ReLU, 1, 4)


def computed() -> Made:
    """A weight that ``forward`` computes."""
    return _made(Computed, 1, 1, 1600)


def normed_weights() -> Made:
    """A weight norm, whose direction and length are parameters."""
    return _made(lambda: nn.Sequential(weight_norm(nn.Conv1d(16, 32, 3)), nn.ReLU()), 1, 16, 64)


def spectral() -> Made:
    """A spectral norm, whose vectors are buffers."""
    return _made(lambda: nn.Sequential(spectral_norm(nn.Linear(32, 32)), nn.ReLU()), 1, 4, 32)


def mels() -> Made:
    """A spectrum inside the module, whose values are complex numbers."""
    return _made(Mels, 1, 2048)
