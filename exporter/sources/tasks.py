"""Model classes for optimum's task names, and example inputs for non-decoder models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from edgec.errors import InputError
from edgec.exporter.sources.model_folder import read_json

# Used where the optional package optimum is not installed; it has the same names.
_AUTO_CLASSES: Mapping[str, str] = {
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    "image-segmentation": "AutoModelForImageSegmentation",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "object-detection": "AutoModelForObjectDetection",
    "depth-estimation": "AutoModelForDepthEstimation",
    "audio-classification": "AutoModelForAudioClassification",
}
_SUFFIX_TASKS = (
    ("ForMaskedLM", "fill-mask"),
    ("ForSequenceClassification", "text-classification"),
    ("ForTokenClassification", "token-classification"),
    ("ForQuestionAnswering", "question-answering"),
    ("ForImageClassification", "image-classification"),
    ("ForSemanticSegmentation", "semantic-segmentation"),
    ("ForObjectDetection", "object-detection"),
    ("ForDepthEstimation", "depth-estimation"),
    ("ForAudioClassification", "audio-classification"),
    ("ForCTC", "automatic-speech-recognition"),
)
_TEXT_LENGTH = 128
# RoBERTa-like models count positions from after the padding index, and need two spare ones.
_SPARE_POSITIONS = 2
_PREPROCESSOR = "preprocessor_config.json"
_IMAGE_SIZE = 224
_MOST_VALUES = 1 << 28
_SAMPLING_RATE = 16_000


def auto_class(task: str, config: Any) -> Any:
    """The transformers Auto class for a task; where optimum is installed, it decides.

    Args:
        task: one of optimum's task names.
        config: the transformers config that the class will be given.

    Raises:
        InputError: E146, the task is unknown or has no class for this model type.
    """
    # Not "optimum" alone: edgec itself puts a file into that namespace.
    maker = _own_class(task) if find_spec("optimum.exporters") is None else _optimum_class(task, config.model_type)
    mapping = getattr(maker, "_model_mapping", None)
    if mapping is not None and type(config) not in mapping:
        raise _unknown_task(task, f"{maker.__name__} has no class for model type {config.model_type!r}")
    return maker


def _own_class(task: str) -> Any:
    import transformers

    if task not in _AUTO_CLASSES:
        raise _unknown_task(task, f"known: {', '.join(_AUTO_CLASSES)}; the extra edgec[optimum] knows more")
    return getattr(transformers, _AUTO_CLASSES[task])


def _optimum_class(task: str, model_type: str) -> Any:
    from optimum.exporters.tasks import TasksManager

    try:
        return TasksManager.get_model_class_for_task(task, model_type=model_type, library="transformers")
    except (KeyError, ValueError, AttributeError) as error:
        known = ", ".join(sorted(TasksManager.get_all_tasks()))
        raise _unknown_task(task, f"optimum has none for model type {model_type!r}; known: {known}") from error


def task_of(architecture: str | None) -> str:
    """The task of an architecture, by the ending of its name; ``feature-extraction`` for models without a head."""
    name = architecture or ""
    return next((task for suffix, task in _SUFFIX_TASKS if name.endswith(suffix)), "feature-extraction")


def example_inputs(config: Any, main_input: str, folder: Path | None, seed: int = 0) -> dict[str, torch.Tensor]:
    """Seeded inputs with batch 1 that a transformers model accepts, by argument name.

    Text: ``input_ids`` int64[1, S] and ``attention_mask`` int64[1, S] of ones, S = min(128, the model's limit).
    Images: ``pixel_values`` float32[1, C, H, W], normal. Sound: ``input_values`` float32[1, one second], normal.

    Args:
        config: the transformers config.
        main_input: the model's ``main_input_name``.
        folder: where ``preprocessor_config.json`` may lie.
        seed: seed of the values.

    Raises:
        InputError: E149, the inputs cannot be derived from the config.
    """
    make = _MAKERS.get(main_input)
    why = _underivable(config, main_input)
    if make is None or why:
        raise _no_inputs(config, folder, why)
    try:
        return make(config, folder, torch.Generator().manual_seed(seed))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise _no_inputs(config, folder, " ".join(str(error).split())[:300]) from error


def _no_inputs(config: Any, folder: Path | None, why: str) -> InputError:
    return InputError(
        what=f"Example inputs for a {config.model_type!r} model cannot be derived from its config.",
        where=str(folder or ""),
        why=why,
        fix="Write a factory that returns (module, example_inputs) and pass MODEL as package.module:factory.",
        code="E149",
    )


def _underivable(config: Any, main_input: str) -> str:
    reasons = (
        (main_input not in _MAKERS, f"its main input is {main_input!r}"),
        (bool(config.is_encoder_decoder), "it is an encoder-decoder"),
        (hasattr(config, "text_config") and hasattr(config, "vision_config"), "it takes several kinds of input"),
    )
    return next((reason for applies, reason in reasons if applies), "")


def _text(config: Any, _folder: Path | None, generator: torch.Generator) -> dict[str, torch.Tensor]:
    limit = getattr(config, "max_position_embeddings", None) or _TEXT_LENGTH + _SPARE_POSITIONS
    length = max(1, min(_TEXT_LENGTH, limit - _SPARE_POSITIONS))
    tokens = torch.randint(0, config.get_text_config().vocab_size, (1, length), generator=generator)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def _image(config: Any, folder: Path | None, generator: torch.Generator) -> dict[str, torch.Tensor]:
    size = getattr(config, "image_size", None) or preprocessor_config(folder).get("crop_size")
    height, width = _pair(size or preprocessor_config(folder).get("size"))
    return {"pixel_values": _normal(generator, getattr(config, "num_channels", 3), height, width)}


def _sound(_config: Any, folder: Path | None, generator: torch.Generator) -> dict[str, torch.Tensor]:
    rate = preprocessor_config(folder).get("sampling_rate", _SAMPLING_RATE)
    return {"input_values": _normal(generator, int(rate))}


def _normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Normal values with batch 1; refuses sizes that only a mistake in the config explains."""
    if math.prod(shape) > _MOST_VALUES or min(shape) < 1:
        raise ValueError(f"an input of {' x '.join(map(str, shape))} values is not valid")
    return torch.randn(1, *shape, generator=generator)


_MAKERS: Mapping[str, Callable[[Any, Path | None, torch.Generator], dict[str, torch.Tensor]]] = {
    "input_ids": _text,
    "pixel_values": _image,
    "input_values": _sound,
}


def preprocessor_config(folder: Path | None) -> dict[str, Any]:
    """preprocessor_config.json of a folder; empty where there is none."""
    file = folder / _PREPROCESSOR if folder else None
    return read_json(file) if file and file.is_file() else {}


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge", _IMAGE_SIZE)
        return int(size.get("height", edge)), int(size.get("width", edge))
    if isinstance(size, (list, tuple)):
        return int(size[0]), int(size[-1])
    return (int(size), int(size)) if size else (_IMAGE_SIZE, _IMAGE_SIZE)


def _unknown_task(task: str, why: str) -> InputError:
    return InputError(
        what=f"The task {task!r} is unknown, or this model has no head for it.",
        where="--task",
        why=why,
        fix="Pass one of these task names, or leave --task out to use the architecture named in config.json.",
        code="E146",
    )
