"""Sounds and pictures that a network is judged on where nobody gives any: computed, so that no recording is shipped.

A voice is a source and a filter (Fant, "Acoustic Theory of Speech Production", 1960): harmonics of a gliding pitch,
which three resonances raise, with the loudness of syllables and some breath. A picture is a smooth field with light
from one side, things with edges before it, and grain. Both have the mean 0 and the spread 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

RATE = 16_000
"""Samples a second, where nothing says otherwise."""
_SHORTEST, _SMALLEST = 256, 16
_PITCHES, _GLIDE, _SYLLABLES = (80.0, 300.0), 0.2, 4.0
# Hz of the resonances of vowels, their width, and how much louder than the rest they are.
_RESONANCES, _WIDTH, _LOUDER = ((250.0, 800.0), (800.0, 2_500.0), (2_500.0, 3_500.0)), 150.0, 8.0
_BREATH, _GRAIN, _THINGS, _TONES = 0.02, 0.03, 4, 40


def audio_or_vision(model: nn.Module) -> bool:
    """Whether a module has convolutions, without which a row of numbers is hardly a sound."""
    return any(isinstance(part, _ConvNd) for part in model.modules())


def is_sound(value: Tensor) -> bool:
    """Whether an example may be a wave [N], [1, N] or [1, 1, N]: values on both sides of 0, 256 of them or more."""
    if not value.is_floating_point() or value.dim() not in (1, 2, 3) or value.numel() != value.shape[-1]:
        return False
    return value.numel() >= _SHORTEST and bool((value < 0).any()) and float(value.mean().abs()) < float(value.std()) / 2


def is_picture(value: Tensor) -> bool:
    """Whether an example may be pictures [N, C, H, W], with one channel or three, of 16 x 16 pixels or more."""
    shaped = value.dim() == 4 and value.shape[1] in (1, 3)
    return value.is_floating_point() and shaped and min(value.shape[2:]) >= _SMALLEST


def signal(value: Tensor, drawn: torch.Generator) -> Tensor:
    """A voice, or pictures, of the shape of an example; each has the mean 0 and the spread 1."""
    if is_picture(value):
        return torch.stack([_level(_picture(each, drawn)) for each in value])
    return _level(_voice(value.numel(), drawn)).reshape(value.shape)


def _voice(samples: int, drawn: torch.Generator) -> Tensor:
    """A vowel of one of many speakers [samples]."""
    times = torch.arange(samples) / RATE
    low, high = _PITCHES
    pitch = low * (high / low) ** _one(drawn)
    glide = 1 + _GLIDE * (2 * _one(drawn) - 1) * torch.sin(2 * math.pi * (times + _one(drawn)))
    phase = 2 * math.pi * torch.cumsum(pitch * glide, 0) / RATE
    numbers = torch.arange(1, max(2, min(_TONES, int(RATE / 2 / (pitch * (1 + _GLIDE))))))
    heard, strength = pitch * numbers, 1 / numbers
    for least, most in _RESONANCES:
        middle = least + (most - least) * _one(drawn)
        strength = strength * (1 + _LOUDER * torch.exp(-(((heard - middle) / _WIDTH) ** 2)))
    begins = 2 * math.pi * torch.rand(len(numbers), generator=drawn)
    tones = sum(
        float(each) * torch.sin(int(number) * phase + begin)
        for number, each, begin in zip(numbers, strength, begins, strict=True)
    )
    assert isinstance(tones, Tensor)
    loud = 0.55 + 0.45 * torch.sin(2 * math.pi * _SYLLABLES * (times + _one(drawn)))
    return loud * _level(tones) + _BREATH * torch.randn(samples, generator=drawn)


def _picture(value: Tensor, drawn: torch.Generator) -> Tensor:
    """Things of several colours in front of a smooth field [C, H, W]."""
    channels, high, wide = value.shape
    field = torch.rand(1, channels, 4, 4, generator=drawn) + 2 * torch.rand(1, 1, 4, 4, generator=drawn)
    picture = nn.functional.interpolate(field, size=(high, wide), mode="bicubic", align_corners=True)[0]
    down, along = torch.linspace(-1, 1, high)[:, None], torch.linspace(-1, 1, wide)
    for _ in range(_THINGS):
        middle, radii = 2 * torch.rand(2, generator=drawn) - 1, 0.1 + 0.6 * torch.rand(2, generator=drawn)
        away = ((down - middle[0]) / radii[0]).abs(), ((along - middle[1]) / radii[1]).abs()
        inside = torch.maximum(*away) < 1 if _one(drawn) < 0.5 else away[0].square() + away[1].square() < 1
        colour = 3 * torch.rand(channels, 1, 1, generator=drawn)
        picture = torch.where(inside, 0.8 * colour + 0.2 * picture, picture)
    return picture + _GRAIN * torch.randn(picture.shape, generator=drawn)


def _one(drawn: torch.Generator) -> float:
    return float(torch.rand((), generator=drawn))


def _level(values: Tensor) -> Tensor:
    return (values - values.mean()) / values.std().clamp(min=1e-6)
