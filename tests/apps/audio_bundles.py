"""Bundles that hear as input for app packages; their artifacts cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import (
    EncoderDecoderInfo,
    Limits,
    MethodInfo,
    SoundInfo,
    TensorInfo,
    WaveformInfo,
    memory_names,
)
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Manifest
from tests.apps.android_bundles import EXAMPLE
from tests.apps.ios_bundles import (
    CHUNK,
    CONTEXT,
    STATIC,
    bundle_of,
    caller_methods,
    decoder_manifest,
    module_manifest,
)

LIMITS = Limits(context=64, prefill_chunk=16, logit_rows=4)
WHISPER = EncoderDecoderInfo(
    limits=LIMITS, sound=SoundInfo(sampling_rate=16_000, mels=16, frames=100, fft=400, hop=160)
)
MOONSHINE = EncoderDecoderInfo(
    limits=LIMITS, waveform=WaveformInfo(sampling_rate=16_000, fewest_samples=1279, window_samples=480_000)
)
READER = EncoderDecoderInfo(limits=LIMITS, source_tokens=64)
CONFIG: dict[str, Any] = {"eos_token_id": 2, "decoder_start_token_id": 1}
TIMED_CONFIG: dict[str, Any] = {
    **CONFIG,
    **{"lang_to_id": {"<|de|>": 11, "<|en|>": 10}, "task_to_id": {"transcribe": 12, "translate": 13}},
    "no_timestamps_token_id": 14,
}


def _method(name: str) -> MethodInfo:
    tensor = TensorInfo(name=f"{name}_values", dtype="float32", shape=[1, 4])
    return MethodInfo(name=name, inputs=[tensor], outputs=[tensor])


def audio_manifest(target: str, info: EncoderDecoderInfo, **fields: Any) -> Manifest:
    """The manifest of an encoder-decoder for a phone's processor."""
    methods = [_method(name) for name in ("encode", "cross", "forward")]
    return module_manifest("pte-cpu", methods, target=target, encoder_decoder=info, **fields)


def audio_placeholder(
    folder: Path, target: str, info: EncoderDecoderInfo, config: dict[str, Any], artifact: bytes = b"EdgecLinear"
) -> Bundle:
    """A bundle with the example's tokenizer, whose artifact names edgec's kernels."""
    manifest = audio_manifest(target, info)
    return bundle_of(manifest, folder, {**_texts(config), manifest.artifact: artifact})


def _texts(config: dict[str, Any]) -> dict[str, bytes]:
    files = {f"tokenizer/{name}": (EXAMPLE / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
    return {**files, "generation_config.json": json.dumps(config).encode()}


FIXED = EncoderDecoderInfo(
    limits=Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=1),
    sound=SoundInfo(sampling_rate=16_000, mels=16, frames=100, fft=400, hop=160),
)
_STATES = TensorInfo(name="states", dtype="float16", shape=[1, 50, 32])
_MEMORY = [TensorInfo(name=name, dtype="float16", shape=[1, 2, 50, 32]) for name in memory_names(2)]


def fixed_audio_manifest(kind: str = "mlpackage", **fields: Any) -> Manifest:
    """The manifest of an encoder-decoder that hears with methods of fixed shapes."""
    features = TensorInfo(name="features", dtype="float32", shape=[1, 16, 100])
    encode = MethodInfo(name="encode", inputs=[features], outputs=[_STATES])
    cross = MethodInfo(name="cross", inputs=[_STATES], outputs=_MEMORY)
    decoder = [_remembering(method) for method in (caller_methods() if kind == "pte" else STATIC)]
    own = {"methods": [encode, cross, *decoder], "limits": None, "encoder_decoder": FIXED}
    return decoder_manifest(kind, **{**own, **fields})


def _remembering(method: MethodInfo) -> MethodInfo:
    """A static method that reads an encoder's keys and values."""
    tokens, start, last, *states = method.inputs
    return method.model_copy(update={"inputs": [tokens, start, *_MEMORY, last, *states]})


def fixed_audio_placeholder(folder: Path, manifest: Manifest | None = None, **config: Any) -> Bundle:
    """A bundle with such a manifest; its artifact cannot run."""
    return bundle_of(manifest or fixed_audio_manifest(), folder, _texts({**TIMED_CONFIG, **config}))
