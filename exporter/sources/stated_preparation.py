"""How images and sounds become a transformers model's inputs, as its preprocessor_config.json states it.

    {"image_processor_type": "ViTImageProcessor", "size": {"height": 224, "width": 224}, "image_mean": ..., ...}
    ==>
    {"pixel_values": {"kind": "image", "mean": ..., "std": ..., "fit": "stretch", "resample": "bilinear"}}

Only processors whose steps are those of ``bundle/input_preparation.py`` are read; of every other nothing is stated, and
its inputs are given as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError
from torch import Tensor

from edgec.bundle.image_preparation import Resampling
from edgec.bundle.input_preparation import ImagePreparation, Preparations, SoundPreparation

# Whether each cuts the middle out of an image where its file does not say so.
_IMAGES = {
    "ViTImageProcessor": False,
    "SiglipImageProcessor": False,
    "CLIPImageProcessor": True,
    "DeiTImageProcessor": True,
    "BitImageProcessor": True,
}
_SOUNDS = ("Wav2Vec2FeatureExtractor",)
# Steps that a declaration does not have.
_FURTHER = ("do_pad", "do_thumbnail", "do_align_long_axis", "do_reduce_labels", "crop_pct", "size_divisor")
_MIXED = dict(enumerate(get_args(Resampling)))
_PIXELS, _SAMPLES = "pixel_values", "input_values"


def stated_preparation(preprocessor: Mapping[str, Any], inputs: Mapping[str, Tensor]) -> Preparations:
    """The preparation of an image or a sound model; empty where the file states another one, or none.

    Args:
        preprocessor: preprocessor_config.json.
        inputs: the model's example inputs by name.
    """
    kind = str(preprocessor.get("image_processor_type") or preprocessor.get("feature_extractor_type") or "")
    name = kind.removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    try:
        if name in _IMAGES and _PIXELS in inputs:
            image = _image(preprocessor, _IMAGES[name], tuple(inputs[_PIXELS].shape))
            return {_PIXELS: image} if image else {}
        if kind in _SOUNDS and _SAMPLES in inputs and inputs[_SAMPLES].dim() == 2:
            return {_SAMPLES: _sound(preprocessor)}
    except (ValidationError, KeyError, TypeError, ValueError):  # A file from outside, whose values may be of any kind.
        return {}
    return {}


def _image(stated: Mapping[str, Any], crops: bool, shape: tuple[int, ...]) -> ImagePreparation | None:
    wanted = shape[-2:]
    if any(stated.get(step) for step in _FURTHER) or len(shape) != 4 or not stated.get("do_resize", True):
        return None
    fit = _fit(stated, crops, wanted)
    if fit is None or not isinstance(stated.get("resample"), int):
        return None
    normal = {"mean": tuple(stated["image_mean"]), "std": tuple(stated["image_std"])}
    scale = float(stated.get("rescale_factor", 1 / 255)) if stated.get("do_rescale", True) else 1.0
    fields = {"kind": "image", "scale": scale, "resample": _MIXED[stated["resample"]], **fit}
    return ImagePreparation.model_validate({**fields, **(normal if stated.get("do_normalize", True) else {})})


def _fit(stated: Mapping[str, Any], crops: bool, wanted: tuple[int, ...]) -> dict[str, Any] | None:
    """How the image is brought to the model's size, or None where these fields do not lead to it."""
    size, crop = _sides(stated["size"]), stated.get("do_center_crop", crops)
    if crop and _sides(stated.get("crop_size", wanted[0])) != wanted:
        return None
    if isinstance(stated["size"], Mapping) and "shortest_edge" in stated["size"]:
        return {"fit": "cover", "edge": int(stated["size"]["shortest_edge"])} if crop else None
    return {"fit": "stretch"} if size == wanted else None


def _sides(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge", 0)
        return int(size.get("height", edge)), int(size.get("width", edge))
    return int(size), int(size)


def _sound(stated: Mapping[str, Any]) -> SoundPreparation:
    levelled = stated.get("do_normalize", True)
    return SoundPreparation(
        kind="sound", rate=stated["sampling_rate"], level="mean_and_spread" if levelled else "as_read"
    )
