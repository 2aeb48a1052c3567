"""Why an artifact cannot hold the encoder of an encoder-decoder, where its methods have fixed shapes."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.exporter.sources.encoders.encoder_decoder import Source

_WAVEFORM = (
    "its methods have fixed shapes, and its encoder reads samples and cannot be told where they end: Moonshine's "
    "normalises a sound over its whole length, silence after it included; Whisper's windows have one length anyway"
)


def unread(reads: Source, form: Form) -> str:
    """Why a form of artifact has no place for an encoder of this source; empty where it has."""
    if not form.static:
        return ""
    if not form.encoders:
        return (
            f"{form.artifact} for this target has methods of fixed shapes, and none for an encoder; artifacts of Core "
            "ML, Core AI and ONNX have one (--target iphone, or --target host --format onnx)"
        )
    return _WAVEFORM if reads.waveform is not None else ""
