"""Speech to text with Whisper-like models: windows of the encoder's length, segments with their times.

A window is read and written as any source (``writing.py``). With timestamps the text is cut where the model says that a
sentence ends, and the next window begins there (section 3.8 of arXiv 2212.04356); without, windows follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from edgec.bundle.entry_points import SoundInput
from edgec.bundle.generation_config import GenerationConfig
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.log_mel import encoder_input
from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession
from edgec.runtime_py.encoder_decoder.token_rules import TimestampRules, TokenRules, require_known
from edgec.runtime_py.encoder_decoder.writing import first_tokens, most_tokens
from edgec.runtime_py.generation.generate import Decode, GenerationRequest, generate
from edgec.runtime_py.media.sound_file import Samples, check_samples


@dataclass(frozen=True)
class SpeechSegment:
    """A piece of text and when it was said.

    Attributes:
        start_s: seconds from the sound's beginning.
        end_s: likewise.
        text: as decoded.
        tokens: new tokens, timestamps included.
    """

    start_s: float
    end_s: float
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Transcript:
    """All that was said in a sound.

    Attributes:
        text: of all segments.
        segments: in order.
        language: the token of the language, such as ``<|en|>``; None where the model knows one language.
        sound_s: the sound's length in seconds.
        seconds: wall time of features, reading and writing, measured.
    """

    text: str
    segments: tuple[SpeechSegment, ...]
    language: str | None
    sound_s: float
    seconds: float


@dataclass(frozen=True)
class TranscriptionRequest:
    """A request for a transcription.

    Attributes:
        generation: how tokens are chosen, and how many of a window at most.
        language: ``en`` or ``<|en|>``; None: the model detects it in the first window.
        task: ``transcribe`` or ``translate``.
        timestamps: cut the text by the model's own timestamps; None: where the model has them.
    """

    generation: GenerationRequest
    language: str | None = None
    task: str = "transcribe"
    timestamps: bool | None = None


ShowSegment = Callable[[SpeechSegment], None]


def transcribe(
    session: EncoderDecoderSession,
    samples: Samples,
    request: TranscriptionRequest,
    config: GenerationConfig,
    decode: Decode,
    show: ShowSegment | None = None,
) -> Transcript:
    """Write what is said in a sound.

    Args:
        session: the loaded model.
        samples: float32 [N] at the model's sampling rate.
        request: what is asked.
        config: the bundle's.
        decode: token ids to text.
        show: called with each segment as soon as it is certain.

    Raises:
        InputError: E141, the generation config names tokens that the model does not have; E155, the model reads no
            sound; E156, it knows no such language, task or no timestamps; E178.
    """
    sound = sound_of(session)
    check_samples(samples, sound.sampling_rate)
    started = perf_counter()
    stamps = _timestamps(request, config)
    prompt, language = _prompt(session, samples, sound, request, config, stamps is not None)
    rules = TokenRules.of(config, len(prompt), most_tokens(session, prompt, request.generation))
    session.rules = replace(rules, timestamps=stamps)
    plain = _without_timestamps(decode, stamps)
    segments = []
    for segment in _segments(session, samples, sound, prompt, request.generation, plain, stamps):
        segments.append(segment)
        if show is not None:
            show(segment)
    text = "".join(segment.text for segment in segments).strip()
    length = samples.size / sound.sampling_rate
    return Transcript(text, tuple(segments), language, length, perf_counter() - started)


def _segments(
    session: EncoderDecoderSession,
    samples: Samples,
    sound: SoundInput,
    prompt: Sequence[int],
    generation: GenerationRequest,
    decode: Decode,
    stamps: TimestampRules | None,
) -> Iterator[SpeechSegment]:
    place, window = 0, sound.window_samples
    while place < samples.size:
        length = min(window, samples.size - place)
        session.read(encoder_input(samples[place : place + length], sound))
        said = [token for token in generate(session, prompt, generation, decode).tokens if token not in generation.eos]
        cut = _cut(said, stamps, length, sound.step_samples)
        for first, last, tokens in cut.pieces:
            begin, end = ((place + at * sound.step_samples) / sound.sampling_rate for at in (first, last))
            yield SpeechSegment(begin, end, decode(tokens), tuple(tokens))
        place += cut.samples


@dataclass(frozen=True)
class _Cut:
    """A window's text in pieces: first and last step and tokens of each; and the samples that are done."""

    pieces: tuple[tuple[float, float, list[int]], ...]
    samples: int


