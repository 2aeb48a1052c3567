"""Text and images as the input of a vision-language model, by transformers' own processor of its family.

The classes are looked up by the names in the bundle's files, and only among transformers' own: no code of the bundle
runs. Image processors are those over Pillow and numpy, so that torchvision is not needed; for LFM2-VL, of which
transformers has none, edgec's own stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.encoding import check_unicode
from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.image_preparation import IMAGE_FOLDER
from edgec.bundle.limited_json import JsonKind, read_object
from edgec.bundle.tokenizer_folder import PREPROCESSOR, PROCESSOR
from edgec.errors import InputError
from edgec.runtime_py.vision_language.fixed_size import fitted, joined_tiles, keeping_size
from edgec.runtime_py.vision_language.split_images import SplitImages, SplittingDescription

# The same for images; the one of SmolVLM needs libraries for videos.
_STAND_INS = {"SmolVLMProcessor": "Idefics3Processor"}
_SUFFIXES = ("Fast", "Pil")
_UNUSED = ("video_processor", "feature_extractor")
# Image processors that transformers has over torchvision only.
_OWN = ("Lfm2VlImageProcessor",)
_MASK = "pixel_attention_mask"
_KIND = JsonKind("The bundle's image processor cannot be read.", "export the model again", "E656", infinite=True)


@dataclass(frozen=True)
class Prompt:
    """A prompt with its images, ready for the model.

    Attributes:
        tokens: ids; each image is as many image tokens as its tiles have rows.
        pixels: float32 [N, C, H, W], the tiles of all images in order.
    """

    tokens: list[int]
    pixels: NDArray[np.float32]


class PromptProcessor:
    """Transformers' processor of a model."""

    def __init__(self, folder: Path, info: VisionLanguageInfo, tokenizer: Any) -> None:
        """Make the processor that the files of a folder describe: a bundle's, or a model's.

        Raises:
            InputError: E656, they are absent or damaged, or describe a processor that cannot be used here.
        """
        self.info = info
        files = {name: folder / name for name in (PROCESSOR, PREPROCESSOR)}
        described = {name: read_object(file, _KIND) if file.is_file() else {} for name, file in files.items()}
        try:
            # A processor marks tokens of its tokenizer as special, which would change what others decode.
            self._processor = _processor(described[PROCESSOR], described[PREPROCESSOR], deepcopy(tokenizer), info)
        except InputError:
            raise
        except Exception as cause:  # Each class of transformers checks its own fields in its own way.
            raise _unusable(folder, f"{type(cause).__name__}: {cause}") from cause
        self._placeholder = str(getattr(self._processor, "image_token", "<image>"))
        self._begins = str(getattr(tokenizer, "bos_token", None) or "")

    @property
    def own(self) -> Any:
        """Transformers' own processor."""
        return self._processor

    def prompt(self, text: str, images: Sequence[Any], *, rendered: bool) -> Prompt:
        """Turn a text and images of Pillow into tokens and tiles.

        Args:
            text: with the model's placeholder for each image, or with none: images then come first.
            images: at least one, in RGB.
            rendered: the text comes from a chat template, which may have written the first token.

        Raises:
            InputError: E152, the text is not valid Unicode; E657, the processor refuses text or images, or makes tiles
                that the model does not read.
        """
        check_unicode(text)
        if self._placeholder not in text:
            text = self._placeholder * len(images) + text
        begun = rendered and self._begins and text.startswith(self._begins)
        options = {"add_special_tokens": False} if begun else {}
        try:
            sized = [self._sized(image) for image in images]
            made = self._processor(text=[text], images=[sized], return_tensors="np", **options)
        except Exception as cause:  # as above
            raise _refused(f"{type(cause).__name__}: {' '.join(str(cause).split())}") from cause
        return self._checked(made)

    def _sized(self, image: Any) -> Any:
        if self.info.patches is None or self.info.patches.order == "tiles":
            return image
        return fitted(image, self.info, self._processor.image_processor.image_mean)

    def _checked(self, made: Mapping[str, Any]) -> Prompt:
        info = self.info
        pixels = self._tiles(made)
        shape = (info.channels, info.height, info.width)
        if pixels.shape[-3:] != shape:
            raise _refused(f"it makes tiles of {list(pixels.shape[-3:])} values, and the model reads {list(shape)}")
        if _MASK in made and not np.all(made[_MASK]):
            raise _refused("it pads the image with empty pixels, and the model reads whole tiles")
        pixels, tokens = pixels.reshape(-1, *shape), np.asarray(made["input_ids"]).ravel()
        places = int((tokens == info.image_token).sum())
        if places != len(pixels) * info.rows:
            raise _refused(f"{len(pixels)} tiles have {len(pixels) * info.rows} rows, and the text has {places} places")
        return Prompt([int(token) for token in tokens], pixels)

    def _tiles(self, made: Mapping[str, Any]) -> NDArray[np.float32]:
        """What the processor made of the images, as pixels."""
        if self.info.patches is None:
            return np.asarray(made["pixel_values"], np.float32)
        try:
            return joined_tiles(made, self.info)
        except (KeyError, ValueError, IndexError) as cause:
            raise _refused(str(cause)) from cause


