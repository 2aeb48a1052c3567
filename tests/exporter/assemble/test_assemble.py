"""What the manifest says about a model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from edgec.bundle.entry_points import Limits
from edgec.bundle.folder import read_manifest
from edgec.exporter.assemble.brief_speed import brief_speed
from edgec.exporter.sources.model_source import ModelSource


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
