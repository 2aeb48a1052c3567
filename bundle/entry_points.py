"""The manifest on an artifact's methods: their inputs, outputs and states, and what callers must keep to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Literal, Self

from pydantic import Field, model_validator

from edgec.bundle.part import Dtype, JsonCount, JsonPart, JsonSize

Ahead = Literal["none", "image", "prompt"]
"""What sees ahead: nothing, the rows of an image, all of a prompt with images."""
FORWARD, FORWARD_ROWS = "forward", "forward_rows"
"""The method of a model that has one, and a decoder's of text alone, which says logits of several positions.

Beside the latter, ``forward`` is for ExecuTorch's own runner: see backends/cpu/text_runner.py."""
ENCODER_DECODER_METHODS = ("encode", "cross", FORWARD)
STATIC_ENCODER_DECODER_METHODS = ("encode", "cross", "prefill", "decode")
"""Where shapes are fixed."""
VISION_ENCODER = "vision_encoder"
TOKEN_EMBEDDING, TEXT_DECODER = "token_embedding", "text_decoder"
"""Further methods of a vision-language model, for ExecuTorch's own runner: see backends/cpu/multimodal_runner.py."""
ENCODER = "encoder"
"""Beside ``TEXT_DECODER`` a further method of a model that hears, likewise: see backends/cpu/speech_runner.py."""
VISION_LANGUAGE_METHODS = (VISION_ENCODER, FORWARD)
STATIC_VISION_LANGUAGE_METHODS = (VISION_ENCODER, "prefill", "decode")
"""Where shapes are fixed."""
_MOST_SOUND = 1 << 26
"""Samples, or features, of one window of sound: more than an hour at 16 kHz, in 256 MiB."""


def called_method(names: Collection[str]) -> str:
    """The method of an artifact for CPUs that edgec calls: a decoder's of text alone, or else the one of its model."""
    return FORWARD_ROWS if FORWARD_ROWS in names else FORWARD


class TensorInfo(JsonPart):
    """One input or output; a string dimension names a dynamic size given in ``MethodInfo.dynamic``."""

    name: str
    dtype: Dtype
    shape: list[JsonCount | str]


class MethodInfo(JsonPart):
    """One entry point of the artifact. ``dynamic`` maps a dimension's name to [low, high], inclusive."""

    name: str
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    dynamic: dict[str, tuple[JsonCount, JsonCount]] = Field(default={})

    def reads(self, name: str) -> bool:
        """Whether an input of this name has three dimensions, the last of a known size."""
        return any(
            each.name == name and len(each.shape) == 3 and isinstance(each.shape[-1], int) for each in self.inputs
        )

    def largest(self, tensor: TensorInfo) -> list[int]:
        """The largest shape of an input or output; a size that varies without limits counts as 0."""
        return [size if isinstance(size, int) else self.dynamic.get(size, (0, 0))[1] for size in tensor.shape]


def memory_names(layers: int) -> tuple[str, ...]:
    """The names of a decoder's keys and values of its encoder, layer by layer."""
    return tuple(f"cross_{role}_{layer}" for layer in range(layers) for role in ("key", "value"))


def source_memory(methods: Sequence[MethodInfo]) -> list[str]:
    """What the static methods of an encoder-decoder's decoder are given of a source, by name.

    ``methods``: encode, whose inputs after the source go to the decoder too, cross, and the decoder's.
    """
    encode, cross, *_ = methods
    return [tensor.name for tensor in (*cross.outputs, *encode.inputs[1:])]


class StateInfo(JsonPart):
    """A buffer that lives between calls.

    ``offset``: its first byte in the program's state arena; None where the runtime keeps it out of reach.
    """

    name: str
    layer: JsonCount
    role: str
    dtype: Dtype
    shape: list[JsonSize]
    layout: Literal["full", "ring", "recurrent"]
    slots: JsonSize
    window: JsonSize | None = None
    sink_tokens: JsonCount = 0
    bytes: JsonCount
    offset: JsonCount | None = None


class Limits(JsonPart):
    """What a caller must keep to: at most ``prefill_chunk`` tokens and ``logit_rows`` logit positions per call."""

    context: JsonSize
    prefill_chunk: JsonSize
    logit_rows: JsonSize


