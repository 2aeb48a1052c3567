"""Which forms of a model are compared: edgec's recipes, and its peers in float and in 8 bits."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.subjects import Subject
from benchmarks.senses_parts.models import SenseModel

EDGEC = "benchmarks.senses_parts.edgec_sense"
ONNX, CTRANSLATE2 = "benchmarks.peers.onnx_sense", "benchmarks.peers.ctranslate2_sense"
BITS = {"float": "float", "8bit": "8 bits", "4bit": "4 bits", "int8": "8 bits"}
_FORMS = ("float", "int8")
_RECIPE_S_OWN = 0


def subjects_of(model: SenseModel, peers: bool = True) -> tuple[Subject, ...]:
    """All subjects of a model; ``peers``: also other runtimes."""
    own = tuple(_edgec(model, recipe) for recipe in model.recipes)
    if not peers:
        return own
    converted = tuple(_ctranslate2(model, form) for form in _FORMS) if model.sense == "speech" else ()
    return (*own, *(_onnx(model, form) for form in _FORMS), *converted)


def bits_of(subject: Subject) -> str:
    """How many bits the weights of a subject's matrices have, as the tables name it."""
    return BITS[subject.job.get("form") or subject.options["recipe"]]


def _job(model: SenseModel, **more: Any) -> dict[str, Any]:
    return {"sense": model.sense, "given": dict(model.given), **more}


def _edgec(model: SenseModel, recipe: str) -> Subject:
    options = {"recipe": recipe, "changes": {}}
    context = model.context or _RECIPE_S_OWN
    return Subject(f"edgec, {BITS[recipe]}", model, EDGEC, "edgec", options, _job(model), context)


def _onnx(model: SenseModel, form: str) -> Subject:
    # Both forms lie in one artifact.
    options, job = {"sense": model.sense}, _job(model, form=form)
    return Subject(f"ONNX Runtime, {BITS[form]}", model, ONNX, "onnx", options, job, optional=True)


def _ctranslate2(model: SenseModel, form: str) -> Subject:
    options, job = {"prompt": list(model.given["prompt"])}, _job(model, form=form)
    return Subject(f"CTranslate2, {BITS[form]}", model, CTRANSLATE2, "ctranslate2", options, job, optional=True)
