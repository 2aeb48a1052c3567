"""genai_config.json: what onnxruntime-genai must know of a bundle in its layout, so that the bundle's folder opens.

The names of inputs and outputs are its defaults and stand there for readers; the tokenizer's files stay in place.
"""

from __future__ import annotations

import json
from typing import Any, Final

from edgec.bundle.generation_config import GenerationConfig
from edgec.bundle.prefix import Files
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.compiled import Facts
from edgec.ir.growing_cache import INPUT_IDS, LOGITS, MASK, PAST, POSITION_IDS, PRESENT

CONFIG: Final = "genai_config.json"
_TYPE: Final = "decoder"
"""Any model of text, to onnxruntime-genai; it has code of its own for some of the names of families."""
# How a token is chosen: fields of generation_config.json that onnxruntime-genai has, by the same names.
_CHOICE: Final = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "no_repeat_ngram_size")


def genai_files(request: ExportRequest, facts: Facts) -> Files:
    """The files that only this layout has; none in others."""
    if not request.form.growing:
        return {}
    return {CONFIG: json.dumps(genai_config(request, facts), indent=2, sort_keys=True).encode()}


def genai_config(request: ExportRequest, facts: Facts) -> dict[str, Any]:
    """The fields of genai_config.json.

    Args:
        request: gives tokens, lengths and the way a token is chosen.
        facts: of the lowered artifact.
    """
    limits = request.limits
    search = {
        "max_length": limits.context,
        # Longer prompts are read in parts: scores of all tokens at once take memory.
        "chunk_size": limits.prefill_chunk,
        # Keys and values are written where they lie.
        "past_present_share_buffer": True,
    }
    return {"model": {**_tokens(request), **_model(request, facts)}, "search": {**_choice(request), **search}}


def _tokens(request: ExportRequest) -> dict[str, Any]:
    """The ids that begin, end and fill up texts; what the model has not is left out."""
    config = GenerationConfig.model_validate(request.source.generation_config)
    ends = list(config.stop_tokens)
    named = {name: getattr(request.tokenizer, name, None) for name in ("bos_token_id", "pad_token_id")}
    padding = ends[0] if ends and named["pad_token_id"] is None else named["pad_token_id"]
    ids = {"bos_token_id": named["bos_token_id"], "eos_token_id": ends or None, "pad_token_id": padding}
    return {name: value for name, value in ids.items() if value is not None}


def _model(request: ExportRequest, facts: Facts) -> dict[str, Any]:
    (method,) = facts.methods
    keys = [state for state in facts.states if state.role == "key"]
    return {
        "type": _TYPE,
        "context_length": request.limits.context,
        "vocab_size": method.outputs[0].shape[-1],
        **({"tokenizer_dir": "tokenizer"} if request.tokenizer is not None else {}),
        "decoder": {
            "filename": f"{request.form.artifact}/{method.name}.onnx",
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "hidden_size": request.spec.hidden_size,
            "num_attention_heads": request.spec.layers[0].heads,
            "num_hidden_layers": len(keys),
            "num_key_value_heads": keys[0].shape[1],
            "head_size": keys[0].shape[3],
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
        },
    }


def _choice(request: ExportRequest) -> dict[str, Any]:
    given = request.source.generation_config
    return {name: given[name] for name in _CHOICE if isinstance(given.get(name), int | float)}