class SoundInfo(JsonPart):
    """How an encoder's log-mel features are made of sound, as Whisper's: see docs/encoder-decoders.md.

    ``mels`` by ``frames`` features of ``frames * hop`` samples at ``sampling_rate`` Hz; windows of ``fft`` samples.
    """

    sampling_rate: JsonSize
    mels: JsonSize
    frames: JsonSize
    fft: JsonSize
    hop: JsonSize

    @model_validator(mode="after")
    def _check(self) -> Self:
        sizes = {"samples": self.frames * self.hop, "features": self.frames * self.mels, "samples at a time": self.fft}
        large = next((name for name, count in sizes.items() if count > _MOST_SOUND), None)
        if large is not None:
            raise ValueError(f"a window has {sizes[large]} {large}, above {_MOST_SOUND}")
        return self

    @property
    def window_samples(self) -> int:
        """Samples that the encoder reads at a time."""
        return self.frames * self.hop

    @property
    def step_samples(self) -> int:
        """Samples of a step of Whisper's timestamps: two frames, one position of its encoder."""
        return 2 * self.hop


class WaveformInfo(JsonPart):
    """The samples that an encoder reads as they are, as Moonshine's: see docs/encoder-decoders.md.

    From ``fewest_samples`` to ``window_samples`` in one call, at ``sampling_rate`` Hz.
    """

    sampling_rate: JsonSize
    fewest_samples: JsonSize
    window_samples: JsonSize

    @property
    def step_samples(self) -> int:
        """The unit of times within a window; such a model has no timestamps."""
        return 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.fewest_samples > self.window_samples:
            raise ValueError("an encoder reads at least as many samples at most as at least")
        return self


SoundInput = SoundInfo | WaveformInfo
"""How a sound becomes what the encoder reads."""


class EncoderDecoderInfo(JsonPart):
    """An artifact with the methods encode, cross and forward, or encode, cross, prefill and decode.

    ``limits``: of the decoder; ``source_tokens``: the most that encode reads, None where it reads ``sound`` (features
    of it) or a ``waveform``. Where shapes are fixed, a text is filled up to ``source_tokens``.
    """

    limits: Limits
    source_tokens: JsonSize | None = None
    sound: SoundInfo | None = None
    # Left out where there is none, so that the bundles of other models stay as they were written.
    waveform: WaveformInfo | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def sound_input(self) -> SoundInput | None:
        """The sound that encode reads; None where it reads tokens."""
        return self.sound or self.waveform

    def source_shape(self, length: int) -> tuple[int, ...]:
        """The shape of a source of this length: features have one alone, samples at least and at most so many."""
        if self.sound is not None:
            return (1, self.sound.mels, self.sound.frames)
        if self.waveform is not None:
            return (1, min(max(length, self.waveform.fewest_samples), self.waveform.window_samples))
        return (1, length)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if [self.source_tokens, self.sound, self.waveform].count(None) != 2:
            raise ValueError("an encoder reads either tokens, features of sound or a waveform")
        return self


PatchOrder = Literal["blocks", "lines", "tiles"]


class PatchesInfo(JsonPart):
    """How a processor cuts an image: squares of ``size`` pixels, of which ``merge`` by ``merge`` become a row.

    ``order``: block by block and colour by colour, as Qwen's, line by line and pixel by pixel, as Gemma 4's, or not at
    all, where edgec itself makes tiles, as for LFM2-VL; ``frames``: how often a patch repeats an image, which stands
    for a video.
    """

    size: JsonSize
    merge: JsonSize
    frames: JsonSize = 1
    order: PatchOrder = "blocks"


class VisionLanguageInfo(JsonPart):
    """An artifact with vision_encoder and forward, or vision_encoder, prefill and decode: see docs/multimodal.md.

    ``limits``: of the decoder; ``channels``, ``height``, ``width``: of a tile, the input of its encoder; ``rows``:
    tokens that a tile takes in the text, each written there as ``image_token``; ``ahead``: what sees tokens after
    itself, see ``bundle/noncausal_spans.py``; ``patches``: where the model reads images of any size, and the export
    fixed one; ``grid``: the rows of a tile, high and wide, where tokens have the positions of ``bundle/mrope.py``.
    """

    limits: Limits
    channels: JsonSize
    height: JsonSize
    width: JsonSize
    rows: JsonSize
    image_token: JsonCount
    ahead: Ahead = "none"
    patches: PatchesInfo | None = None
    grid: tuple[JsonSize, JsonSize] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.grid is not None and prod(self.grid) != self.rows:
            raise ValueError(f"a grid of {self.grid[0]} x {self.grid[1]} has not {self.rows} rows")
        if self.grid is not None and self.rows > self.limits.context:
            raise ValueError(f"{self.rows} rows do not fit into a context of {self.limits.context}")
        if self.patches is not None and (self.height % self.step or self.width % self.step):
            raise ValueError("the tile is not cut into whole blocks of patches")
        return self

    @property
    def step(self) -> int:
        """The edge of a block of patches, in pixels; 1 where the processor hands over pixels."""
        return self.patches.size * self.patches.merge if self.patches else 1
