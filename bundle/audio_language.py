"""The manifest on a speech-language model: how a sound becomes windows of frames, and how many tokens it takes.

samples -> windows of `sound.frames` frames -> audio_encoder, one at a time -> rows [1, T, width], cut to sound
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from edgec.bundle.entry_points import FORWARD, Limits, SoundInfo
from edgec.bundle.part import JsonPart, JsonSize, TokenId

AUDIO_LANGUAGE_METHODS = ("audio_encoder", FORWARD)


class AudioLanguageInfo(JsonPart):
    """An artifact with the methods audio_encoder and forward: see docs/multimodal.md.

    ``limits``: of forward; ``sound``: how the features of one window, the encoder's input, are made; ``stride``:
    frames of one position of the encoder, of which ``merge`` become a row; ``rows``: tokens that a whole window takes
    in the text, each written there as ``audio_token``; ``windows``: the most of one sound, None where the context
    alone decides; ``whole``: silence up to the end of a window counts as sound, and the features of all windows are
    made together; ``before`` and ``after``: tokens around a sound for which a text names no place.
    """

    limits: Limits
    sound: SoundInfo
    stride: JsonSize
    merge: JsonSize
    rows: JsonSize
    audio_token: TokenId
    windows: JsonSize | None = None
    whole: bool = False
    before: list[TokenId] = Field(default=[])
    after: list[TokenId] = Field(default=[])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rows != self.rows_of(self.sound.frames):
            raise ValueError(f"{self.sound.frames} frames make {self.rows_of(self.sound.frames)} rows, not {self.rows}")
        return self

    @property
    def longest_s(self) -> float | None:
        """Seconds of the longest sound that the model reads; None where the context alone decides."""
        seconds = self.sound.window_samples / self.sound.sampling_rate
        return None if self.windows is None else self.windows * seconds

    def rows_of(self, frames: int) -> int:
        """How many rows so many frames of a window make."""
        return -(-frames // self.stride) // self.merge

    def window_frames(self, samples: int) -> list[int]:
        """How many frames of each window are sound."""
        count, last = self._windows(samples)
        return [self.sound.frames] * (count - 1) + [last]

    def sound_rows(self, samples: int) -> int:
        """How many tokens a sound takes; 0 where it is too short for one."""
        count, last = self._windows(samples)
        return (count - 1) * self.rows + self.rows_of(last)

    def _windows(self, samples: int) -> tuple[int, int]:
        """How many windows a sound takes, and the frames of sound in the last one."""
        size = self.sound.window_samples
        count = max(1, -(-samples // size))
        rest = samples - (count - 1) * size
        return count, self.sound.frames if self.whole else -(-rest // self.sound.hop)
