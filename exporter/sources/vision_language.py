"""Vision-language models among transformers' models: their class, what their eyes read, and how each family is asked.

A family's image encoder and projector are its own code; what differs between families is under which names they are
reached, and in which shape images are handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import Ahead, PatchesInfo
from edgec.bundle.tokenizer_folder import IMAGE_FILES
from edgec.errors import InputError
from edgec.exporter.sources.image_patches import (
    Computed,
    Size,
    attended,
    constants_of,
    cut_patches,
    fixed_size,
    in_windows,
    refuse_size,
    stretched,
)

TASK = "image-text-to-text"
_MOST_VALUES = 1 << 26
_LARGEST_PATCH = 1 << 10


@dataclass(frozen=True)
class Family:
    """How a family of vision-language models is asked.

    Attributes:
        see: a model, and what its own ``get_image_features`` is given for one tile -> the tile's rows, float32
            [T, width]; free of control flow that depends on values.
        given: what the model reads and one tile, float32 [1, C, H, W] -> the arguments of its own functions.
        read: a model, embeddings [1, S, hidden], positions as it takes them, and further rows for its first layers,
            0 where there is no image -> logits.
        ahead: what sees tokens after itself.
        kinds: which tokens are rows, bool [1, L], and the prompt's length -> what the model's own function takes as
            ``token_type_ids`` or ``mm_token_type_ids``, where it wants to be told.
        first_place: the position that the model gives to the first token.
        computed: what an encoder of images of any size computes of that size; none: its tiles have one size.
        mrope: whether positions have three parts.
    """

    see: Callable[[Any, Mapping[str, Any]], Tensor]
    given: Callable[[Eyes, Tensor], Mapping[str, Tensor]] = lambda _, pixels: {"pixel_values": pixels}
    read: Callable[[Any, Tensor, Tensor, Sequence[Tensor]], Tensor] = lambda model, embedded, places, _: _logits(
        model, embedded, places
    )
    ahead: Ahead = "none"
    kinds: Callable[[Tensor, int], Mapping[str, Tensor]] = lambda seen, prompt: {}
    first_place: int = 0
    computed: tuple[Computed, ...] = ()
    mrope: bool = False


def rows_of(output: Any) -> Tensor:
    """The rows that a model's own function made of one tile, [T, hidden].

    Where rows for the decoder's first layers come with them (DeepStack, arXiv 2406.04334), these lie behind each row:
    [T, (1 + levels) * hidden].
    """
    levels = (output.pooler_output, *(getattr(output, "deepstack_features", None) or ()))
    rows = [torch.cat([each.flatten(0, -2) for each in level]) for level in levels]
    return rows[0] if len(rows) == 1 else torch.cat(rows, -1)


def _own_features(model: Any, given: Mapping[str, Any]) -> Tensor:
    return rows_of(model.get_image_features(**given, return_dict=True))


def _connected(model: Any, given: Mapping[str, Any]) -> Tensor:
    """The rows without the search for padding among the tiles, which depends on their values."""
    seen = model.model.vision_model(pixel_values=given["pixel_values"][0], return_dict=True).last_hidden_state
    rows: Tensor = model.model.connector(seen)
    return rows.flatten(0, 1)


def _several_tiles(_: Eyes, pixels: Tensor) -> Mapping[str, Tensor]:
    return {"pixel_values": pixels[None]}


def _logits(model: Any, embedded: Tensor, places: Tensor) -> Tensor:
    logits: Tensor = model(inputs_embeds=embedded, position_ids=places, use_cache=False).logits
    return logits


def _deepened(model: Any, embedded: Tensor, places: Tensor, deeper: Sequence[Tensor]) -> Tensor:
    """The logits where the first layers get more rows: added everywhere, as they are 0 where there is no image."""
    text = model.model.language_model
    text._deepstack_process = lambda hidden, _, rows: hidden + rows
    hidden = text(inputs_embeds=embedded, position_ids=places, use_cache=False, deepstack_visual_embeds=deeper)
    logits: Tensor = model.lm_head(hidden.last_hidden_state)
    return logits


def _after_prompt(seen: Tensor, prompt: int) -> Mapping[str, Tensor]:
    return {"token_type_ids": (torch.arange(seen.shape[1]) >= prompt).long().unsqueeze(0)}


def _patches_of_tile(eyes: Eyes, pixels: Tensor) -> Mapping[str, Tensor]:
    assert eyes.patches is not None
    return cut_patches(eyes.patches, pixels)


def _qwen(*computed: Computed, **more: Any) -> Family:
    """A family whose encoder reads patches of images of any size, and whose positions have three parts."""
    kinds = lambda seen, _: {"mm_token_type_ids": seen.long()}  # noqa: E731
    return Family(_own_features, _patches_of_tile, computed=(attended, *computed), kinds=kinds, mrope=True, **more)


FAMILIES: Mapping[str, Family] = {
    "gemma3": Family(_own_features, ahead="image", kinds=lambda seen, _: {"token_type_ids": seen.long()}),
    "paligemma": Family(_own_features, ahead="prompt", kinds=_after_prompt, first_place=1),
    "llava": Family(_own_features),
    "internvl": Family(_own_features),
    "idefics3": Family(_connected, _several_tiles),
    "smolvlm": Family(_connected, _several_tiles),
    "qwen2_vl": _qwen(),
    "qwen2_5_vl": _qwen(in_windows),
    "qwen3_vl": _qwen(stretched, read=_deepened),
    "qwen3_5": _qwen(stretched),
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
        patches: how a tile is cut, where its size is the export's choice.
    """

    family: str
    shape: tuple[int, int, int]
    image_token: int
    processor_files: tuple[Path, ...] = ()
    patches: PatchesInfo | None = None

    @property
    def asked(self) -> Family:
        """How the model is asked."""
        return FAMILIES[self.family]

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows of a tile, high and wide, where positions have three parts."""
        if not self.asked.mrope or self.patches is None:
            return None
        step = self.patches.size * self.patches.merge
        return self.shape[1] // step, self.shape[2] // step

    def constants(self, model: Any) -> dict[str, Any]:
        """What the model's own ``get_image_features`` would compute of the size of a tile, by its arguments."""
        if self.patches is None:
            return {}
        return constants_of(model.model.visual, self.patches, self.shape[1:], self.asked.computed)