def _cut(said: list[int], stamps: TimestampRules | None, length: int, step: int) -> _Cut:
    """Cut a window's tokens where one timestamp follows another; what is unfinished belongs to the next window."""
    whole = length / step
    if stamps is None:
        return _Cut(((0.0, whole, said),), length)
    is_stamp = [token >= stamps.first for token in said]
    ends = [i + 1 for i in range(len(said) - 1) if is_stamp[i] and is_stamp[i + 1]]
    closed = is_stamp[-2:] == [False, True]
    if not ends:
        last = [token - stamps.first for token in said if token > stamps.first]
        return _Cut(((0.0, last[-1] if last else whole, said),), length)
    pieces = [said[begin:end] for begin, end in zip([0, *ends], [*ends, len(said)], strict=True)]
    kept = pieces if closed else pieces[:-1]
    cut = tuple((piece[0] - stamps.first, piece[-1] - stamps.first, piece) for piece in kept)
    done = length if closed else int(cut[-1][1]) * step
    # A model that says nothing but 0.00 s would begin the same window forever.
    return _Cut(cut, done if done > 0 else length)


def sound_of(session: EncoderDecoderSession) -> SoundInput:
    """The sound that the model reads.

    Raises:
        InputError: E155, it reads text.
    """
    if session.info.sound_input is None:
        raise InputError(
            "This model reads text, not sound.",
            where=str(session.bundle.path),
            fix="call .generate(...), or give -p TEXT",
            code="E155",
        )
    return session.info.sound_input


def _timestamps(request: TranscriptionRequest, config: GenerationConfig) -> TimestampRules | None:
    if request.timestamps is False or (config.no_timestamps_token_id is None and not request.timestamps):
        return None
    if config.no_timestamps_token_id is None or not config.stop_tokens:
        what, fix = "The model has no timestamps.", "leave timestamps out"
        raise InputError(what, where="timestamps", fix=fix, code="E156")
    first = config.no_timestamps_token_id + 1
    eos = config.stop_tokens[0]
    return TimestampRules(first, config.no_timestamps_token_id, eos, config.max_initial_timestamp_index)


def _prompt(
    session: EncoderDecoderSession,
    samples: Samples,
    sound: SoundInput,
    request: TranscriptionRequest,
    config: GenerationConfig,
    timed: bool,
) -> tuple[list[int], str | None]:
    """The tokens that every window's text begins with, and the language among them."""
    prompt, language = first_tokens(config), None
    if config.lang_to_id:
        language = _language(session, samples, sound, request.language, config.lang_to_id, prompt)
        prompt += [config.lang_to_id[language], _task(request.task, config.task_to_id or {})]
    if config.no_timestamps_token_id is not None and not timed:
        prompt.append(config.no_timestamps_token_id)
    return prompt, language


def _task(task: str, known: dict[str, int]) -> int:
    if task not in known:
        what, fix = f"The model has no task {task!r:.60}.", f"give {' or '.join(known) or 'no task'}"
        raise InputError(what, where="task", fix=fix, code="E156")
    return known[task]


def _language(
    session: EncoderDecoderSession,
    samples: Samples,
    sound: SoundInput,
    asked: str | None,
    known: dict[str, int],
    prompt: Sequence[int],
) -> str:
    """The token of the language that was asked for, else of the likeliest one after the first window."""
    if asked is not None:
        language = next((name for name in (asked.lower(), f"<|{asked.lower()}|>") if name in known), None)
        if language is None:
            what, fix = f"The model does not know the language {asked!r:.60}.", f"give one of {', '.join(known)}"[:300]
            raise InputError(what, where="language", fix=fix, code="E156")
        return language
    session.read(encoder_input(samples[: sound.window_samples], sound))
    logits = session.forward(prompt, 0, [len(prompt) - 1])[0]
    require_known(known.values(), logits.size)
    names = list(known)
    return names[int(np.argmax([logits[known[name]] for name in names]))]


def _without_timestamps(decode: Decode, stamps: TimestampRules | None) -> Decode:
    if stamps is None:
        return decode
    first = stamps.first
    return lambda tokens: decode([token for token in tokens if token < first])
