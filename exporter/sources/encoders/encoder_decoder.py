"""Encoder-decoders among transformers' models: their class, the decoder's numbers, what the encoder reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import nn

from edgec.bundle.entry_points import SoundInfo, WaveformInfo
from edgec.errors import InputError
from edgec.ir.program import Dynamic, TensorType

TASKS = ("text2text-generation", "text2text-generation-with-past", "translation", "summarization")
SPEECH_TASK = "automatic-speech-recognition"
SOURCE = "T"
"""The name of the encoder's length."""
SAMPLES = "N"
"""The name of the length of a waveform that an encoder reads."""
# Tokens of a text where the config states no limit, as T5's: memory is planned for this many.
_TOKENS = 512
# The decoder's numbers under the names that families of encoder-decoders use, best first.
_DECODER_NAMES: Mapping[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_decoder_layers", "decoder_layers", "decoder_num_hidden_layers"),
    "num_attention_heads": ("decoder_attention_heads", "decoder_num_attention_heads"),
    "num_key_value_heads": ("decoder_num_key_value_heads",),
    "max_position_embeddings": ("max_target_positions",),
}
_SOURCE_LENGTHS = ("max_source_positions", "max_position_embeddings", "n_positions")
# Whisper's feature extractor: our name -> its own name and the value of its first models.
_FEATURES = {"sampling_rate": ("sampling_rate", 16_000), "fft": ("n_fft", 400), "hop": ("hop_length", 160)}
_MOST = 1 << 20
# Seconds of a waveform that an encoder reads at a time: Moonshine was trained on 4 to 30.
_WAVEFORM_S = 30
# Fewer positions than this the tracer takes for a special case.
_FEWEST_POSITIONS = 2
# What transformers once kept in config.json and reads from generation_config.json now.
GENERATION_KEYS = (
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "eos_token_id",
    "bos_token_id",
)


@dataclass(frozen=True)
class Source:
    """What an encoder reads.

    Attributes:
        name: the model's own name of the input: ``input_ids``, ``input_features``, ...
        shape: of the input; a Dynamic where its length varies.
        dtype: int64 for tokens, else float32.
        sound: how its log-mel features are made, or None where it reads something else.
        waveform: the samples that it reads, or None likewise.
        positions: how many states it makes, where that varies.
    """

    name: str
    shape: tuple[int | Dynamic, ...]
    dtype: torch.dtype
    sound: SoundInfo | None = None
    waveform: WaveformInfo | None = None
    positions: Dynamic | None = None

    @property
    def is_text(self) -> bool:
        """Whether it reads tokens."""
        return self.dtype == torch.int64

    @property
    def most_tokens(self) -> int | None:
        """Tokens of the longest text; None where it reads something else."""
        longest = self.shape[-1]
        return (longest.high if isinstance(longest, Dynamic) else longest) if self.is_text else None

    def sizes(self, length: int) -> list[int]:
        """The input's shape with a source of this length, where it varies."""
        return [max(size.low, min(length, size.high)) if isinstance(size, Dynamic) else size for size in self.shape]

    def tensor_type(self) -> TensorType:
        """The input of ``encode``."""
        return TensorType(self.name, self.dtype, self.shape)


def fixed_source(reads: Source) -> Source:
    """What the same encoder reads where shapes are fixed: a text is filled up to one length, at most 512 tokens."""
    shape = tuple(min(size.high, _TOKENS) if isinstance(size, Dynamic) else size for size in reads.shape)
    return replace(reads, shape=shape, positions=None)


def states_of(reads: Source, config: Mapping[str, Any]) -> int:
    """How many states an encoder makes of its longest source where shapes are fixed."""
    return int(fixed_source(reads).shape[-1]) if reads.is_text else _longest(config)  # type: ignore[arg-type]


def is_encoder_decoder(config: Any) -> bool:
    """Whether transformers has a class for this config that reads with an encoder and writes with a decoder."""
    return bool(getattr(config, "is_encoder_decoder", False)) and generating_class(config) is not None


def generating_class(config: Any) -> Any:
    """The Auto class of an encoder-decoder, or None."""
    from transformers import AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq

    makers = (AutoModelForSpeechSeq2Seq, AutoModelForSeq2SeqLM)
    return next((maker for maker in makers if type(config) in maker._model_mapping), None)


