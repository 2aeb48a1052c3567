"""What an app must know of images: how much of the context one takes, and how a prompt names it."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.apps.embed.encoder_facts import text_files
from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import Bundle
from edgec.bundle.image_preparation import read_preparation
from edgec.bundle.manifest import Manifest
from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.errors import InputError


@dataclass(frozen=True)
class VisionFacts:
    """How images are given to a model with vision.

    Attributes:
        tile_tokens: tokens that each tile of an image takes of the context.
        image_token: the id that stands for each of them.
        several_tiles: a large image is cut into several tiles.
        placeholder: stands in a text for an image.
        special_tokens: the tokenizer adds its own tokens to a prompt with images, except to the text of a chat template
            that begins with ``begins``.
        begins: the text of the tokenizer's first token; empty where it has none.
        whole_prompt: all of a prompt with images sees all of it.
        golden_values: numbers in the tile of the bundle's golden vector.
    """

    tile_tokens: int
    image_token: int
    several_tiles: bool
    placeholder: str
    special_tokens: bool
    begins: str
    whole_prompt: bool
    golden_values: int


def decoder_limits(manifest: Manifest) -> Limits | None:
    """The limits of a language model, with vision or without; None for other models."""
    images = manifest.vision_language
    return manifest.limits if images is None else images.limits


def vision_facts(bundle: Bundle) -> VisionFacts | None:
    """Read the facts from a bundle; None where it does not see.

    Raises:
        InputError: E462 it has no tokenizer, E158 its tokenizer cannot be read, E770 the description of its images
            cannot be read, E780 it has none that an app can follow.
    """
    info = bundle.manifest.vision_language
    if info is None:
        return None
    folder, _ = text_files(bundle)
    described = read_preparation(bundle.path)
    if described is None or described.preparation is None:
        raise _undescribed(bundle, described.lacking if described else "an older edgec exported it")
    texts = described.preparation.texts
    return VisionFacts(
        tile_tokens=info.rows,
        image_token=info.image_token,
        several_tiles=described.preparation.grid is not None,
        placeholder=texts.placeholder,
        special_tokens=texts.special_tokens == "as_text",
        begins=str(getattr(open_tokenizer(folder), "bos_token", None) or ""),
        whole_prompt=info.ahead == "prompt",
        golden_values=info.channels * info.height * info.width,
    )


def _undescribed(bundle: Bundle, why: str) -> InputError:
    return InputError(
        "An app cannot prepare this model's images.",
        where=str(bundle.path),
        why=f"the bundle does not describe how they are cut and scaled: {why}",
        fix="export the model again with this version of edgec, or use it on this machine (edgec run, edgec.load)",
        code="E780",
    )
