"""What a measured model is asked: seeded tokens, and with vision or audio a tile or a window of sound among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgec.devices.job import bench_prompt, vocab_size
from edgec.runtime_py.audio_language.prompt import SoundPrompt
from edgec.runtime_py.audio_language.session import AudioLanguageSession
from edgec.runtime_py.sessions.placed_rows import RowsSession
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.vision_language.processor import Prompt
from edgec.runtime_py.vision_language.session import VisionLanguageSession

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

_BEFORE = 4


@dataclass(frozen=True)
class ShownPrompt:
    """A prompt: its tokens, and what comes with them for a session that takes images or audio."""

    tokens: list[int]
    shown: Any = None

    def begin(self, stepper: object) -> None:
        """Encode the images or audio; nothing where there are none."""
        if isinstance(stepper, RowsSession):
            stepper.take(self.tokens, self.shown)


def sense_tokens(bundle: Bundle) -> int:
    """How many tokens the tile or the window takes; 0 for a model that only reads."""
    senses = bundle.manifest.vision_language or bundle.manifest.audio_language
    return 0 if senses is None else senses.rows


def shown_with(bundle: Bundle) -> str | None:
    """What comes with every prompt, in words; None for a model that only reads."""
    images, audio = bundle.manifest.vision_language, bundle.manifest.audio_language
    if images is not None:
        return f"an image of {images.width} x {images.height}"
    return None if audio is None else f"{audio.sound.window_samples / audio.sound.sampling_rate:g} s of sound"


def open_session(bundle: Bundle, threads: int | None) -> Session:
    """The session of a bundle's kind; an encoder of images or sound is loaded with the first prompt.

    Raises:
        InputError: as ``Session``.
    """
    if bundle.manifest.vision_language is not None:
        return VisionLanguageSession(bundle, threads)
    return (Session if bundle.manifest.audio_language is None else AudioLanguageSession)(bundle, threads)


def prompt_of(bundle: Bundle, prompt_tokens: int) -> ShownPrompt:
    """A prompt of so many tokens, those of the tile or the window included."""
    images, audio = bundle.manifest.vision_language, bundle.manifest.audio_language
    if images is not None:
        tokens = _around(bundle, prompt_tokens, images.image_token)
        return ShownPrompt(tokens, Prompt(tokens, _noise(1, images.channels, images.height, images.width)))
    if audio is not None:
        tokens, frames = _around(bundle, prompt_tokens, audio.audio_token), audio.sound.frames
        return ShownPrompt(tokens, SoundPrompt(tokens, _noise(1, audio.sound.mels, frames), (frames,)))
    return ShownPrompt(bench_prompt(prompt_tokens, vocab_size(bundle)))


def _around(bundle: Bundle, prompt_tokens: int, place: int) -> list[int]:
    """Words with a token ``place`` for each row among them; no word is that token."""
    rows, size = sense_tokens(bundle), vocab_size(bundle)
    words = [word if word != place else (place + 1) % size for word in bench_prompt(prompt_tokens - rows, size)]
    return [*words[:_BEFORE], *[place] * rows, *words[_BEFORE:]]


def _noise(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
