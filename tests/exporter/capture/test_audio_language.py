"""Speech-language models as two Programs: the numbers of transformers' own functions, with silence and without."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS
from edgec.bundle.entry_points import Limits
from edgec.exporter.capture.audio_language import capture_audio_language
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.parity.audio_language import AudioModel, SoundProbe, sound_probe
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import text_logits
from edgec.exporter.parity.rows_and_text import ProbedRows
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stages.pass_orders import audio_language_passes
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of, run_passes
from tests.audio_language import FAMILIES, FRAMES, MASKED, ROWS, save_audio_language

LIMITS = Limits(context=96, prefill_chunk=64, logit_rows=16)
EACH = [
    pytest.param(family, marks=[] if family in ("voxtral", "qwen2_audio") else [pytest.mark.slow])
    for family in FAMILIES
]
# float32, through two layers.
TOLERANCE = 2e-5


def captured(family: str, folder: Path) -> tuple[ModelSource, dict[str, Program]]:
    source = resolve(str(save_audio_language(family, folder)))
    assert source.audio is not None and source.weights is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    return source, capture_audio_language(build, source.audio, model_spec(source.config), source.weights, 96)


def probe_of(source: ModelSource, family: str) -> SoundProbe:
    assert source.audio is not None
    return sound_probe(source.audio.info(LIMITS, ROWS[family]), Probe(tuple(range(14, 28)), (), "counted"))


@pytest.mark.long
@pytest.mark.parametrize("family", EACH)
def test_both_programs_compute_what_transformers_does(family: str, tmp_path: Path) -> None:
    source, made = captured(family, tmp_path)
    assert source.weights is not None and made["audio_encoder"].interface.outputs[0].shape == (1, ROWS[family], 32)
    probe = probe_of(source, family)
    reference = AudioModel(source, source.weights).reference(probe)
    assert probe.info.sound.frames == FRAMES
    for inputs, wanted in ((probe.whole, reference.whole), (probe.in_text, reference.in_text)):
        heard = first_output(made["audio_encoder"].graph(*inputs))[0]
        torch.testing.assert_close(heard[: len(wanted)], wanted, atol=TOLERANCE, rtol=0)
    placed = ProbedRows(AUDIO_LANGUAGE_METHODS, probe, reference).methods()["forward"]
    logits = text_logits(made["forward"], placed.calls(made["forward"].interface))
    torch.testing.assert_close(logits, reference.logits, atol=TOLERANCE * 10, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("family", EACH)
def test_silence_after_a_sound_matters_where_attention_is_not_told_of_it(family: str, tmp_path: Path) -> None:
    source, made = captured(family, tmp_path)
    probe, frames = probe_of(source, family), torch.tensor([120])
    other = probe.features.clone()
    # The convolutions of the last position that is sound reach one frame further.
    other[..., 124:] += 1
    rows = [first_output(made["audio_encoder"].graph(features, frames))[0, :25] for features in (probe.features, other)]
    moved = (rows[0] - rows[1])[: probe.info.rows_of(120)].abs().max()
    assert (moved < TOLERANCE) == (family in MASKED)


@pytest.mark.slow
@pytest.mark.parametrize("family", EACH)
def test_the_passes_leave_nothing_that_executorch_has_no_kernel_for(family: str, tmp_path: Path) -> None:
    source, made = captured(family, tmp_path)
    probe, aten = probe_of(source, family), torch.ops.aten
    before = first_output(made["audio_encoder"].graph(probe.features, torch.tensor([120])))
    encoder = run_passes(made["audio_encoder"], audio_language_passes(Recipe(name="plain"), LIMITS)["audio_encoder"])
    assert not nodes_of(encoder.graph, aten.conv1d.default, aten.avg_pool1d.default)
    after = first_output(encoder.graph(probe.features, torch.tensor([120])))
    torch.testing.assert_close(after.reshape(before.shape), before, atol=TOLERANCE, rtol=0)
