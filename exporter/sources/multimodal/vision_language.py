"""Vision-language models among transformers' models: whether edgec knows their vision, and what these read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import PatchesInfo
from edgec.bundle.tokenizer_folder import IMAGE_FILES
from edgec.errors import InputError
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.multimodal.image_patches import Size, constants_of, fixed_size, refuse_size
from edgec.exporter.sources.multimodal.vision_families import FAMILIES, Family

TASK = "image-text-to-text"
_MOST_VALUES = 1 << 26
_LARGEST_PATCH = 1 << 10


@dataclass(frozen=True)
class VisionInput:
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
        return constants_of(model.model, self.patches, self.shape[1:], self.asked.computed)


def is_vision_language(config: Any) -> bool:
    """Whether edgec knows the vision of this model, and transformers generates text with them."""
    from transformers import AutoModelForImageTextToText

    known = config.model_type in FAMILIES and type(config) in AutoModelForImageTextToText._model_mapping
    return known and not FAMILIES[config.model_type].lacking(config)


def refuse_unknown_vision(config: Any, folder: Path) -> None:
    """Refuse a model that answers about images in a way that edgec cannot export.

    Raises:
        InputError: E722.
    """
    from transformers import AutoModelForImageTextToText
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    if is_vision_language(config) or type(config) not in AutoModelForImageTextToText._model_mapping:
        return
    prepared = IMAGE_PROCESSOR_MAPPING_NAMES.get(config.model_type, {})
    why = f"it knows those of {', '.join(sorted(FAMILIES))}"
    if config.model_type in FAMILIES:
        why = FAMILIES[config.model_type].lacking(config)
    elif isinstance(prepared, Mapping) and "torchvision" in prepared and "pil" not in prepared:
        why = "transformers prepares its images with torchvision only, and edgec with Pillow"
    raise InputError(
        f"edgec cannot export the vision of {config.model_type!r}.",
        where=str(folder),
        why=why,
        fix="export its text part with --task text-generation, where transformers has one",
        code="E722",
    )


def vision_of(config: Any, folder: Path, size: Size | None = None) -> VisionInput:
    """What the image encoder of a model reads.

    Args:
        config: of transformers.
        folder: where the image processor's description may lie.
        size: height and width of all images, for encoders that read any.

    Raises:
        InputError: E650, its config does not say so, or not within bounds; E721, the size does not suit the model.
    """
    vision: Any = config.vision_config
    family = FAMILIES[config.model_type]
    patches = _patches(config, family, folder) if family.computed else None
    if patches is None:
        refuse_size(size, config.model_type)
    height, width = fixed_size(patches, size) if patches else _stated_size(vision)
    channels: Any = getattr(vision, "num_channels", getattr(vision, "in_channels", 3))
    token: Any = getattr(config, "image_token_id", None)
    numbers = {"image height": height, "image width": width, "num_channels": channels, "image_token_id": token}
    fault = _fault(numbers, config.get_text_config().vocab_size)
    if fault:
        raise _unstated(folder, fault)
    files = tuple(folder / name for name in IMAGE_FILES if is_plain(folder / name))
    return VisionInput(config.model_type, (channels, height, width), token, files, patches)


def _stated_size(vision: Any) -> tuple[Any, Any]:
    size: Any = getattr(vision, "image_size", None)
    return (size[0], size[1]) if isinstance(size, list | tuple) and len(size) == 2 else (size, size)


def _patches(config: Any, family: Family, folder: Path) -> PatchesInfo:
    names = ("patch_size", family.merged_by, "temporal_patch_size")
    # LFM2-VL joins patches in its projector, not in the encoder.
    size, merge, frames = numbers = [getattr(config.vision_config, name, getattr(config, name, 1)) for name in names]
    for name, value in zip(names, numbers, strict=True):
        if not isinstance(value, int) or not 1 <= value <= _LARGEST_PATCH:
            raise _unstated(folder, f"{name} is {value!r}")
    return PatchesInfo(size=size, merge=merge, frames=frames, order=family.order)


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