def _processor(
    described: Mapping[str, Any], preprocessor: Mapping[str, Any], tokenizer: Any, info: VisionLanguageInfo
) -> Any:
    """The processor of two descriptions: newer models nest that of the image processor in the other."""
    images = described.get("image_processor") or preprocessor
    name = str(described.get("processor_class") or preprocessor.get("processor_class") or "")
    maker = _class(_STAND_INS.get(name, name), "ProcessorMixin")
    options = {key: value for key, value in described.items() if key in signature(maker.__init__).parameters}
    for part in ("image_processor", "tokenizer", "chat_template", *_UNUSED):
        options.pop(part, None)
    unused = [part for part in _UNUSED if part in signature(maker.__init__).parameters]
    prepares = _image_processor(images, info)
    if unused or isinstance(prepares, SplitImages):
        maker, options = of_images(maker), {**options, **dict.fromkeys(unused)}
    return maker(image_processor=prepares, tokenizer=tokenizer, **options)


def of_images(maker: Any) -> Any:
    """A processor's class that needs no processors of videos, which would need torchvision, and of sound.

    It takes edgec's own image processor as well as transformers'.
    """

    def check(self: Any, name: str, argument: Any) -> Any:
        if name in _UNUSED or isinstance(argument, SplitImages):
            return None
        return maker.check_argument_for_proper_class(self, name, argument)

    return type(maker.__name__, (maker,), {"check_argument_for_proper_class": check})


def _image_processor(described: Mapping[str, Any], info: VisionLanguageInfo) -> Any:
    name = str(described.get("image_processor_type") or "")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    if name in _OWN and info.patches is not None:
        return SplitImages(SplittingDescription.model_validate(described), info)
    sized = dict(described) if info.patches is None else keeping_size(described, info)
    return _class(f"{name}Pil", "BaseImageProcessor").from_dict(sized)


def _class(name: str, base: str) -> Any:
    """A class of transformers by its name.

    Raises:
        InputError: E656, there is none of that name and kind.
    """
    import transformers
    from transformers.image_processing_utils import BaseImageProcessor
    from transformers.processing_utils import ProcessorMixin

    kinds = {"ProcessorMixin": ProcessorMixin, "BaseImageProcessor": BaseImageProcessor}
    processor = getattr(transformers, name, None) if name in transformers.__all__ else None
    if not (isinstance(processor, type) and issubclass(processor, kinds[base])):
        raise _unusable(Path(IMAGE_FOLDER), f"transformers has no {name!r} that prepares images with Pillow")
    return processor


def _unusable(where: Path, why: str) -> InputError:
    return InputError(
        "The bundle's image processor cannot be used.",
        where=str(where),
        why=why[:300],
        fix="export from a folder with the model's own preprocessor_config.json and processor_config.json",
        code="E656",
    )


def _refused(why: str) -> InputError:
    return InputError(
        "The text and images cannot be made into a prompt.",
        where="images",
        why=why[:300],
        fix="give the placeholder of the model once for each image, or not at all; scale very small or long images",
        code="E657",
    )
