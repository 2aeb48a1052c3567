"""Run any form of a speech-language model on the same window of sound and the same text with its rows in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS as METHODS
from edgec.bundle.audio_language import AudioLanguageInfo
from edgec.errors import InputError
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.outputs import flatten_outputs, sizes_of
from edgec.exporter.parity.placed_rows import ExecutedText, placed_part, rows_placed
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.exporter.parity.probed_method import Executed, ProbedMethod
from edgec.exporter.sources.audio_language import mask_name, unknown_ears
from edgec.exporter.sources.model_build import put_weights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights import Weights
from edgec.ir.call_plan import Call, call_plan, compared_positions
from edgec.ir.program import Interface

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


@dataclass(frozen=True)
class AudioLanguageReference:
    """What transformers' own model computes.

    Attributes:
        window: the rows of a window that is all sound, float32 [T, hidden].
        heard: those of the part in the text.
        logits: float32 [P, V], at the text's compared positions.
    """

    window: Tensor
    heard: Tensor
    logits: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, to be stored with the rungs."""
        return {"window": self.window, "heard": self.heard, "logits": self.logits}

    @classmethod
    def read(cls, kept: Mapping[str, Tensor]) -> AudioLanguageReference:
        """Restore a reference from what ``tensors`` returned."""
        return cls(kept["window"], kept["heard"], kept["logits"])


class _Heard(Exception):
    """The model's decoder was called: the rows of a sound are known."""


class HearingModel:
    """Transformers' own model in float32 over the weights as they are stored."""

    def __init__(self, source: ModelSource, weights: Weights) -> None:
        """Build the model."""
        assert source.ears is not None
        self._family, self._model = source.ears.family, source.build_on("cpu", attn_implementation="eager")
        put_weights(self._model, weights, as_stored=True)

    def rows(self, info: AudioLanguageInfo, features: Tensor, frames: int) -> Tensor:
        """The rows that the model puts in the place of a sound's audio tokens, float32 [R, hidden].

        Raises:
            InputError: E751, it makes another number of them.
        """
        kept: list[Tensor] = []

        def keep(_: Any, args: Any, given: Mapping[str, Tensor]) -> None:
            kept.append(given["inputs_embeds"][0].float().clone())
            raise _Heard

        tokens = (info.audio_token,) * info.rows_of(frames)
        hook = self._model.get_decoder().register_forward_pre_hook(keep, with_kwargs=True)
        try:
            with suppress(_Heard):
                self._call(tokens, features, frames)
        except (ValueError, RuntimeError) as cause:
            why = f"its own code refuses {len(tokens)} rows for {frames} frames: {cause}"
            raise unknown_ears(self._family, "its code in transformers", why[:300]) from cause
        finally:
            hook.remove()
        return kept[0]

    def reference(self, probe: SoundProbe) -> AudioLanguageReference:
        """The model's own answers from features and tokens, without a cache."""
        info, features = probe.info, probe.features
        window, heard = (self.rows(info, features, frames) for frames in (info.sound.frames, probe.frames))
        logits = self._call(probe.tokens, features, probe.frames).logits
        return AudioLanguageReference(window, heard, logits[0, compared_positions(probe.plan)].float())

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


@dataclass(frozen=True)
class ProbedAudioLanguage:
    """What a speech-language model is compared on, and what transformers' own model computes."""

    probe: SoundProbe
    reference: AudioLanguageReference

    def methods(self) -> Mapping[str, ProbedMethod]:
        """The methods; text is written after transformers' own rows of the sound."""
        probe, wanted, (hear, forward) = self.probe, self.reference.window, METHODS
        window = [ProbeCall([probe.features, torch.tensor([probe.info.sound.frames])])]
        return {
            hear: ProbedMethod(hear, lambda _: window, flatten_outputs(wanted), sizes_of(wanted)),
            forward: ProbedMethod(forward, self._text_calls, self.reference.logits),
        }

    def _text_calls(self, interface: Interface) -> Sequence[ProbeCall]:
        placed = self.probe.placed(self.reference.heard)
        return text_calls(interface, self.probe.tokens, self.probe.plan, partial(placed_part, placed))

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the reference by name, to be stored with the rungs."""
        return self.reference.tensors()

    def execute(self, artifact: Path) -> Executed:
        """Execute the methods of an artifact, each alone, and both of them from the features to the logits."""
        methods, probe, (hear, forward) = ExecutedAudioLanguage(artifact), self.probe, METHODS
        window = methods.rows(probe.features, probe.info.sound.frames)
        heard = methods.rows(probe.features, probe.frames)[: probe.rows]
        written, whole = (
            methods.text.plan_logits(probe.tokens, probe.plan, probe.placed(rows))
            for rows in (self.reference.heard, heard)
        )
        return Executed({hear: flatten_outputs(window), forward: written}, whole)


class ExecutedAudioLanguage:
    """The methods of an artifact in ExecuTorch's runtime, in this process."""

    def __init__(self, artifact: Path) -> None:
        """Load the artifact.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        hear, forward = METHODS
        self._hear, self.text = TorchMethod(artifact, hear), ExecutedText(artifact, forward)

    def rows(self, features: Tensor, frames: int) -> Tensor:
        """All rows of a window, float32 [T, hidden]."""
        rows: Tensor = self._hear([features, torch.tensor([frames])])[0]
        return rows.float().clone()
