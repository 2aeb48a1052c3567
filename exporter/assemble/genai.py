"""genai_config.json: what onnxruntime-genai must know of a bundle in its layout, so that the bundle's folder opens.

The names of inputs and outputs are its defaults and stand there for readers; the tokenizer's files stay in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edgec.bundle.generation_config import GenerationConfig
from edgec.bundle.prefix import Files
from edgec.exporter.assemble.genai_pipeline import ends_files, pipeline_decoder, vocabulary
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.compiled import Facts
from edgec.ir.growing_cache import INPUT_IDS, LOGITS, MASK, PAST, POSITION_IDS, PRESENT

CONFIG: Final = "genai_config.json"
_TYPE, _PIPELINE_TYPE = "decoder", "decoder-pipeline"
"""Any model of text, to onnxruntime-genai, in one file or in stages; it also has code for some names of families."""
# How a token is chosen: fields of generation_config.json that onnxruntime-genai has, by the same names.
_CHOICE: Final = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "no_repeat_ngram_size")


def genai_files(request: ExportRequest, facts: Facts, artifact: Path) -> Files:
    """The files that only this layout has, around an artifact; none in others."""
    if not request.form.growing and not request.form.piped:
        return {}
    ends = ends_files(request, facts, artifact) if request.form.piped else {}
    made = json.dumps(genai_config(request, facts, artifact, ends), indent=2, sort_keys=True).encode()
    return {CONFIG: made, **ends}


def genai_config(request: ExportRequest, facts: Facts, artifact: Path, ends: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of genai_config.json.

    Args:
        request: gives tokens, lengths and the way a token is chosen.
        facts: of the lowered artifact.
        artifact: the artifact.
        ends: of a pipeline, the models of its first and last stages.
    """
    limits = request.limits
    # Keys and values are written where they lie.
    search = {"max_length": limits.context, "past_present_share_buffer": True}
    if not request.form.piped:
        # Longer prompts are read in parts: scores of all tokens at once take memory.
        search["chunk_size"] = limits.prefill_chunk
    model = {**_tokens(request), **_model(request, facts, artifact, ends)}
    return {"model": model, "search": {**_choice(request), **search}}


def _tokens(request: ExportRequest) -> dict[str, Any]:
    """The ids that begin, end and fill up texts; what the model has not is left out."""
    config = GenerationConfig.model_validate(request.source.generation_config)
    ends = list(config.stop_tokens)
    named = {name: getattr(request.tokenizer, name, None) for name in ("bos_token_id", "pad_token_id")}
    padding = ends[0] if ends and named["pad_token_id"] is None else named["pad_token_id"]
    ids = {"bos_token_id": named["bos_token_id"], "eos_token_id": ends or None, "pad_token_id": padding}
    return {name: value for name, value in ids.items() if value is not None}


def _model(request: ExportRequest, facts: Facts, artifact: Path, ends: Mapping[str, bytes]) -> dict[str, Any]:
    keys = [state for state in facts.states if state.role == "key"]
    shape = {
        "hidden_size": request.spec.hidden_size,
        "num_attention_heads": request.spec.layers[0].heads,
        "num_hidden_layers": len(keys),
        "num_key_value_heads": keys[0].shape[1],
        "head_size": keys[0].shape[3],
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
    }
    piped = request.form.piped
    return {
        "type": _PIPELINE_TYPE if piped else _TYPE,
        "context_length": request.limits.context,
        **_ids(request, facts),
        **({"tokenizer_dir": "tokenizer"} if request.tokenizer is not None else {}),
        "decoder": {
            **shape,
            **(pipeline_decoder(request, facts, artifact, ends) if piped else _whole_decoder(request, facts)),
        },
    }


def _ids(request: ExportRequest, facts: Facts) -> dict[str, int]:
    """How many ids there are; a pipeline has one more than the model, for padding alone."""
    known = vocabulary(facts)
    return {"vocab_size": known + 1, "pad_token_id": known} if request.form.piped else {"vocab_size": known}


def _whole_decoder(request: ExportRequest, facts: Facts) -> dict[str, Any]:
    """The fields of a decoder in one file."""
    (method,) = facts.methods
    return {
        "filename": f"{request.form.artifact}/{method.name}.onnx",
        "inputs": {
            "input_ids": INPUT_IDS,
            "attention_mask": MASK,
            "position_ids": POSITION_IDS,
            "past_key_names": PAST % ("%d", "key"),
            "past_value_names": PAST % ("%d", "value"),
        },
        "outputs": {
            "logits": LOGITS,
            "present_key_names": PRESENT % ("%d", "key"),
            "present_value_names": PRESENT % ("%d", "value"),
        },
    }


def _choice(request: ExportRequest) -> dict[str, Any]:
    given = request.source.generation_config
    return {name: given[name] for name in _CHOICE if isinstance(given.get(name), int | float)}
