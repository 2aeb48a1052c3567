"""Inputs like those that networks see: synthetic voices and pictures, so that no recording is needed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

RATE = 16_000


def sound(drawn: torch.Generator, samples: int) -> Tensor:
    """A synthetic voice between 80 and 800 Hz [samples]: harmonics that fall off, with noise; its spread is 1."""
    pitch = 80 * 10 ** float(torch.rand((), generator=drawn))
    times = torch.arange(samples) / RATE
    count = max(1, min(20, int(RATE / 2 / pitch) - 1))
    strength = torch.rand(count, generator=drawn) / torch.arange(1, count + 1)
    phase = 2 * math.pi * torch.rand(count, generator=drawn)
    tones = torch.sin(2 * math.pi * pitch * torch.arange(1, count + 1)[:, None] * times + phase[:, None])
    voice = (strength[:, None] * tones).sum(0) + 0.02 * torch.randn(samples, generator=drawn)
    return (voice - voice.mean()) / voice.std()


def melody(drawn: torch.Generator, samples: int, note: int = 1024) -> Tensor:
    """Synthetic voices of so many samples each, one after the other [samples], as loud as speech."""
    return 0.03 * torch.cat([sound(drawn, note) for _ in range(-(-samples // note))])[:samples]


def image(drawn: torch.Generator, size: int) -> Tensor:
    """A smooth coloured field with an ellipse of another colour [1, 3, size, size], in [0, 1]."""
    field = torch.rand(1, 3, 4, 4, generator=drawn)
    smooth = nn.functional.interpolate(field, size=(size, size), mode="bicubic", align_corners=True).clamp(0, 1)
    places = torch.linspace(-1, 1, size)
    middle, radii = 0.4 * torch.randn(2, generator=drawn), 0.3 + 0.5 * torch.rand(2, generator=drawn)
    inside = ((places - middle[0]) / radii[0]).square()[:, None] + ((places - middle[1]) / radii[1]).square() < 1
    colour = torch.rand(1, 3, 1, 1, generator=drawn)
    return torch.where(inside, 0.7 * colour + 0.3 * smooth, smooth)


def mel_power(drawn: torch.Generator) -> Tensor:
    """The power of 1.6 s of voices in 40 mel bands [1, 160, 40], as Resemblyzer's preprocessing makes it."""
    window = torch.hann_window(400)
    spectrum = torch.stft(melody(drawn, 26 * 1024), 400, 160, window=window, return_complex=True)
    power = spectrum.abs().square()[:, :160]
    mel = torch.linspace(0, 2595 * math.log10(1 + 8000 / 700), 42)
    edges = 700 * (10 ** (mel / 2595) - 1)
    places, (low, middle, high) = torch.linspace(0, 8000, 201), (edges[:-2, None], edges[1:-1, None], edges[2:, None])
    rising, falling = (places - low) / (middle - low), (high - places) / (high - middle)
    bands = torch.minimum(rising, falling).clamp(min=0) * 2 / (high - low)
    return (bands @ power).t().contiguous()[None]
