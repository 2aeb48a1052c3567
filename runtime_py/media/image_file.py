"""Images from outside as RGB: checked before their pixels are decoded, turned as their EXIF says."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.image_preparation import MAX_PIXELS, MAX_RATIO
from edgec.errors import InputError, ToolError
from edgec.installation import install_command

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
# Kinds of pixels that Pillow turns into RGB as they look.
_MODES = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"})
ImageSource = Path | str | bytes | NDArray[np.uint8] | Any
"""A file, its bytes, an array [H, W, 3], or an image of Pillow."""


def read_image(source: ImageSource) -> PillowImage:
    """An image in RGB, as ``transformers.image_utils.load_image`` gives it: turned upright, without transparency.

    Args:
        source: the path of a PNG, JPEG, WebP, GIF, BMP or TIFF file, or all its bytes; uint8 [H, W, 3]; or an image of
            Pillow.

    Raises:
        InputError: E653, it is not an image, damaged or of another kind; E654, too large or too long; E655, animated.
        ToolError: E670, Pillow is not installed.
    """
    library, where = _library(), str(source)[:200] if isinstance(source, str | Path) else type(source).__name__
    try:
        with warnings.catch_warnings():
            # Pillow warns below its own limit of pixels; the check below has its own.
            warnings.simplefilter("ignore", library.DecompressionBombWarning)
            return _upright(_opened(library, source, where), where)
    except library.DecompressionBombError as cause:
        raise _too_large(where, str(cause)) from cause
    except (OSError, SyntaxError, ValueError, TypeError, EOFError, struct.error) as cause:
        raise _no_image(where, str(cause) or type(cause).__name__) from cause


def read_images(sources: Sequence[ImageSource]) -> list[PillowImage]:
    """The images of one prompt, which are in memory at the same time.

    Raises:
        InputError: as `read_image`; E654 also where they have too many pixels together.
        ToolError: E670.
    """
    images: list[PillowImage] = []
    for source in sources:
        images.append(read_image(source))
        pixels = sum(image.width * image.height for image in images)
        if pixels > MAX_PIXELS:
            why = f"the first {len(images)} have {pixels:,} pixels together, and the most are {MAX_PIXELS:,}"
            raise _too_large(f"{len(sources)} images", why)
    return images


def _library() -> Any:
    try:
        from PIL import Image
    except ImportError as cause:
        what, fix = "Images need Pillow, which is not installed.", install_command("vision")
        raise ToolError(what, "pillow", str(cause), fix, "E670") from cause
    return Image


def _opened(library: Any, source: ImageSource, where: str) -> Any:
    """The image, checked; a file's pixels are not decoded yet."""
    if isinstance(source, str | Path):
        # The header alone is read here.
        image = library.open(Path(source), formats=FORMATS)
    elif isinstance(source, bytes):
        image = library.open(BytesIO(source), formats=FORMATS)
    elif isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or 0 in source.shape:
            raise _no_image(where, f"its values are {source.dtype} of shape {list(source.shape)}, not uint8 [H, W, 3]")
        image = library.fromarray(source)
    elif isinstance(source, library.Image):
        image = source
    else:
        raise _no_image(where, "it is neither a path, bytes, an array nor an image of Pillow")
    _check(image, where)
    return image


def _check(image: Any, where: str) -> None:
    width, height = image.size
    if width < 1 or height < 1:
        raise _no_image(where, f"it has {width} x {height} pixels")
    if width * height > MAX_PIXELS:
        raise _too_large(where, f"it has {width:,} x {height:,} pixels, and the most are {MAX_PIXELS:,}")
    if max(width, height) > MAX_RATIO * min(width, height):
        raise _too_large(where, f"it has {width:,} x {height:,} pixels: one side is over {MAX_RATIO} times the other")
    if getattr(image, "is_animated", False):
        raise InputError(
            "The image is animated.",
            where=where,
            why=f"it has {image.n_frames} frames, and the model sees one image",
            fix="save the frame that you mean as a PNG file",
            code="E655",
        )
    if image.mode not in _MODES:
        raise _no_image(where, f"its pixels are of the kind {image.mode!r}, whose brightness edgec would have to guess")


def _upright(image: Any, where: str) -> PillowImage:
    """The decoded pixels in RGB, turned as a camera noted."""
    from PIL import ImageOps

    turned: PillowImage = ImageOps.exif_transpose(image).convert("RGB")
    return turned


def _no_image(where: str, why: str) -> InputError:
    return InputError(
        "The image cannot be read.",
        where=where,
        why=why[:300],
        fix=f"give an intact {', '.join(FORMATS)} file in RGB, grey or CMYK",
        code="E653",
    )


def _too_large(where: str, why: str) -> InputError:
    return InputError("The image is too large.", where=where, why=why, fix="scale it down, or cut it", code="E654")
