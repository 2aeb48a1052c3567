"""The form of /v1/audio/transcriptions and /v1/audio/translations, and a transcript as its clients expect it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field
from starlette.responses import JSONResponse, PlainTextResponse, Response

from edgec.runtime_py.encoder_decoder.transcription import SpeechSegment, Transcript
from edgec.runtime_py.serve.problems import unsupported
from edgec.runtime_py.serve.strict import Strict

SoundFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
TRANSLATE: Final = "translate"


class SoundBody(Strict):
    """What both paths take; the values of a form are texts."""

    model_config = ConfigDict(strict=False)

    file: bytes = Field(strict=True)
    model: str = Field(max_length=256)
    response_format: SoundFormat = "json"
    temperature: float = Field(default=0.0, ge=0, le=1)
    prompt: Literal[""] = ""


class TranscriptionBody(SoundBody):
    """What is said, in its own language."""

    language: str | None = Field(default=None, max_length=64)
    stream: bool = False
    timestamp_granularities: list[Literal["segment"]] = Field(default=[], max_length=1)

    def check(self) -> None:
        """Refuse times in a form that has none. Raises RequestError E633."""
        if self.timestamp_granularities and self.response_format != "verbose_json":
            raise unsupported("timestamp_granularities", "only response_format verbose_json has times of segments")
        if self.stream and self.response_format not in ("json", "text"):
            raise unsupported("stream", "only the formats json and text are streamed")


def transcript_response(made: Transcript, form: SoundFormat, task: str, temperature: float) -> Response:
    """A transcript in the format that was asked for."""
    return _RESPONSES[form](made, task, temperature)


def _plain(made: Transcript, *_: object) -> Response:
    return JSONResponse({"text": made.text, "usage": usage_of_sound(made)})


def _text(made: Transcript, *_: object) -> Response:
    return PlainTextResponse(f"{made.text}\n")


def _verbose(made: Transcript, task: str, temperature: float) -> Response:
    segments = [_segment(place, one, temperature) for place, one in enumerate(made.segments)]
    told = {"task": task, "language": _language(made), "duration": made.sound_s, "text": made.text}
    return JSONResponse({**told, "segments": segments, "usage": usage_of_sound(made)})


def _segment(place: int, one: SpeechSegment, temperature: float) -> dict[str, Any]:
    """A segment; what edgec does not measure of it, such as the probability of silence, is left out."""
    raw = one.text.encode()
    ratio = len(raw) / len(zlib.compress(raw)) if raw else 0.0
    times = {"id": place, "start": one.start_s, "end": one.end_s}
    written = {"text": one.text, "tokens": list(one.tokens), "temperature": temperature}
    return {**times, **written, "compression_ratio": ratio}


def _language(made: Transcript) -> str:
    return (made.language or "").removeprefix("<|").removesuffix("|>")


def usage_of_sound(made: Transcript) -> dict[str, Any]:
    """What a transcript is counted by: the seconds of sound that were read."""
    return {"type": "duration", "seconds": round(made.sound_s, 3)}


def _srt(made: Transcript, *_: object) -> Response:
    cues = (
        f"{place}\n{_clock(one.start_s, ',')} --> {_clock(one.end_s, ',')}\n{one.text.strip()}\n"
        for place, one in enumerate(made.segments, 1)
    )
    return PlainTextResponse("\n".join(cues), media_type="application/x-subrip")


def _vtt(made: Transcript, *_: object) -> Response:
    cues = (f"{_clock(one.start_s, '.')} --> {_clock(one.end_s, '.')}\n{one.text.strip()}\n" for one in made.segments)
    return PlainTextResponse("\n".join(["WEBVTT\n", *cues]), media_type="text/vtt")


def _clock(seconds: float, point: str) -> str:
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"


_RESPONSES: Final[Mapping[SoundFormat, Callable[[Transcript, str, float], Response]]] = {
    "json": _plain,
    "text": _text,
    "srt": _srt,
    "verbose_json": _verbose,
    "vtt": _vtt,
}


def segment_event(segment: SpeechSegment, first: bool) -> bytes:
    """The event of a segment; all of them together have the transcript's text."""
    return sound_event({"type": "transcript.text.delta", "delta": segment.text.lstrip() if first else segment.text})


def last_event(made: Transcript) -> bytes:
    """The event of a whole transcript."""
    return sound_event({"type": "transcript.text.done", "text": made.text, "usage": usage_of_sound(made)})


def sound_event(held: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(held, ensure_ascii=False)}\n\n".encode()
