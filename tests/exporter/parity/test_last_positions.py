"""The last positions of a context are compared with transformers' own model, which nothing holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.bundle.entry_points import Limits
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.last_positions import STAGE, last_positions, last_rung
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.stages.capturing import capture
from tests.exporter.rope_models import BY_NAME, CONTEXT, FIRST


def source_of(name: str, folder: Path, context: int) -> ModelSource:
    BY_NAME[name].config().save_pretrained(folder)
    options = ExportOptions(folder, target="host", random_weights=True, task="text-generation", context=context)
    return resolve_options(options).request.source


@pytest.mark.long
@pytest.mark.parametrize("context", [FIRST, CONTEXT])
def test_the_set_of_the_context_passes_and_the_other_does_not(context: int, tmp_path: Path) -> None:
    source = source_of("longrope beside the parameters", tmp_path, context)
    assert source.weights is not None
    wanted = last_positions(source, source.weights, context)
    assert wanted is not None and wanted[0].tolist() == list(range(context - 8, context))
    limits = Limits(context=context, prefill_chunk=16, logit_rows=1)
    spec = resolve_options(ExportOptions(tmp_path, random_weights=True)).request.spec
    rung = last_rung(capture(source, source.weights, spec, limits), source, wanted)
    assert (rung.stage, rung.passed, rung.gated, rung.positions) == (STAGE, True, True, 8)
    wrong = replace(source, longest=CONTEXT if context == FIRST else FIRST)
    rung = last_rung(capture(wrong, source.weights, spec, limits), source, wanted)
    assert not rung.passed and rung.gated


def test_a_model_of_one_set_is_not_asked(tmp_path: Path) -> None:
    source = source_of("yarn", tmp_path, CONTEXT)
    assert source.weights is not None and last_positions(source, source.weights, CONTEXT) is None
    assert json.loads((tmp_path / "config.json").read_text())["rope_parameters"]["rope_type"] == "yarn"
