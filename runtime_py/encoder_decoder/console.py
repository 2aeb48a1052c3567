"""The output of ``edgec run`` for encoder-decoders: what was said with its times, or the text that follows a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, Transcript
from edgec.runtime_py.generation.generate import Generation

if TYPE_CHECKING:
    from edgec.runtime_py.model import Model


@dataclass(frozen=True)
class SourceOptions:
    """What is read, and how it is written.

    Attributes:
        prompt: the text to read, or None.
        audio: the WAV files to hear, of which there may be one.
        language: to write in, or that is spoken.
        task: ``transcribe`` or ``translate``, for sound.
        json: one JSON object on stdout.
        generation: options of ``Model.request``.
    """

    prompt: str | None
    audio: Sequence[Path]
    language: str | None
    task: str
    json: bool
    generation: Mapping[str, Any]


def run_source(model: Model, options: SourceOptions, finish: Callable[[Generation], None]) -> None:
    """Write the text that follows a source; ``finish`` prints the summary of a text that follows a text.

    Raises:
        InputError: E156, the wrong kind of source was given; else as ``Model.generate`` and ``Model.transcribe``.
    """
    audio = model.encoder_decoder.info.sound_input is not None
    if len(options.audio) != audio or audio == (options.prompt is not None):
        given, fix = ("reads text", "give -p TEXT") if not audio else ("takes sound", "give --audio FILE.wav")
        raise InputError(f"This model {given}.", where="edgec run", fix=f"{fix} and nothing else to read", code="E156")
    if options.audio:
        _transcribe(model, options.audio[0], options)
        return
    assert options.prompt is not None
    show = None if options.json else lambda piece: print(piece, end="", flush=True)
    finish(model.generate(options.prompt, stream=show, language=options.language, **options.generation))


def _transcribe(model: Model, audio: Path, options: SourceOptions) -> None:
    show = None if options.json else _show
    result = model.transcribe(audio, language=options.language, task=options.task, stream=show, **options.generation)
    if options.json:
        print(json.dumps({**asdict(result), "obtained": "measured"}, ensure_ascii=False), flush=True)
        return
    print(_summary(result, model.load_ms), file=sys.stderr, flush=True)


def _show(segment: SpeechSegment) -> None:
    print(f"[{_clock(segment.start_s)} - {_clock(segment.end_s)}] {segment.text.strip()}", flush=True)


def _clock(seconds: float) -> str:
    """Seconds as ``MM:SS.cc``, with hours where there are any."""
    minutes, rest = divmod(round(seconds, 2), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:05.2f}" if hours else f"{minutes:02}:{rest:05.2f}"


def _summary(result: Transcript, load_ms: float) -> str:
    """One line that says what was transcribed and how fast, measured by wall clock."""
    tokens = sum(len(segment.tokens) for segment in result.segments)
    heard = f"{result.sound_s:.1f} s of sound in {result.seconds:.2f} s ({result.sound_s / result.seconds:.1f}x)"
    language = f", language {result.language}" if result.language else ""
    return f"[measured: load {load_ms:.0f} ms, {heard}, {tokens} tokens in {len(result.segments)} segments{language}]"
