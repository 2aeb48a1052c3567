"""Example inputs of encoders and vision models: seeded, in the shapes that config and preprocessor state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.sources.decoders.positions import first_place
from edgec.exporter.sources.decoders.rotation_limits import rotated_alike
from edgec.exporter.sources.files.model_folder import read_json
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.ir.program import Dynamic

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource

_TEXT_LENGTH = 128
# Where a config states no limit, as T5's; and the most that are planned for unless asked.
_USUAL_LENGTH, _LONGEST = 512, 2_048
_PREPROCESSOR = "preprocessor_config.json"
_IMAGE_SIZE = 224
_MOST_VALUES = 1 << 28
_SAMPLING_RATE = 16_000
# One second of log-mel features, a frame every 10 ms, where neither model nor preprocessor fixes how many.
_FRAMES = 100
_FEATURE_WIDTHS = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "feature_size")
_CLASSIFIER = "ForSequenceClassification"
_BY_VALUES = {"spatial_shapes": "it resizes its position table to a shape that comes with each image"}


@dataclass(frozen=True)
class _Asked:
    """A model and where its description lies; makers of inputs read sizes from it.

    Attributes:
        model: on any device.
        config: the transformers config.
        preprocessor: preprocessor_config.json, or empty.
        drawn: makes the values.
        longest: the most tokens of a text, or None.
    """

    model: Any
    config: Any
    preprocessor: Mapping[str, Any]
    drawn: torch.Generator
    longest: int | None = None


def text_lengths(model: Any, asked: int | None = None) -> Dynamic | None:
    """How many tokens a model reads that reads nothing but a text; None for every other model.

    Args:
        model: on any device, with its config.
        asked: the most that the user asks for; None: as many as there are positions, and at most 2,048, since
            attention's memory grows with the square.
    """
    if _underivable(model) or _read(model) != ["input_ids"]:
        return None
    positions = text_positions(model, model.config) or max(asked or 0, _USUAL_LENGTH)
    return Dynamic("T", 1, min(asked or _LONGEST, positions))


def example_inputs(model: Any, folder: Path | None, seed: int = 0, longest: int | None = None) -> dict[str, Tensor]:
    """Seeded inputs with batch 1 that a transformers model accepts, by argument name.

    Text: ``input_ids`` int64[1, S] and ``attention_mask`` int64[1, S] of ones, S = min(128, the model's limit); of a
    cross-encoder that tells its two texts apart also ``token_type_ids``.
    Images: ``pixel_values`` float32[1, C, H, W], normal. Sound: ``input_values`` float32[1, one second], normal, or
    ``input_features`` in the layout that the model reads. A model of two encoders gets the inputs of both, one that is
    asked with a point a point.

    Args:
        model: on any device, with its config.
        folder: where ``preprocessor_config.json`` may lie.
        seed: seed of the values.
        longest: the most tokens of a text; None: as many as the model has positions for.

    Raises:
        InputError: E149, the inputs cannot be derived from the config.
    """
    why = _underivable(model)
    if why:
        raise no_inputs(model.config.model_type, folder, why)
    asked = _Asked(model, model.config, preprocessor_config(folder), torch.Generator().manual_seed(seed), longest)
    try:
        made: dict[str, Tensor] = {}
        for name in _read(model):
            made |= _MAKERS[name](asked)
        return made
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise no_inputs(model.config.model_type, folder, " ".join(str(error).split())[:300]) from error


def no_inputs(kind: str, folder: Path | None, why: str) -> InputError:
    """The error for a model whose inputs are unknown."""
    return InputError(
        what=f"Example inputs for a {kind!r} model cannot be derived from its config.",
        where=str(folder or ""),
        why=why,
        fix="Write a factory that returns (module, example_inputs) and pass MODEL as package.module:factory.",
        code="E149",
    )


def _underivable(model: Any) -> str:
    taken = signature(model.forward).parameters
    reasons = (
        (model.main_input_name not in _MAKERS, f"its main input is {model.main_input_name!r}"),
        ("decoder_input_ids" in taken, "it is an encoder-decoder"),
        *((name in taken, why) for name, why in _BY_VALUES.items()),
    )
    return next((reason for applies, reason in reasons if applies), "")


def _read(model: Any) -> list[str]:
    """The kinds of input of a model: the main one, those of its second encoder, points."""
    taken = signature(model.forward).parameters
    both = all(name in taken and hasattr(model.config, part) for name, part in _ENCODERS.items())
    first = list(_ENCODERS) if both else [model.main_input_name]
    return [*first, *(name for name in ("input_points",) if name in taken)]


def text_positions(model: nn.Module, config: Any) -> int | None:
    """How many tokens a model has positions for, at which it rotates alike; None where its config states no limit."""
    text = config.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    if not isinstance(limit, int):
        return None
    alike = rotated_alike(text.to_dict()) or limit
    return max(1, min(limit - max(first_place(model), *_padding_rows(model)), alike))


def _padding_rows(model: nn.Module) -> Iterator[int]:
    """RoBERTa-like models count positions from after the padding index."""
    yield 0
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and isinstance(padding, int):
            yield padding + 1


def _text(asked: _Asked) -> dict[str, Tensor]:
    positions = asked.longest or text_positions(asked.model, asked.config)
    length = min(_TEXT_LENGTH, positions or _TEXT_LENGTH)
    vocabulary = asked.config.get_text_config().vocab_size
    tokens = torch.randint(0, vocabulary, (1, length), generator=asked.drawn)
    made = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if not _reads_pairs(asked.model):
        return made
    return {**made, "token_type_ids": (torch.arange(length) >= length // 2).long().unsqueeze(0)}


def _reads_pairs(model: Any) -> bool:
    """Whether it is a cross-encoder that tells two texts apart: one value for both, and a kind for each token."""
    config, kinds = model.config, "token_type_ids" in signature(model.forward).parameters
    one = type(model).__name__.endswith(_CLASSIFIER) and getattr(config, "num_labels", None) == 1
    return kinds and one and getattr(config, "type_vocab_size", 0) > 1


def _image(asked: _Asked) -> dict[str, Tensor]:
    size = _stated(asked.config, "image_size") or asked.preprocessor.get("crop_size")
    height, width = _pair(size or asked.preprocessor.get("size"))
    return {"pixel_values": _normal(asked.drawn, _stated(asked.config, "num_channels") or 3, height, width)}


def _stated(config: Any, name: str) -> Any:
    """A size of the images: of the config, else of its vision part or its backbone."""
    parts = (config, getattr(config, "vision_config", None), getattr(config, "backbone_config", None))
    return next((found for part in parts if (found := getattr(part, name, None)) is not None), None)


def _points(asked: _Asked) -> dict[str, Tensor]:
    """One point in the image, and that it belongs to what is looked for."""
    height, width = _pair(_stated(asked.config, "image_size"))
    place = torch.tensor([width / 3, height / 3]).reshape(1, 1, 1, 2)
    return {"input_points": place, "input_labels": torch.ones(1, 1, 1, dtype=torch.long)}


def _sound(asked: _Asked) -> dict[str, Tensor]:
    """Samples; a spectrogram where the config states one, as the Audio Spectrogram Transformer's."""
    frames, mels = getattr(asked.config, "max_length", None), getattr(asked.config, "num_mel_bins", None)
    if isinstance(frames, int) and isinstance(mels, int):
        return {"input_values": _normal(asked.drawn, frames, mels)}
    return {"input_values": _normal(asked.drawn, int(asked.preprocessor.get("sampling_rate", _SAMPLING_RATE)))}


def _features(asked: _Asked) -> dict[str, Tensor]:
    """Log-mel features: [1, frames, mels], or [1, mels, frames] before Whisper's convolutions over time."""
    parts = [asked.config, *(getattr(asked.config, name, None) for name in ("encoder_config", "audio_config"))]
    stated = [getattr(part, name, None) for name in _FEATURE_WIDTHS for part in parts]
    mels = next((width for width in (*stated, asked.preprocessor.get("feature_size")) if isinstance(width, int)), None)
    if mels is None:
        raise ValueError("the config does not say how many features a frame has")
    first = next((module for module in asked.model.modules() if next(module.parameters(False), None) is not None), None)
    if isinstance(first, nn.Conv1d) and isinstance(asked.config.max_source_positions, int):
        strides = math.prod(each.stride[0] for each in asked.model.modules() if isinstance(each, nn.Conv1d))
        return {"input_features": _normal(asked.drawn, mels, asked.config.max_source_positions * strides)}
    return {"input_features": _normal(asked.drawn, _FRAMES, mels)}


def _normal(drawn: torch.Generator, *shape: int) -> Tensor:
    """Normal values with batch 1; refuses sizes that only a mistake in the config explains."""
    if math.prod(shape) > _MOST_VALUES or min(shape) < 1:
        raise ValueError(f"an input of {' x '.join(map(str, shape))} values is not valid")
    return torch.randn(1, *shape, generator=drawn)


_MAKERS: Mapping[str, Callable[[_Asked], dict[str, Tensor]]] = {
    "input_ids": _text,
    "pixel_values": _image,
    "input_values": _sound,
    "input_features": _features,
    "input_points": _points,
}
# The inputs of models with an encoder for texts and one for images, and where each is described.
_ENCODERS = {"input_ids": "text_config", "pixel_values": "vision_config"}


def preprocessor_config(folder: Path | None) -> dict[str, Any]:
    """preprocessor_config.json of a folder; empty where there is none."""
    file = folder / _PREPROCESSOR if folder else None
    return read_json(file) if file and is_plain(file) else {}


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge", _IMAGE_SIZE)
        return int(size.get("height", edge)), int(size.get("width", edge))
    if isinstance(size, (list, tuple)):
        return int(size[0]), int(size[-1])
    return (int(size), int(size)) if size else (_IMAGE_SIZE, _IMAGE_SIZE)


def not_taken(source: ModelSource, reason: str) -> InputError:
    """The error for a model that fails on its example inputs, whoever made them."""
    if source.hf_config is not None:
        return no_inputs(source.hf_config.model_type, source.path, reason)
    return InputError(
        what=f"The module of the factory {source.source} fails on its example inputs.",
        where=source.source,
        why=reason,
        fix="Return example inputs that the module's forward takes, in its order.",
        code="E108",
    )
