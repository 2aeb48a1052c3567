"""A speech-language model's artifact: windows of features in, rows out; then a decoder that reads them among tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS, AudioLanguageInfo
from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import Bundle
from edgec.errors import InputError
from edgec.runtime_py.audio_language.prompt import SoundPrompt, disagreement
from edgec.runtime_py.engines.executor import Array, EngineName, Executor
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.sessions.placed_rows import RowsSession

AUDIO_ENCODER, _ = AUDIO_LANGUAGE_METHODS


class AudioLanguageSession(RowsSession):
    """A sequence of text and sounds on a loaded model, for one thread at a time.

    Attributes:
        info: how features are made, rows of a window, the audio token.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None, engine: EngineName | None = None) -> None:
        """Load the decoder; the encoder of sound is loaded with the first sound.

        Raises:
            InputError: E753, the model has no audio; else as ``Session``.
        """
        self.info = audio_language_info(bundle)
        super().__init__(bundle, threads, engine)
        self._audio_encoder: Executor | None = None

    def encode_audio(self, features: Array, frames: Sequence[int]) -> NDArray[np.float32]:
        """The rows of windows.

        Args:
            features: float32 [N, mels, frames].
            frames: how many of each window are sound.

        Returns:
            float32 [R, hidden], the rows of sound of all windows in order.

        Raises:
            InputError: E152, the windows have another shape or type.
        """
        wanted = (self.info.sound.mels, self.info.sound.frames)
        if features.dtype != np.float32 or features.ndim != 3 or features.shape[1:] != wanted:
            what = f"The features are {features.dtype} {list(features.shape)}."
            raise InputError(what, where="audio_encoder", fix=f"give float32 [N, *{list(wanted)}]", code="E152")
        if self._audio_encoder is None:
            self._audio_encoder = open_artifact(self.bundle, self.engine, AUDIO_ENCODER)
        rows = [
            self._window(self._audio_encoder, window, count) for window, count in zip(features, frames, strict=True)
        ]
        return np.concatenate([np.zeros((0, self._width), np.float32), *rows])

    def _window(self, encoder: Executor, window: Array, frames: int) -> NDArray[np.float32]:
        made = encoder.run([window[None], np.array([frames])])[0]
        # The executor may write the next window's rows to the same memory.
        return np.array(made[0, : self.info.rows_of(frames)], np.float32)

    def listen(self, tokens: Sequence[int], prompt: SoundPrompt | None) -> None:
        """Put sounds in the place of a prompt's audio tokens; what the KV cache holds from there on is forgotten.

        Args:
            tokens: the whole prompt, from position 0.
            prompt: its windows; None for a prompt without sound.

        Raises:
            InputError: E754, sounds and audio tokens do not agree; E152 as ``encode_audio``.
        """
        places = np.flatnonzero(np.asarray(tokens) == self.info.audio_token)
        rows = sum(map(self.info.rows_of, prompt.frames)) if prompt else 0
        if len(places) != rows:
            raise disagreement(f"the sounds have {rows} rows, and the prompt has {len(places)} audio tokens")
        self._forget_rows()
        if prompt is None or not rows:
            return
        del self.cache.tokens[int(places[0]) :]
        self._put_rows(places, self.encode_audio(prompt.features, prompt.frames))

    def take(self, tokens: Sequence[int], prompt: SoundPrompt | None) -> None:
        """Hear what a prompt came with, as ``listen``."""
        self.listen(tokens, prompt)

    def _limits(self) -> Limits:
        return self.info.limits


def audio_language_info(bundle: Bundle) -> AudioLanguageInfo:
    """What a bundle's manifest says about its audio.

    Raises:
        InputError: E753, the model has none.
    """
    info, reads = bundle.manifest.audio_language, bundle.manifest.encoder_decoder
    if info is None:
        transcribes = reads is not None and reads.sound_input is not None
        raise InputError(
            "This model does not answer about sound.",
            where=str(bundle.path),
            why=f"its task is {bundle.manifest.model.task}",
            fix="call .transcribe(file), or edgec run --audio FILE.wav without a prompt"
            if transcribes
            else "give text alone, or use a bundle of Voxtral, Qwen2-Audio or the like",
            code="E753",
        )
    return info
