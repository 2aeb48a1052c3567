"""A window of sound and a text with its rows, and what transformers' own speech-language model computes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.errors import InputError
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.own_code import own_code
from edgec.exporter.parity.placed_rows import rows_placed
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.rows_and_text import RowsReference
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.multimodal.audio_language import mask_name, unknown_audio
from edgec.exporter.sources.weights.streamed import Weights
from edgec.ir.call_plan import Call, call_plan, compared_positions

# Tokens before a sound and, at least, after it.
_BEFORE, _AFTER = 3, 16
# The share of the window that is sound in the text, where a sound may end before its window.
_SHARE = 5 / 8


@dataclass(frozen=True)
class SoundProbe:
    """A window, of which a part is sound, and a text with the rows of that part.

    Attributes:
        info: says how many rows frames make.
        features: float32 [1, mels, frames].
        frames: how many of them are sound in the text.
        tokens: ids, among them the audio token once for each row.
        plan: the calls that feed them.
    """

    info: AudioLanguageInfo
    features: Tensor
    frames: int
    tokens: tuple[int, ...]
    plan: tuple[Call, ...]

    @property
    def whole(self) -> Sequence[Tensor]:
        """The inputs of hear for a window that is all sound."""
        return [self.features, torch.tensor([self.info.sound.frames])]

    @property
    def after_rows(self) -> int:
        """The position of the first token after the rows."""
        return self.tokens.index(self.info.audio_token) + self.rows

    @property
    def in_text(self) -> Sequence[Tensor]:
        """The inputs of hear for the window whose sound stands in the text."""
        return [self.features, torch.tensor([self.frames])]

    @property
    def rows(self) -> int:
        """The rows of sound in the text."""
        return self.info.rows_of(self.frames)

    def placed(self, rows: Tensor) -> dict[str, Tensor]:
        """What the whole text has beside tokens and positions, with these rows [T, width] in the sound's place."""
        return rows_placed(self.tokens, self.info.audio_token, rows)


def sound_probe(info: AudioLanguageInfo, text: Probe) -> SoundProbe:
    """Choose a window and a text; the rows follow the text's first tokens.

    Args:
        info: gives the window's shape, the audio token and the limits of the decoder.
        text: the ladder's text.

    Raises:
        InputError: E752, the context cannot hold a window.
    """
    limits, least = info.limits, _BEFORE + info.rows + _AFTER
    if least > limits.context:
        raise InputError(
            f"A context of {limits.context} tokens cannot hold a window of sound.",
            where="--context",
            why=f"a window takes {info.rows} tokens, and text before and after it at least {_BEFORE + _AFTER}",
            fix=f"use --context {least} or more",
            code="E752",
        )
    frames = info.sound.frames if info.whole else max(info.stride * info.merge, int(info.sound.frames * _SHARE))
    rows = info.rows_of(frames)
    words = [token for token in text.tokens if token != info.audio_token] or [0]
    length = min(limits.context, max(len(text.tokens), _BEFORE + rows + _AFTER))
    around = list(islice(cycle(words), length - rows))
    tokens = (*around[:_BEFORE], *[info.audio_token] * rows, *around[_BEFORE:])
    shape = (1, info.sound.mels, info.sound.frames)
    features = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    plan = call_plan(length, limits.prefill_chunk, limits.logit_rows)
    return SoundProbe(info, features, frames, tokens, plan)


class _Transcribed(Exception):
    """The model's decoder was called: the rows of a sound are known."""


class AudioModel:
    """Transformers' own model in float32 over the weights as they are stored."""

    def __init__(self, source: ModelSource, weights: Weights) -> None:
        """Build the model."""
        assert source.audio is not None
        self._family, self._model = source.audio.family, source.build_on("cpu", attn_implementation="eager")
        put_weights(self._model, weights, as_stored=True)

    def rows(self, info: AudioLanguageInfo, features: Tensor, frames: int) -> Tensor:
        """The rows that the model puts in the place of a sound's audio tokens, float32 [R, hidden].

        Raises:
            InputError: E751, it makes another number of them.
        """
        kept: list[Tensor] = []

        def keep(_: Any, args: Any, given: Mapping[str, Tensor]) -> None:
            kept.append(given["inputs_embeds"][0].float().clone())
            raise _Transcribed

        tokens = (info.audio_token,) * info.rows_of(frames)
        hook = self._model.get_decoder().register_forward_pre_hook(keep, with_kwargs=True)
        try:
            with suppress(_Transcribed):
                self._call(tokens, features, frames)
        except (ValueError, RuntimeError) as cause:
            why = f"its own code refuses {len(tokens)} rows for {frames} frames: {cause}"
            raise unknown_audio(self._family, "its code in transformers", why[:300]) from cause
        finally:
            hook.remove()
        return kept[0]

    def reference(self, probe: SoundProbe) -> RowsReference:
        """The model's own answers from features and tokens, without a cache.

        Raises:
            InputError: E751, as ``rows``; E769, the model's code fails.
        """
        info, features = probe.info, probe.features
        with own_code(self._model, "a sound and a text"):
            window, heard = (self.rows(info, features, frames) for frames in (info.sound.frames, probe.frames))
            logits = self._call(probe.tokens, features, probe.frames).logits
        return RowsReference(window, heard, logits[0, compared_positions(probe.plan)].float())

    def _call(self, tokens: Sequence[int], features: Tensor, frames: int) -> Any:
        name = mask_name(self._model)
        mask = (torch.arange(features.shape[-1]) < frames).long().unsqueeze(0)
        given = {
            "input_ids": torch.tensor([list(tokens)]),
            "input_features": features,
            **({name: mask} if name else {}),
        }
        with torch.no_grad(), InFloat32(None):
            return self._model(**given, use_cache=False)
