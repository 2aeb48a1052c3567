"""What an encoder-decoder adds to its bundle: a part of the manifest, and a vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.entry_points import ENCODER_DECODER_METHODS, EncoderDecoderInfo, Limits
from edgec.bundle.golden import (
    Golden,
    OutputVector,
    golden_source,
    output_vector,
)
from edgec.bundle.golden_function import function_vector
from edgec.exporter.assemble.tolerances import golden_tolerances
from edgec.exporter.parity.encoder_decoder import ExecutedEncoderDecoder
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.encoders.encoder_decoder import fixed_source
from edgec.exporter.stages.encoder_decoder import source_probe_of
from edgec.ir.call_plan import Call
from edgec.ir.memory_inputs import STATES
from edgec.ir.program import Dynamic

# Tokens of the decoder before it writes on its own: where shapes are fixed, they go through prefill.
_STATIC_PROMPT = 4


def encoder_decoder_info(request: ExportRequest) -> EncoderDecoderInfo | None:
    """The limits and the source of an encoder-decoder; None for other kinds."""
    reads = request.source.reads
    if reads is None:
        return None
    sizes = fixed_source(reads).shape if request.form.static else reads.shape
    longest = max((size.high if isinstance(size, Dynamic) else size for size in sizes), default=0)
    source_tokens = longest if reads.is_text else None
    return EncoderDecoderInfo(
        limits=request.limits, source_tokens=source_tokens, sound=reads.sound, waveform=reads.waveform
    )


def written_golden(request: ExportRequest, artifact: Path, count: int) -> Golden:
    """The artifact's greedy text after a source that is easy to generate again in any language.

    Where shapes are fixed, states of a window of features as well: see ``seen_golden``.
    """
    info, methods = encoder_decoder_info(request), ExecutedEncoderDecoder.of_form(artifact, request.form)
    assert info is not None
    source = torch.from_numpy(golden_source(info, request.spec.vocab_size))
    text, tolerances = _written(request, info, methods, source, count), golden_tolerances(request.form)
    if not request.form.static or info.sound is None:
        return Golden(outputs=(text,))
    states = {STATES: methods.encode([source])[0].float().numpy()}
    encode = ENCODER_DECODER_METHODS[0]
    return Golden(outputs=(text,), functions=(function_vector({}, states, **tolerances, method=encode),))


def _written(
    request: ExportRequest, info: EncoderDecoderInfo, methods: ExecutedEncoderDecoder, source: Tensor, count: int
) -> OutputVector:
    memory = methods.memory(source_probe_of(request).inputs(source))
    prompt = _prompt(request, info.limits)
    tokens, rows, fed = list(prompt), [], 0
    for _ in range(min(count, request.limits.context - len(prompt) + 1)):
        call = Call(fed, len(tokens) - fed, 1)
        logits, fed = methods.written(tokens, call, memory)[0], len(tokens)
        rows.append(logits.numpy().copy())
        tokens.append(int(logits.argmax()))
    return output_vector(prompt, tokens[len(prompt) :], np.stack(rows), **golden_tolerances(request.form))


def _prompt(request: ExportRequest, limits: Limits) -> list[int]:
    start = int(request.source.generation_config.get("decoder_start_token_id") or 0)
    more = min(_STATIC_PROMPT, limits.prefill_chunk, limits.context) if request.form.static else 1
    return [start, *request.probe.tokens[1:more]]
