"""Vision-language models as two Programs: the numbers of transformers' own functions, mechanism by mechanism."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgec.bundle.entry_points import VISION_LANGUAGE_METHODS, Limits
from edgec.exporter.capture.decoder import build_skeleton
from edgec.exporter.capture.vision_language import capture_vision_language
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import text_logits
from edgec.exporter.parity.rows_and_text import ProbedRows
from edgec.exporter.parity.vision_language import EagerModel, image_probe
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of
from tests.vision_language import save_vision_language
from tests.vision_sized import SIZE, SIZED

LIMITS = Limits(context=96, prefill_chunk=64, logit_rows=16)
# float32, through two layers.
TOLERANCE = 2e-5


def captured(family: str, folder: Path) -> tuple[ModelSource, dict[str, Program]]:
    source = resolve(str(save_vision_language(family, folder)), image_size=SIZE if family in SIZED else None)
    assert source.vision is not None and source.weights is not None
    build = lambda: build_skeleton(lambda: source.build_on(None, attn_implementation="edgec"))  # noqa: E731
    return source, capture_vision_language(build, source.vision, model_spec(source.config), source.weights, 96)


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize("family", SIZED)
def test_both_programs_compute_what_transformers_does(family: str, tmp_path: Path) -> None:
    source, made = captured(family, tmp_path)
    assert source.vision is not None and source.weights is not None
    rows = made["vision_encoder"].interface.outputs[0].shape[1]
    assert rows == 20 and source.vision.shape == (3, *SIZE)
    # Nothing is computed of a size that is fixed.
    assert not nodes_of(made["vision_encoder"].graph, torch.ops.aten.sym_size.int)
    probe = image_probe(source.vision, 20, Probe(tuple(range(8, 40)), (), "counted"), LIMITS)
    reference = EagerModel(source, source.weights).reference(probe)
    seen = first_output(made["vision_encoder"].graph(probe.pixels))
    torch.testing.assert_close(seen[0], reference.whole, atol=TOLERANCE, rtol=0)
    placed = ProbedRows(VISION_LANGUAGE_METHODS, probe, reference).methods()["forward"]
    logits = text_logits(made["forward"], placed.calls(made["forward"].interface))
    torch.testing.assert_close(logits, reference.logits, atol=TOLERANCE * 10, rtol=0)


@pytest.mark.long
def test_rows_for_the_first_layers_lie_behind_each_row(tmp_path: Path) -> None:
    _, made = captured("qwen3_vl", tmp_path)
    sizes = {tensor.name: tensor.shape for tensor in made["forward"].interface.inputs}
    # One row that replaces the embedding, and one for each of two layers.
    assert made["vision_encoder"].interface.outputs[0].shape == (1, 20, 96) and sizes["input_embeds"][-1] == 96
    assert sizes["mrope_positions"][0] == 3
