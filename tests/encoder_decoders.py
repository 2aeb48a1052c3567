"""Tiny random encoder-decoders of transformers' own classes, with weights large enough that they say various tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from edgec.exporter.capture.decoder import Skeleton, build_skeleton
from edgec.exporter.capture.encoder_decoder import CapturedEncoderDecoder, capture_encoder_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.encoders.encoder_decoder import fixed_source, source_of, with_decoder_numbers
from edgec.exporter.sources.hf_config import plain_config
from tests.passes.decoders import CONTEXT, StateDict

VOCABULARY = 96
_BART = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 64, "decoder_ffn_dim": 48},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 2, "max_position_embeddings": 96},
}
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 3}
# Two windows of a second: the encoder of Whisper's kind reads 100 frames of 16 features.
_WHISPER = {**_BART, "max_source_positions": 50, "max_target_positions": 64, "num_mel_bins": 16}
_START = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}


def _make(name: str, **options: Any) -> Any:
    import transformers

    config = {"T5": "T5Config", "Bart": "BartConfig", "Marian": "MarianConfig"}.get(name, f"{name}Config")
    suffix = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    options = {
        key: value for key, value in options.items() if not (name == "Whisper" and key == "max_position_embeddings")
    }
    return getattr(transformers, name + suffix)(getattr(transformers, config)(vocab_size=VOCABULARY, **options))


TEXT_FAMILIES: Mapping[str, Callable[[], Any]] = {
    "t5": lambda: _make("T5", **_T5, relative_attention_num_buckets=8, decoder_start_token_id=0),
    "flan_t5": lambda: _make("T5", **_T5, feed_forward_proj="gated-gelu", decoder_start_token_id=0),
    "bart": lambda: _make("Bart", **_BART),
    "marian": lambda: _make("Marian", **_BART, pad_token_id=95, decoder_start_token_id=95, eos_token_id=0),
    "nllb": lambda: _make("M2M100", **_BART, decoder_start_token_id=2),
}
# Heads of 12 channels, of which 6 are rotated; attention pads them to 16.
_MOONSHINE = {
    **{"hidden_size": 48, "intermediate_size": 64, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 3},
    **{"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4, "max_position_embeddings": 96},
    **{"pad_head_dim_to_multiple_of": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    **{"partial_rotary_factor": 0.5, "pad_token_id": 2},
}
SPEECH_FAMILIES: Mapping[str, Callable[[], Any]] = {
    "whisper": lambda: _make("Whisper", **_WHISPER, **_START),
    "moonshine": lambda: _make("Moonshine", **_MOONSHINE, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
}
# The ids of Whisper's own vocabulary in its order: text, the end, languages, tasks, no timestamps, timestamps.
FIRST_TIMESTAMP = 41
_TIMED = {"pad_token_id": 30, "bos_token_id": 30, "eos_token_id": 30, "decoder_start_token_id": 31}
_TIMED_GENERATION = {
    **{"is_multilingual": True, "lang_to_id": {"<|en|>": 32, "<|de|>": 33}},
    **{"task_to_id": {"translate": 34, "transcribe": 35}, "no_timestamps_token_id": FIRST_TIMESTAMP - 1},
    **{"max_initial_timestamp_index": 20, "suppress_tokens": [5, 31, 32, 33, 34, 35], "begin_suppress_tokens": [7, 30]},
}


def _timed_whisper() -> Any:
    """A Whisper with languages, tasks and timestamps in its generation config."""
    model = _make("Whisper", **_WHISPER, **_TIMED)
    for name, value in _TIMED_GENERATION.items():
        setattr(model.generation_config, name, value)
    return model


@lru_cache(maxsize=2)
def tiny_encoder_decoder(family: str) -> Any:
    """A random model of a family."""
    torch.manual_seed(0)
    model = {**TEXT_FAMILIES, **SPEECH_FAMILIES, "timed": _timed_whisper}[family]().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed_positions" not in name:
            width = 1.0 if "shared" in name or "embed" in name else 2.0 / parameter.shape[-1]
            parameter.normal_(0, width**0.5)
    return model


def save_encoder_decoder(family: str, folder: Path) -> Path:
    """A folder with a family's random model."""
    tiny_encoder_decoder(family).save_pretrained(folder)
    return folder


def greedy_text(model: Any, source: Any, count: int, **options: Any) -> list[int]:
    """The new tokens of transformers' own greedy generation after a source, without the end."""
    name = model.main_input_name
    # Without a cache, which transformers sizes by the layers of the encoder: a T5 may have more in its decoder.
    greedy = {"do_sample": False, "num_beams": 1, "use_cache": False}
    out = model.generate(**{name: source}, max_new_tokens=count, **greedy, **options)
    tokens: list[int] = out[0].tolist()
    return tokens


@lru_cache(maxsize=2)
def captured_encoder_decoder(family: str, fixed: bool = False) -> CapturedEncoderDecoder:
    """The three programs of a family's random model; ``fixed``: for methods of fixed shapes."""
    model = tiny_encoder_decoder(family)
    config = with_decoder_numbers(plain_config(model.config))

    def build() -> Skeleton:
        return build_skeleton(lambda: type(model)._from_config(model.config, attn_implementation="edgec"))

    reads = source_of(model, config, {})
    reads = fixed_source(reads) if fixed else reads
    return capture_encoder_decoder(build, reads, model_spec(config), StateDict(model), CONTEXT, fixed=fixed)


def example_source(family: str, length: int = 11) -> torch.Tensor:
    """A source that a family's encoder reads."""
    generator = torch.Generator().manual_seed(length)
    if family == "moonshine":
        return torch.randn(1, 5000, generator=generator)
    if family in SPEECH_FAMILIES:
        return torch.randn(1, 16, 100, generator=generator)
    return torch.randint(4, VOCABULARY - 2, (1, length), generator=generator)
