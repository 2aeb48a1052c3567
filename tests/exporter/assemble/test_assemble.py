"""What the manifest says about a model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgec.bundle.entry_points import EncoderDecoderInfo, Limits, SoundInfo, WaveformInfo
from edgec.bundle.folder import read_manifest
from edgec.exporter.assemble.brief_speed import brief_speed
from edgec.exporter.sources.encoders.encoder_decoder import Source
from edgec.exporter.sources.model_source import ModelSource
from edgec.ir.program import Dynamic


def test_a_factorys_parameters_are_those_of_its_module_not_of_the_artifact() -> None:
    """The artifact of a quantised module holds scales too; 32 x 64 + 64 + 64 x 8 + 8 values were the user's."""
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    source = ModelSource("mlp", "module", "mine:mlp", factory=lambda: (module, (torch.zeros(1, 32),)))
    assert sum(source.weight_sizes) == 2632


def test_a_host_bundles_report_says_how_fast_this_machine_is(tiny_bundle: Path) -> None:
    text = (tiny_bundle / "report.html").read_text()
    assert " tokens/s (on this machine, measured during the export)" in text


def test_a_context_too_short_for_the_measurement_leaves_it_out(tiny_bundle: Path) -> None:
    short = Limits(context=39, prefill_chunk=16, logit_rows=1)
    assert brief_speed(tiny_bundle / "model.pte", short, ()) is None


def test_the_backends_of_an_artifact_are_those_that_it_names(tiny_bundle: Path) -> None:
    """The table is edgec's, float matrices are XNNPACK's; test_small_vocabularies.py looks at edgec's own."""
    assert read_manifest(tiny_bundle).runtime.backends == ["EdgecEmbedding", "XnnpackBackend"]


@pytest.mark.parametrize("length", [1, 16, 40, 9_000])
def test_a_source_has_the_same_shape_at_export_and_in_its_bundle(length: int) -> None:
    sound = SoundInfo(sampling_rate=16_000, mels=8, frames=20, fft=400, hop=160)
    # Fewer than a golden vector's source would have, were it text.
    waveform = WaveformInfo(sampling_rate=16_000, fewest_samples=8, window_samples=4_000)
    sources = (
        Source("input_features", (1, 8, 20), torch.float32, sound),
        Source("input_values", (1, Dynamic("N", 8, 4_000)), torch.float32, waveform=waveform),
    )
    limits = Limits(context=8, prefill_chunk=4, logit_rows=1)
    for source in sources:
        info = EncoderDecoderInfo(limits=limits, sound=source.sound, waveform=source.waveform)
        assert list(info.source_shape(length)) == source.sizes(length)
    text = Source("input_ids", (1, Dynamic("T", 1, 9_000)), torch.int64)
    assert list(EncoderDecoderInfo(limits=limits, source_tokens=9_000).source_shape(length)) == text.sizes(length)
