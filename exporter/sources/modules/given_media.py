"""Examples of ``--inputs`` that are images or sounds, brought into a module's inputs as its factory declares.

    photos/a.jpg ...     one example a file
    voices/a.wav ...     windows of the input's length, from everywhere in the file

A file belongs to the input that is declared for its kind. Inputs without a declaration keep the factory's example.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from edgec.bundle.input_preparation import ImagePreparation, Preparations, SoundPreparation
from edgec.errors import InputError
from edgec.runtime_py.functions.prepared_inputs import InputForm, prepared_image, sound_windows

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp"})
SOUNDS = frozenset({".wav"})
_FEWEST_WINDOWS = 2
ExampleRow = tuple[Tensor, ...]


def is_media(file: Path) -> bool:
    """Whether a file's name is that of an image or a sound."""
    return file.suffix.lower() in IMAGES | SOUNDS


def media_rows(
    file: Path, declared: Preparations, names: Sequence[str], examples: Sequence[Tensor], most: int
) -> tuple[list[ExampleRow], int]:
    """The examples of a file, at most so many of a sound, and how many it has.

    Args:
        file: an image or a sound.
        declared: how inputs are made, by name.
        names: of the module's inputs, in order.
        examples: the module's example inputs.
        most: of a sound's windows; it gives two at least, where it has them.

    Raises:
        InputError: E852, no input or several are declared for its kind; E653 to E655 and E851, of an image; E177, E178,
            E851 and E853, of a sound.
        ToolError: E670, Pillow is not installed.
    """
    name, how = _input_of(file, declared)
    place = names.index(name)
    form = InputForm(name, tuple(examples[place].shape), str(examples[place].dtype).removeprefix("torch."))
    if isinstance(how, ImagePreparation):
        values, count = [prepared_image(file, how, form)], 1
    else:
        values, count = sound_windows(file, how, form, max(_FEWEST_WINDOWS, most))
    return [(*examples[:place], torch.from_numpy(value), *examples[place + 1 :]) for value in values], count


def _input_of(file: Path, declared: Preparations) -> tuple[str, ImagePreparation | SoundPreparation]:
    kind = "image" if file.suffix.lower() in IMAGES else "sound"
    wanted = ImagePreparation if kind == "image" else SoundPreparation
    found = [(name, how) for name, how in declared.items() if isinstance(how, wanted)]
    if len(found) == 1:
        return found[0]
    several = f"{', '.join(name for name, _ in found)} are both {kind}s: a file does not say which it is"
    fields = '"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]' if kind == "image" else '"rate": 16000'
    declare = f'let a factory return (module, examples, {{"x": {{"kind": "{kind}", {fields}}}}}), with x an input'
    raise InputError(
        what=f"--inputs: edgec does not know of {file.name} which input it is, or how it becomes one.",
        where=str(file),
        why=several if found else f"no input is declared as {'an image' if kind == 'image' else 'a sound'}",
        fix="give arrays (.npz) instead" if found else f"{declare}, or give arrays (.npz); see docs/modules.md",
        code="E852",
    )
