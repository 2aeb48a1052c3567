"""Bundles that hear as input for app packages; their artifacts cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import EncoderDecoderInfo, Limits, MethodInfo, SoundInfo, TensorInfo, WaveformInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Manifest
from tests.devices.embed.android_bundles import EXAMPLE
from tests.devices.embed.ios_bundles import bundle_of, module_manifest

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


def hearing_manifest(target: str, info: EncoderDecoderInfo, **fields: Any) -> Manifest:
    """The manifest of an encoder-decoder for a phone's processor."""
    methods = [_method(name) for name in ("encode", "cross", "forward")]
    return module_manifest("pte-cpu", methods, target=target, encoder_decoder=info, **fields)


def hearing_placeholder(
    folder: Path, target: str, info: EncoderDecoderInfo, config: dict[str, Any], artifact: bytes = b"EdgecLinear"
) -> Bundle:
    """A bundle with the example's tokenizer, whose artifact names edgec's kernels."""
    files = {f"tokenizer/{name}": (EXAMPLE / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
    manifest = hearing_manifest(target, info)
    extra = {**files, "generation_config.json": json.dumps(config).encode(), manifest.artifact: artifact}
    return bundle_of(manifest, folder, extra)
