"""A model's image processor as data: read off transformers' own, carried out with Pillow, and compared with it.

What cannot be written down, or does not agree on a few sizes of images, leaves the reason in the bundle instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError

from edgec.bundle.encoding import token_ids
from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.image_preparation import (
    GridTexts,
    ImageGrid,
    ImageLevels,
    ImageTexts,
    LargeImages,
    Preparation,
    PreparationFile,
    Resampling,
    WholeImage,
)
from edgec.bundle.limited_json import first_fault
from edgec.errors import InputError
from edgec.runtime_py.vision_language.prepared_images import PreparedImages
from edgec.runtime_py.vision_language.processor import PromptProcessor
from edgec.runtime_py.vision_language.split_images import SplitImages

# Values of pixels of the processor and of the preparation may be rounded otherwise; a grey level is 0.004 or more.
_SAME = 1e-5
_MOST_REASON = 1000


class _Undescribed(Exception):
    """Why a processor cannot be written down."""


def described_preparation(prompts: PromptProcessor, tokenizer: Any) -> PreparationFile:
    """The preparation of a model's images, compared with its processor; or why there is none.

    Args:
        prompts: the model's processor.
        tokenizer: the model's, as a bundle has it.
    """
    try:
        made = Preparation(
            levels=_levels(prompts.own.image_processor),
            whole=_whole(prompts.own.image_processor, prompts.info),
            grid=_grid(prompts.own.image_processor, prompts.info),
            texts=_texts(prompts.own, prompts.own.image_processor, prompts.info, tokenizer),
        )
        return PreparationFile(preparation=_compared(made, prompts, tokenizer))
    except ValidationError as fault:
        return _lacking(first_fault(fault))
    except (_Undescribed, InputError) as why:
        return _lacking(str(why))
    except Exception as fault:  # Each class of transformers has its own fields, of which one may be absent or odd.
        return _lacking(f"{type(fault).__name__}: {fault}")


def _lacking(why: str) -> PreparationFile:
    return PreparationFile(lacking=" ".join(why.split())[:_MOST_REASON] or "unknown")


def _levels(images: Any) -> ImageLevels:
    described = images.described if isinstance(images, SplitImages) else images
    scale = described.rescale_factor if described.do_rescale else 1.0
    plain: tuple[Any, Any] = ((0.0,) * 3, (1.0,) * 3)
    mean, std = (described.image_mean, described.image_std) if described.do_normalize else plain
    return ImageLevels(scale=scale, mean=tuple(mean), std=tuple(std))


def _whole(images: Any, info: VisionLanguageInfo) -> WholeImage:
    if info.channels != len(get_args(tuple[int, int, int])):
        raise _Undescribed(f"its tiles have {info.channels} colours")
    if info.patches is not None:
        # As runtime_py/vision_language/fixed_size.py has it.
        described = images.described if isinstance(images, SplitImages) else images
        mixed = _resampling(described.resample) if isinstance(images, SplitImages) else "bicubic"
        red, green, blue = (round(255 * part) for part in described.image_mean)
        return WholeImage(fit="contain", resample=mixed, colour=(red, green, blue))
    if not images.do_resize:
        raise _Undescribed("its processor scales no images")
    if getattr(images, "do_center_crop", None):
        return WholeImage(fit="cover", resample=_resampling(images.resample), edge=images.size.shortest_edge)
    return WholeImage(fit="stretch", resample=_resampling(images.resample))


def _resampling(number: int) -> Resampling:
    known: tuple[Resampling, ...] = get_args(Resampling)
    if not 0 <= int(number) < len(known):
        raise _Undescribed(f"its processor mixes pixels in the way {number}")
    return known[int(number)]


def _grid(images: Any, info: VisionLanguageInfo) -> ImageGrid | None:
    if isinstance(images, SplitImages):
        return _large_grid(images, info)
    if getattr(images, "do_image_splitting", None):
        return ImageGrid(rule="longest_edge", whole="last", edge=images.size.longest_edge)
    if getattr(images, "crop_to_patches", None) and images.max_patches > 1:
        if info.height != info.width:
            raise _Undescribed("its grid has tiles that are not square")
        return ImageGrid(rule="proportions", whole="last", fewest=images.min_patches, most=images.max_patches)
    return None


def _large_grid(images: SplitImages, info: VisionLanguageInfo) -> ImageGrid | None:
    """The grid of LFM2-VL, as ``split_images.py`` has it."""
    described = images.described
    if not (described.do_image_splitting and info.height == info.width == described.tile_size):
        return None
    above = described.max_image_tokens * info.step**2 * described.max_pixels_tolerance
    return ImageGrid(
        rule="proportions",
        whole="last" if described.use_thumbnail else "none",
        fewest=described.min_tiles,
        most=described.max_tiles,
        large=LargeImages(step=info.step, least=images.encoder_patch_size, above=above),
        sharing="context",
    )


Marks = Callable[[Any, Any], Mapping[str, Any]]
"""A processor and its tokenizer -> the fields of ``ImageTexts`` that differ from a row's own text alone."""


