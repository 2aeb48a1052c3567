"""Images and sounds as a network's inputs, by the declared preparation.

Files come from outside: images are checked before their pixels are decoded (``read_image``), and the length of a sound
is read of its header before its samples are (``sound_length``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.bundle.input_preparation import COLOURS, ImagePreparation, SoundPreparation
from edgec.errors import InputError
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.media.image_file import ImageSource, read_image
from edgec.runtime_py.media.sound_file import read_sound, sound_length
from edgec.runtime_py.vision_language.prepared_images import fitted

LONGEST_S = 600
"""Seconds of a sound that examples are taken from; at 192 kHz in float32 half a GB."""


@dataclass(frozen=True)
class InputForm:
    """The input that is filled.

    Attributes:
        name: of the input.
        shape: all of its axes, with those of size 1.
        dtype: as numpy names it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


def check_fit(how: ImagePreparation | SoundPreparation, form: InputForm) -> None:
    """Refuse a preparation whose result cannot have an input's shape and type.

    Raises:
        InputError: E851.
    """
    if isinstance(how, SoundPreparation):
        _sound_length(form)
    else:
        _image_size(how, form)
        _check_bytes(how, form)


def prepared_image(source: ImageSource, how: ImagePreparation, form: InputForm) -> Array:
    """An image as an input.

    Args:
        source: a file, uint8 [H, W, 3], or an image of Pillow.
        how: the declared preparation.
        form: of the input.

    Raises:
        InputError: E653 to E655, the image; E851, the declaration does not fit the input.
        ToolError: E670, Pillow is not installed.
    """
    check_fit(how, form)
    height, width = _image_size(how, form)
    image = fitted(read_image(source), how.whole(height, width), (width, height))
    pixels = np.asarray(image.convert("L") if how.colours == "grey" else image).reshape(height, width, -1)
    pixels = pixels[..., ::-1] if how.colours == "BGR" else pixels
    scaled = (pixels.astype(np.float64) * how.scale).astype(np.float32)
    values = (scaled - np.asarray(how.mean, np.float32)) / np.asarray(how.std, np.float32)
    ordered = values.transpose(2, 0, 1) if how.channels == "first" else values
    return np.ascontiguousarray(ordered.reshape(form.shape)).astype(form.dtype)


def sound_windows(file: Path, how: SoundPreparation, form: InputForm, most: int) -> tuple[list[Array], int]:
    """Windows of a WAV file as inputs, spread evenly over it, and how many it has; a shorter sound gets zeros after it.

    Args:
        file: the sound.
        how: the declared preparation.
        form: of the input.
        most: of the windows.

    Raises:
        InputError: E177 and E178, the file, or its rate; E851, the declaration does not fit the input; E853, it lasts
            more than ten minutes.
    """
    length, seconds = _sound_length(form), sound_length(file, how.rate) / how.rate
    if seconds > LONGEST_S:
        raise InputError(
            what=f"The sound lasts {seconds:,.0f} seconds.",
            where=str(file),
            why=f"examples are taken from {LONGEST_S} seconds at most, which bounds the memory",
            fix="cut it, or save several shorter ones",
            code="E853",
        )
    samples = read_sound(file, how.rate)
    samples = np.pad(samples, (0, max(0, length - samples.size)))
    begins = range(0, samples.size - length + 1, how.step or length)
    windows = [_levelled(samples[at : at + length], how) for at in spread(begins, most)]
    return [window.reshape(form.shape).astype(form.dtype) for window in windows], len(begins)


def prepared_from(
    source: Any, how: ImagePreparation | SoundPreparation, name: str, shape: tuple[int, ...], dtype: str
) -> Array:
    """An image (see ``prepared_image``), or the file of a sound no longer than the input, as one input.

    Raises:
        InputError: those of ``prepared_image`` and ``sound_windows``; E853, the sound has several windows.
    """
    form = InputForm(name, shape, dtype)
    if isinstance(how, ImagePreparation):
        return prepared_image(source, how, form)
    windows, count = sound_windows(Path(source), how, form, 1)
    if count > 1:
        raise InputError(
            what=f"The sound is longer than the input {name}.",
            where=str(source),
            why=f"it holds {count:,} windows of {shape[-1]:,} samples",
            fix="cut it, and run the model on each part",
            code="E853",
        )
    return windows[0]


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the values, from everywhere."""
    count = min(len(values), most)
    return [values[index * len(values) // count] for index in range(count)]


def _levelled(window: Array, how: SoundPreparation) -> Array:
    if how.level == "mean_and_spread":
        # Silence has no spread; it stays silence.
        window = (window - window.mean()) / max(float(window.std()), 1e-10)
    return np.asarray(window * np.float32(how.scale), np.float32)


def _image_size(how: ImagePreparation, form: InputForm) -> tuple[int, int]:
    """Height and width of an input that holds one image."""
    axes = form.shape[1:] if len(form.shape) == 4 and form.shape[0] == 1 else form.shape
    if len(axes) != 3:
        raise _unfit(form, "an image is [C, H, W] or [1, C, H, W], or with its channels last")
    channels, *size = axes if how.channels == "first" else (axes[2], *axes[:2])
    if channels != COLOURS[how.colours]:
        wanted = f"{how.colours} has {COLOURS[how.colours]} channels, and the input has {channels}"
        raise _unfit(form, f"{wanted} where they come {how.channels}")
    return size[0], size[1]


def _check_bytes(how: ImagePreparation, form: InputForm) -> None:
    kept = how.scale == 1 and not np.any(how.mean) and bool(np.all(np.asarray(how.std) == 1))
    if not np.issubdtype(np.dtype(form.dtype), np.floating) and not (form.dtype == "uint8" and kept):
        raise _unfit(form, "it reads whole numbers: these are bytes as they are (uint8, scale 1), or not an image's")


def _sound_length(form: InputForm) -> int:
    *others, length = form.shape or (1,)
    floats = np.issubdtype(np.dtype(form.dtype), np.floating)
    if not floats or any(size != 1 for size in others) or length < 2:
        raise _unfit(form, "a sound is a row of floats: [N], [1, N] or [1, 1, N]")
    return length


def _unfit(form: InputForm, why: str) -> InputError:
    return InputError(
        what=f"The input {form.name} cannot hold what is declared for it.",
        where=f"{form.name}: {form.dtype} {list(form.shape)}",
        why=why,
        fix="correct what the factory declares, or give arrays (.npz) for this input",
        code="E851",
    )