def is_vision_language(config: Any) -> bool:
    """Whether edgec knows the eyes of this model, and transformers generates text with them."""
    from transformers import AutoModelForImageTextToText

    return config.model_type in FAMILIES and type(config) in AutoModelForImageTextToText._model_mapping


def refuse_unknown_eyes(config: Any, folder: Path) -> None:
    """Refuse a model that answers about images in a way that edgec cannot export.

    Raises:
        InputError: E722.
    """
    from transformers import AutoModelForImageTextToText
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    if is_vision_language(config) or type(config) not in AutoModelForImageTextToText._model_mapping:
        return
    prepared = IMAGE_PROCESSOR_MAPPING_NAMES.get(config.model_type, {})
    only = isinstance(prepared, Mapping) and "torchvision" in prepared and "pil" not in prepared
    raise InputError(
        f"edgec cannot export the eyes of {config.model_type!r}.",
        where=str(folder),
        why="transformers prepares its images with torchvision only, and edgec with Pillow"
        if only
        else f"it knows those of {', '.join(sorted(FAMILIES))}",
        fix="export its text part with --task text-generation, where transformers has one",
        code="E722",
    )


def eyes_of(config: Any, folder: Path, size: Size | None = None) -> Eyes:
    """What the image encoder of a model reads.

    Args:
        config: of transformers.
        folder: where the image processor's description may lie.
        size: height and width of all images, for encoders that read any.

    Raises:
        InputError: E650, its config does not say so, or not within bounds; E721, the size does not suit the model.
    """
    vision: Any = config.vision_config
    patches = _patches(vision, folder) if FAMILIES[config.model_type].computed else None
    if patches is None:
        refuse_size(size, config.model_type)
    height, width = fixed_size(patches, size) if patches else _stated_size(vision)
    channels: Any = getattr(vision, "num_channels", getattr(vision, "in_channels", 3))
    token: Any = getattr(config, "image_token_id", None)
    numbers = {"image height": height, "image width": width, "num_channels": channels, "image_token_id": token}
    fault = _fault(numbers, config.get_text_config().vocab_size)
    if fault:
        raise _unstated(folder, fault)
    files = tuple(folder / name for name in IMAGE_FILES if (folder / name).is_file())
    return Eyes(config.model_type, (channels, height, width), token, files, patches)


def _stated_size(vision: Any) -> tuple[Any, Any]:
    size: Any = getattr(vision, "image_size", None)
    return (size[0], size[1]) if isinstance(size, list | tuple) and len(size) == 2 else (size, size)


def _patches(vision: Any, folder: Path) -> PatchesInfo:
    names = {"size": "patch_size", "merge": "spatial_merge_size", "frames": "temporal_patch_size"}
    numbers = {own: getattr(vision, name, None) for own, name in names.items()}
    for own, value in numbers.items():
        if not isinstance(value, int) or not 1 <= value <= _LARGEST_PATCH:
            raise _unstated(folder, f"{names[own]} is {value!r}")
    return PatchesInfo(**numbers)


def _unstated(folder: Path, why: str) -> InputError:
    return InputError(
        "config.json does not say what the image encoder reads.",
        where=str(folder),
        why=why,
        fix="use the config.json of the same model, or export its text part alone with --task text-generation",
        code="E650",
    )


def _fault(numbers: Mapping[str, Any], vocabulary: int) -> str:
    """What makes no sense among sizes and token; empty where all do."""
    for name, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            return f"{name} is {value!r}"
    *sizes, token = numbers.values()
    if prod(sizes) > _MOST_VALUES:
        return f"an image of {' x '.join(map(str, sizes))} values is too large"
    return f"image_token_id is {token}, and there are {vocabulary} tokens" if token >= vocabulary else ""
