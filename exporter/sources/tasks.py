"""Model classes for optimum's task names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from edgec.errors import InputError

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


def module_class(config: Any, task: str | None) -> Any:
    """The class of a model that writes no text: the one that its config names, else that of a task; raises as above."""
    import transformers

    architecture = next(iter(config.architectures or ()), None)
    named = getattr(transformers, architecture, None) if architecture and task is None else None
    return named or auto_class(task or task_of(architecture), config)


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


def _unknown_task(task: str, why: str) -> InputError:
    return InputError(
        what=f"The task {task!r} is unknown, or this model has no head for it.",
        where="--task",
        why=why,
        fix="Pass one of these task names, or leave --task out to use the architecture named in config.json.",
        code="E146",
    )
