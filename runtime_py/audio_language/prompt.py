"""Text and sounds as the input of a speech-language model, as transformers' processors make it.

    "what is said?" and 7 s of sound -> "<begin> <audio> <end> what is said?" -> tokens, <audio> once for each row
                                     -> windows of log-mel features, and how many frames of each are sound

A processor expands the placeholder of the text before it is read; here the token is repeated afterwards, which gives
the same tokens, since placeholders are special tokens that no text around them joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.bundle.encoding import token_ids
from edgec.errors import InputError
from edgec.runtime_py.encoder_decoder.log_mel import log_mel
from edgec.runtime_py.media.sound_file import (
    Samples,
    SoundSource,
    check_samples,
    read_sound,
    sound_length,
)

_SOUNDS = "sound"


@dataclass(frozen=True)
class SoundPrompt:
    """A prompt with its sounds, ready for the model.

    Attributes:
        tokens: ids; each sound is as many audio tokens as it has rows.
        features: float32 [N, mels, frames], the windows of all sounds in order.
        frames: how many frames of each window are sound.
    """

    tokens: list[int]
    features: NDArray[np.float32]
    frames: tuple[int, ...]


def rows_of_sound(source: SoundSource, info: AudioLanguageInfo) -> int:
    """How many tokens a sound takes; of a file only the header is read.

    Raises:
        InputError: E152, it is neither a file nor samples; E177 or E178, it cannot be read, or has another rate; E754,
            it is shorter than a row, or longer than the model reads.
    """
    rate = info.sound.sampling_rate
    if isinstance(source, Path | str | bytes):
        count = sound_length(source, rate)
    else:
        samples = np.asarray(source)
        check_samples(samples, rate)
        count = samples.size
    _check_length(count, info)
    return info.sound_rows(count)


def _check_length(samples: int, info: AudioLanguageInfo) -> None:
    seconds, longest = samples / info.sound.sampling_rate, info.longest_s
    if longest is not None and seconds > longest:
        what, why = f"The sound lasts {seconds:.1f} s.", f"this model reads {longest:g} s at a time, and no more"
        raise InputError(what, where=_SOUNDS, why=why, fix="cut it into parts", code="E754")
    if info.sound_rows(samples) == 0:
        what, why = f"The sound lasts {1000 * seconds:.1f} ms.", "the model makes no row of so little"
        raise InputError(what, where=_SOUNDS, why=why, fix="give a longer sound", code="E754")


def sound_prompt(
    text: str, sources: Sequence[SoundSource], info: AudioLanguageInfo, tokenizer: Any, *, rendered: bool
) -> SoundPrompt:
    """Turn a text and sounds into tokens and windows of features.

    Args:
        text: with the model's placeholder for each sound, or with none: sounds then come first.
        sources: at least one, checked by ``rows_of_sound``.
        info: how features are made, and the tokens of sounds.
        tokenizer: of transformers.
        rendered: the text comes from a chat template, which has a place for each sound and may have written the first
            token.

    Raises:
        InputError: E152, the text is not valid Unicode; E158, the tokenizer cannot read it; E754, sounds and their
            places do not agree.
    """
    tokens = prompt_tokens(text, len(sources), info, tokenizer, rendered=rendered)
    sounds = [_samples(source, info) for source in sources]
    counts = iter(info.sound_rows(sound.size) for sound in sounds)
    expanded = [token for each in tokens for token in [each] * (next(counts) if each == info.audio_token else 1)]
    windows = [features_of(sound, info) for sound in sounds]
    frames = tuple(count for sound in sounds for count in info.window_frames(sound.size))
    return SoundPrompt(expanded, np.concatenate(windows), frames)


def prompt_tokens(text: str, sounds: int, info: AudioLanguageInfo, tokenizer: Any, *, rendered: bool) -> list[int]:
    """The tokens of a text with one audio token for each sound.

    Raises:
        InputError: E152, E158, E754, as ``sound_prompt``.
    """
    mark, before, after = (
        "".join(tokenizer.convert_ids_to_tokens(list(ids))) for ids in ([info.audio_token], info.before, info.after)
    )
    if mark not in text and not rendered:
        text = (before + mark + after) * sounds + text
    first = str(getattr(tokenizer, "bos_token", None) or "")
    begun = rendered and bool(first) and text.startswith(first)
    tokens = token_ids(tokenizer, text, special=not begun)
    places = tokens.count(info.audio_token)
    if places != sounds:
        raise disagreement(
            f"there are {sounds} sounds, and {places} places"
            + (" in what the chat template makes of them" if rendered else "")
        )
    return tokens


def features_of(samples: Samples, info: AudioLanguageInfo) -> NDArray[np.float32]:
    """The windows of a sound, float32 [N, mels, frames]."""
    sound, size, count = info.sound, info.sound.window_samples, len(info.window_frames(samples.size))
    if not info.whole:
        return np.concatenate([log_mel(samples[index * size : (index + 1) * size], sound) for index in range(count)])
    joined = log_mel(samples, sound.model_copy(update={"frames": count * sound.frames}))
    cut: NDArray[np.float32] = joined.reshape(sound.mels, count, sound.frames).transpose(1, 0, 2)
    return np.ascontiguousarray(cut)


def _samples(source: SoundSource, info: AudioLanguageInfo) -> Samples:
    if isinstance(source, Path | str | bytes):
        return read_sound(source, info.sound.sampling_rate)
    return np.asarray(source, np.float32)


def disagreement(why: str) -> InputError:
    """The error E754 for sounds and a text that do not fit together."""
    return InputError(
        "Sounds and their places in the text do not agree.",
        where="prompt",
        why=why,
        fix="give the model's placeholder once for each sound, or not at all and without the chat template (--raw)",
        code="E754",
    )
