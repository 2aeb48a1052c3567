"""Loaded models with an encoder: write text after a source, and transcribe speech."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Unpack

import numpy as np

from edgec.bundle.encoding import token_ids
from edgec.quiet import quiet
from edgec.runtime_py.answers.generation_arguments import GenerationArguments
from edgec.runtime_py.answers.request_options import RequestOptions
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.decoding.arguments import check_ids
from edgec.runtime_py.encoder_decoder.session import EncoderDecoderSession, encoder_decoder_info
from edgec.runtime_py.encoder_decoder.transcription import (
    ShowSegment,
    Transcript,
    TranscriptionRequest,
    sound_of,
    transcribe,
)
from edgec.runtime_py.encoder_decoder.writing import language_token, pieces_after
from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.media.sound_file import SoundSource, read_sound
from edgec.runtime_py.sessions.turn import Turn


class Reading(Tokenized):
    """A model that may have read a source with an encoder before it writes.

    Attributes:
        load_ms: time to load the artifact, measured.
    """

    load_ms: float
    _loaded: object
    _turn: Turn

    @property
    def encoder_decoder(self) -> EncoderDecoderSession:
        """The loaded encoder-decoder.

        Raises:
            InputError: E155, the model is another kind.
        """
        encoder_decoder_info(self.bundle)
        assert isinstance(self._loaded, EncoderDecoderSession)
        return self._loaded

    @property
    def transcribes(self) -> bool:
        """Whether it writes what is said in a sound, for which there is ``transcribe``."""
        reads = self.bundle.manifest.encoder_decoder
        return reads is not None and reads.sound_input is not None

    def _pieces_after(self, asked: GenerationArguments) -> Generator[str, None, Generation]:
        session, source = self.encoder_decoder, asked.prompt
        if isinstance(source, str):
            source = token_ids(self.tokenizer, source, enough=session.info.source_tokens)
        first = None if asked.language is None else language_token(self.tokenizer, asked.language)
        request = self.request(**asked.request_options)
        return pieces_after(session, check_ids(source), request, self.generation_config, self.decode, first=first)

    @quiet()
    def transcribe(
        self,
        sound: SoundSource,
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool | None = None,
        stream: ShowSegment | None = None,
        **options: Unpack[RequestOptions],
    ) -> Transcript:
        """Transcribe speech, in windows of the encoder's length (30 s for Whisper).

        Args:
            sound: a WAV file, its bytes, or float32 samples [N] in -1..1 at the model's sampling rate.
            language: such as ``en``; None: the model detects it.
            task: ``transcribe``, or ``translate`` into English.
            timestamps: cut the text by the model's timestamps; None: where it has them.
            stream: called with each segment as soon as it is certain.
            options: those of ``request``; ``max_new_tokens`` counts in each window.

        Raises:
            InputError: E155, the model reads no sound; E156, it has no such language or task; E177 or E178, the sound.
        """
        session = self.encoder_decoder
        rate = sound_of(session).sampling_rate
        samples = read_sound(sound, rate) if isinstance(sound, Path | str | bytes) else np.asarray(sound)
        asked = TranscriptionRequest(
            self.request(**RequestOptions(**{"max_new_tokens": None, **options})), language, task, timestamps
        )
        with self._turn:
            return transcribe(session, samples, asked, self.generation_config, self.decode, stream)