def _idefics3(own: Any, _: Any) -> Mapping[str, Any]:
    fake, whole = own.fake_image_token, own.fake_image_token + own.global_image_tag
    part = fake + "<row_{row}_col_{column}>"
    grid = GridTexts(begin="", tile=part, line="\n", whole="\n" + whole, end=fake)
    return {"before": whole, "after": fake, "grid": grid}


def _internvl(own: Any, _: Any) -> Mapping[str, Any]:
    begin, end = own.start_image_token, own.end_image_token
    return {"before": begin, "after": end, "grid": GridTexts(begin=begin, tile="", line="", whole="", end=end)}


def _lfm2_vl(own: Any, _: Any) -> Mapping[str, Any]:
    begin, end, part, whole = own.image_start_token, own.image_end_token, "<|img_row_{row}_col_{column}|>", ""
    if own.image_processor.use_thumbnail:
        whole = own.image_thumbnail_token
    if not own.use_image_special_tokens:
        begin = end = part = whole = ""
    return {"before": begin, "after": end, "grid": GridTexts(begin=begin, tile=part, line="", whole=whole, end=end)}


def _gemma3(own: Any, words: Any) -> Mapping[str, Any]:
    before, after = f"\n\n{words.boi_token}", f"{words.eoi_token}\n\n"
    return {"placeholder": own.boi_token, "row": words.image_token, "before": before, "after": after}


_MARKS: Mapping[str, Marks] = {
    "Idefics3Processor": _idefics3,
    "InternVLProcessor": _internvl,
    "Lfm2VlProcessor": _lfm2_vl,
    "Gemma3Processor": _gemma3,
    "Gemma4Processor": lambda own, _: {"before": own.boi_token, "after": own.eoi_token},
    "PaliGemmaProcessor": lambda _, words: {"after_images": words.bos_token, "end": "\n"},
}
"""By the class of transformers' processor; others write rows alone."""


def _texts(own: Any, images: Any, info: VisionLanguageInfo, tokenizer: Any) -> ImageTexts:
    marks = dict(_MARKS.get(type(own).__name__, lambda *_: {})(own, own.tokenizer))
    if _grid(images, info) is None:
        marks.pop("grid", None)
    made = ImageTexts(**{"placeholder": own.image_token, "row": own.image_token, **marks})
    if tokenizer.convert_tokens_to_ids(made.row) != info.image_token:
        raise _Undescribed(f"the text {made.row!r} of a row is not the token {info.image_token} of its tokenizer")
    return made


def _compared(made: Preparation, prompts: PromptProcessor, tokenizer: Any) -> Preparation:
    """The preparation, with the special tokens that its prompts get, once both agree on images of several sizes."""
    high, wide = prompts.info.height, prompts.info.width
    prepared = PreparedImages(made, prompts.info)
    sizes = [(wide // 3 + 1, high // 2 + 1), (3 * wide + 7, 2 * high - 5), (wide // 4 + 3, 2 * high + 9)]
    images = [_noise(*size) for size in sizes]
    for image in images:
        tiles, wanted = prepared.tiles(image), prompts.prompt("", [image], rendered=False).pixels
        if tiles.shape != wanted.shape or not np.allclose(tiles, wanted, rtol=0, atol=_SAME):
            raise _Undescribed(f"its processor makes other tiles of an image of {image.width} x {image.height}")
    for kind in ("as_text", "never"):
        texts = made.texts.model_copy(update={"special_tokens": kind})
        if _same_tokens(made.model_copy(update={"texts": texts}), prompts, tokenizer, images[:2]):
            return made.model_copy(update={"texts": texts})
    raise _Undescribed("its processor makes other tokens of a prompt with images")


def _same_tokens(made: Preparation, prompts: PromptProcessor, tokenizer: Any, images: list[Any]) -> bool:
    place, prepared = made.texts.placeholder, PreparedImages(made, prompts.info)
    special = made.texts.special_tokens != "never"
    for text in (f"one {place} and {place} two", "what is this"):
        written = prepared.prompt(text, [image.size for image in images])
        if token_ids(tokenizer, written, special=special) != prompts.prompt(text, images, rendered=False).tokens:
            return False
    return True


def _noise(width: int, height: int) -> Any:
    from PIL import Image

    return Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8))
