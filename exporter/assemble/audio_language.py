"""What a speech-language model adds to its bundle: a part of the manifest, a chat template, a vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS, AudioLanguageInfo
from edgec.bundle.golden import OutputVector, output_vector, probe_values
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.request import ExportRequest


def audio_language_info(request: ExportRequest, compiled: CompiledModel) -> AudioLanguageInfo | None:
    """The limits and the windows of a speech-language model; None for other kinds."""
    audio = request.source.audio
    if audio is None:
        return None
    encoder = next(method for method in compiled.facts.methods if method.name == "audio_encoder")
    before, after = (_known(request.tokenizer, mark) for mark in audio.marks)
    return audio.info(request.limits, int(encoder.outputs[0].shape[1]), before, after)


def _known(tokenizer: Any, mark: str) -> list[int]:
    """The token of a mark, where the vocabulary has it."""
    number = tokenizer.get_vocab().get(mark) if tokenizer is not None else None
    return [] if number is None else [int(number)]


def audio_vector(request: ExportRequest, artifact: Path, count: int) -> OutputVector:
    """The artifact's greedy text after a window that is easy to generate again in any language."""
    from edgec.exporter.parity.audio_language import sound_probe
    from edgec.exporter.parity.placed_rows import rows_placed
    from edgec.exporter.parity.rows_and_text import ExecutedRows

    audio, methods = request.source.audio, ExecutedRows.of_program(artifact, AUDIO_LANGUAGE_METHODS)
    assert audio is not None
    sound = audio.sound
    window = torch.from_numpy(probe_values([1, sound.mels, sound.frames], "float32", 0))
    rows = methods.rows([window, torch.tensor([sound.frames])])
    probe = sound_probe(audio.info(request.limits, len(rows)), request.probe)
    # As in the ladder's text, but with all rows of the window.
    begin = probe.tokens.index(audio.audio_token)
    words = probe.tokens[begin + probe.rows :]
    prompt = [*probe.tokens[:begin], *[audio.audio_token] * len(rows), *words[:2]]
    # No token that is written is a row, whichever it is: the vector's text has as many places as it has rows.
    placed = rows_placed([*prompt, *[audio.audio_token ^ 1] * count], audio.audio_token, rows)
    logits, tokens = methods.text.greedy(prompt, placed, request.limits, count)
    return output_vector(prompt, tokens, np.stack(logits))
