"""One encoder of a model that has two, of texts and of images: its class, its config, and which weights are its own.

    CLIPModel: text_model, text_projection, vision_model, visual_projection
        text-feature-extraction   -> CLIPTextModelWithProjection     text_embeds  [1, width]
        image-feature-extraction  -> CLIPVisionModelWithProjection   image_embeds [1, width]

Neither has weights of the other, so that a bundle of each holds nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from edgec.exporter.sources.files.model_folder import ModelFolder

TEXT_TASK, IMAGE_TASK = "text-feature-extraction", "image-feature-extraction"
_CONFIGS = {TEXT_TASK: "text_config", IMAGE_TASK: "vision_config"}
# The projection belongs to the class; SigLIP's is inside its encoders.
_CLASSES: Mapping[str, Mapping[str, str]] = {
    "clip": {TEXT_TASK: "CLIPTextModelWithProjection", IMAGE_TASK: "CLIPVisionModelWithProjection"},
    "metaclip_2": {TEXT_TASK: "MetaClip2TextModelWithProjection", IMAGE_TASK: "MetaClip2VisionModelWithProjection"},
    "siglip": {TEXT_TASK: "SiglipTextModel", IMAGE_TASK: "SiglipVisionModel"},
    "siglip2": {TEXT_TASK: "Siglip2TextModel", IMAGE_TASK: "Siglip2VisionModel"},
}
# No class has this name: tensors that the encoder does not have are the other's.
_BOTH = "both encoders"
_DTYPES: tuple[str, ...] = ("dtype", "torch_dtype")


def is_one_encoder(config: Any, task: str | None) -> bool:
    """Whether a task asks for one encoder of a model that has two."""
    return task in _CONFIGS and task in _CLASSES.get(config.model_type, {})


def encoder_class(config: Any, task: str) -> Any:
    """The class of the encoder that a task asks for."""
    import transformers

    return getattr(transformers, _CLASSES[config.model_type][task])


def encoder_config(config: Any, task: str) -> Any:
    """The encoder's own config; how wide the projection is, the whole model's says."""
    part = deepcopy(getattr(config, _CONFIGS[task]))
    width = getattr(config, "projection_dim", None)
    if isinstance(width, int):
        part.projection_dim = width
    return part


def encoder_folder(described: ModelFolder) -> ModelFolder:
    """The model's folder as one encoder reads it: the other's weights are there as well, and are left out."""
    kept: dict[str, Any] = {name: described.config[name] for name in _DTYPES if name in described.config}
    return replace(described, config={"architectures": [_BOTH], **kept})