def with_decoder_numbers(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as plain data in which the decoder's numbers have their common names, over those of the encoder."""
    own = {
        common: next(config[name] for name in names if config.get(name) is not None)
        for common, names in _DECODER_NAMES.items()
        if any(config.get(name) is not None for name in names)
    }
    return {**config, **own}


def source_of(model: nn.Module, config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> Source:
    """What an encoder-decoder's encoder reads.

    Args:
        model: on any device.
        config: as plain data.
        preprocessor: preprocessor_config.json, or empty.

    Raises:
        InputError: E149, an input of an unknown kind.
    """
    name: Any = model.main_input_name
    source = _READERS[name](model, config, preprocessor) if name in _READERS else None
    if source is None:
        raise InputError(
            what=f"The encoder of a {config.get('model_type')!r} model reads an input that edgec does not know.",
            where="config.json",
            why=f"its main input is {name!r}",
            fix="export an encoder-decoder that reads text, log-mel features or samples of sound",
            code="E149",
        )
    return source


def _text(model: Any, config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> Source:
    tokens = Dynamic(SOURCE, 1, _longest(config))
    return Source(model.main_input_name, (1, tokens), torch.int64, positions=tokens)


def _features(model: Any, config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> Source | None:
    if not isinstance(config.get("num_mel_bins"), int):
        return None
    sound = sound_info(config["num_mel_bins"], _longest(config) * _stride(model), preprocessor)
    return Source(model.main_input_name, (1, sound.mels, sound.frames), torch.float32, sound)


def _samples(model: Any, config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> Source | None:
    """A waveform as it is: the encoder's own convolutions say how many states it becomes."""
    rate = preprocessor.get("sampling_rate") or _FEATURES["sampling_rate"][1]
    if preprocessor.get("do_normalize") or not isinstance(rate, int) or not 0 < rate <= _MOST or not _stride(model):
        return None
    most = _WAVEFORM_S * rate
    fewest = _samples_of(model, _FEWEST_POSITIONS)
    waveform = WaveformInfo(sampling_rate=rate, fewest_samples=fewest, window_samples=most)
    positions = Dynamic(SOURCE, 1, _positions_of(model, most))
    shape = (1, Dynamic(SAMPLES, fewest, most))
    return Source(model.main_input_name, shape, torch.float32, waveform=waveform, positions=positions)


# What an encoder's main input is in transformers -> how its source is described; None: it is of a kind unknown here.
_READERS: Mapping[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Source | None]] = {
    "input_ids": _text,
    "input_features": _features,
    "input_values": _samples,
}


def _longest(config: Mapping[str, Any]) -> int:
    return next((int(config[key]) for key in _SOURCE_LENGTHS if isinstance(config.get(key), int)), _TOKENS)


def sound_info(mels: int, frames: int, preprocessor: Mapping[str, Any]) -> SoundInfo:
    """How Whisper's feature extractor makes features; what it does not state is as in its first models."""
    known = {name: preprocessor.get(key) or default for name, (key, default) in _FEATURES.items()}
    stated = preprocessor.get("feature_size") or mels
    if stated != mels or not all(isinstance(value, int) and 0 < value <= _MOST for value in known.values()):
        raise InputError(
            what="preprocessor_config.json contradicts the model, or is not valid.",
            where="preprocessor_config.json",
            why=f"it makes {stated} features at {known}, and the encoder reads {mels}",
            fix="use config.json and preprocessor_config.json of the same model",
            code="E111",
        )
    return SoundInfo(mels=mels, frames=frames, **known)


def _stride(model: Any) -> int:
    """How many frames become one position: the strides of the encoder's convolutions."""
    return prod(each.stride[0] for each in _convolutions(model))


def _convolutions(model: Any) -> list[nn.Conv1d]:
    return [module for module in model.get_encoder().modules() if isinstance(module, nn.Conv1d)]


def _reach(convolution: nn.Conv1d) -> int:
    """Inputs that one output reads."""
    return convolution.dilation[0] * (convolution.kernel_size[0] - 1) + 1


def _positions_of(model: Any, samples: int) -> int:
    """How many states an encoder makes of this many samples."""
    for each in _convolutions(model):
        samples = (samples - _reach(each)) // each.stride[0] + 1
    return samples


def _samples_of(model: Any, positions: int) -> int:
    """The fewest samples of which an encoder makes this many states."""
    for each in reversed(_convolutions(model)):
        positions = (positions - 1) * each.stride[0] + _reach(each)
    return positions


def generation_defaults(config: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The generation config as stored, with what older models keep in their config."""
    older = {key: config[key] for key in GENERATION_KEYS if config.get(key) is not None}
    return {**older, **stored}
