"""Vision-language models among transformers' models: their class, what their eyes read, and how each family is asked.

A family's image encoder and projector are its own code; what differs between families is under which names they are
reached, and in which shape images are handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import Ahead
from edgec.bundle.tokenizer_folder import IMAGE_FILES
from edgec.errors import InputError

TASK = "image-text-to-text"
_MOST_VALUES = 1 << 26


@dataclass(frozen=True)
class Family:
    """How a family of vision-language models is asked.

    Attributes:
        see: a model and one tile, float32 [1, C, H, W] -> its rows, float32 [T, hidden]; free of control flow that
            depends on values.
        given: one tile -> the argument ``pixel_values`` of the model's own functions.
        ahead: what sees tokens after itself.
        kinds: which tokens are rows, bool [1, L], and the prompt's length -> what the model's own function takes as
            ``token_type_ids``, where it wants to be told.
        first_place: the position that the model gives to the first token.
    """

    see: Callable[[Any, Tensor], Tensor]
    given: Callable[[Tensor], Tensor] = lambda pixels: pixels
    ahead: Ahead = "none"
    kinds: Callable[[Tensor, int], Tensor] | None = None
    first_place: int = 0


def _own_features(model: Any, pixels: Tensor) -> Tensor:
    rows = model.get_image_features(pixel_values=pixels, return_dict=True).pooler_output
    return torch.cat([each.flatten(0, -2) for each in rows])


def _connected(model: Any, pixels: Tensor) -> Tensor:
    """The rows without the search for padding among the tiles, which depends on their values."""
    seen = model.model.vision_model(pixel_values=pixels, return_dict=True).last_hidden_state
    rows: Tensor = model.model.connector(seen)
    return rows.flatten(0, 1)


def _after_prompt(seen: Tensor, prompt: int) -> Tensor:
    return (torch.arange(seen.shape[1]) >= prompt).long().unsqueeze(0)


FAMILIES: Mapping[str, Family] = {
    "gemma3": Family(_own_features, ahead="image", kinds=lambda seen, _: seen.long()),
    "paligemma": Family(_own_features, ahead="prompt", kinds=_after_prompt, first_place=1),
    "llava": Family(_own_features),
    "internvl": Family(_own_features),
    "idefics3": Family(_connected, lambda pixels: pixels[None]),
    "smolvlm": Family(_connected, lambda pixels: pixels[None]),
}
"""By the config's ``model_type``; other families export without their eyes."""


@dataclass(frozen=True)
class Eyes:
    """What the image encoder of a vision-language model reads.

    Attributes:
        family: key of ``FAMILIES``.
        shape: of one tile: channels, height and width.
        image_token: the id that stands in a text for each row of an image.
        processor_files: the descriptions of transformers' image processor that are present.
    """

    family: str
    shape: tuple[int, int, int]
    image_token: int
    processor_files: tuple[Path, ...] = ()

    @property
    def asked(self) -> Family:
        """How the model is asked."""
        return FAMILIES[self.family]


def is_vision_language(config: Any) -> bool:
    """Whether edgec knows the eyes of this model, and transformers generates text with them."""
    from transformers import AutoModelForImageTextToText

    return config.model_type in FAMILIES and type(config) in AutoModelForImageTextToText._model_mapping


def eyes_of(config: Any, folder: Path) -> Eyes:
    """What the image encoder of a model reads.

    Args:
        config: of transformers.
        folder: where the image processor's description may lie.

    Raises:
        InputError: E650, its config does not say so, or not within bounds.
    """
    vision: Any = config.vision_config
    size: Any = getattr(vision, "image_size", None)
    height, width = size if isinstance(size, list | tuple) and len(size) == 2 else (size, size)
    channels: Any = getattr(vision, "num_channels", 3)
    token: Any = getattr(config, "image_token_id", None)
    numbers = {"image height": height, "image width": width, "num_channels": channels, "image_token_id": token}
    fault = _fault(numbers, config.get_text_config().vocab_size)
    if fault:
        raise InputError(
            "config.json does not say what the image encoder reads.",
            where=str(folder),
            why=fault,
            fix="use the config.json of the same model, or export its text part alone with --task text-generation",
            code="E650",
        )
    files = tuple(folder / name for name in IMAGE_FILES if (folder / name).is_file())
    return Eyes(config.model_type, (channels, height, width), token, files)


def _fault(numbers: Mapping[str, Any], vocabulary: int) -> str:
    """What makes no sense among sizes and token; empty where all do."""
    for name, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            return f"{name} is {value!r}"
    *sizes, token = numbers.values()
    if prod(sizes) > _MOST_VALUES:
        return f"an image of {' x '.join(map(str, sizes))} values is too large"
    return f"image_token_id is {token}, and there are {vocabulary} tokens" if token >= vocabulary else ""
