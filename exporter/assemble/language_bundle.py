"""The description by which Apple's coreai-models opens a bundle: ``metadata.json`` of version 0.2, of the kind ``llm``.

Read by ``ModelBundle``, ``LanguageBundle`` and ``LanguageConfig`` of apple/coreai-models (Swift, commit 86b363dc): the
artifact under ``assets.main``, the tokenizer in the folder ``tokenizer``, and the function ``main``, whose inputs are
taken by their order and whose logits are float16 (``CoreAISequentialEngine``, ``CoreAIPipelinedEngine``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgec.backends.coreml.metadata import bounded
from edgec.bundle.prefix import Files
from edgec.exporter.package_card import hub_id
from edgec.exporter.request import ExportRequest
from edgec.installation import __version__
from edgec.ir.stateful_call import MAIN

LAYOUT = "coreai-models"
METADATA = "metadata.json"


def language_bundle(request: ExportRequest) -> Files:
    """The file, where the layout is Apple's."""
    if request.target.layout != LAYOUT:
        return {}
    return {METADATA: json.dumps(_metadata(request), indent=2, ensure_ascii=False).encode()}


def _metadata(request: ExportRequest) -> Mapping[str, Any]:
    source, recipe = request.source, request.recipe
    name = bounded(hub_id(source) or source.name) or "model"
    return {
        "metadata_version": "0.2",
        "kind": "llm",
        "name": bounded(source.name) or "model",
        "assets": {"main": request.form.artifact},
        "language": {
            "tokenizer": name,
            "vocab_size": request.spec.vocab_size,
            "max_context_length": request.limits.context,
            "embedded_tokenizer": any(file.name == "tokenizer.json" for file in source.tokenizer_files),
            "function_map": {MAIN: [MAIN]},
        },
        "source": {"model_definition": "torch", "hf_model_id": name},
        "compression": recipe.name if recipe.name != "float" else None,
        "user_data": {"edgec_version": __version__, "edgec_recipe": recipe.name},
    }
