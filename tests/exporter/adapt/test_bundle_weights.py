"""An adapter is trained beside the very weights of its bundle, also where these depend on a text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgec
from edgec.backends.cpu.linear.read_back import weights_of
from edgec.bundle.folder import open_bundle
from edgec.bundle.pte_layout import read_packed
from edgec.exporter.adapt.bundle_weights import take_weights
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.adapt.student import build_student
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.sources.resolve import resolve


@pytest.mark.long
def test_the_weights_are_those_of_the_bundle(tiny_folder: Path, tmp_path: Path) -> None:
    loose = {"kl_mean": 50.0, "top1_agreement": 0.0}
    bundle = edgec.export(tiny_folder, recipe="4bit", context=128, out=tmp_path / "x.edgec", budgets=loose)
    settings = Settings(length=32, low_rank=2, merge=False)
    graph = build_student(
        resolve(str(tiny_folder)), for_backend(load_recipe("4bit"), "xnnpack"), settings
    ).program.graph
    stored = [weights_of(text, data) for text, data in read_packed(bundle / "model.pte")]

    def equal() -> list[bool]:
        own = [value for name, value in graph.named_buffers() if name.endswith("proj.weight_int_values")]
        return [any(torch.equal(value, each) for each in stored) for value in own]

    # Without the text of the export other integers were chosen.
    assert len(equal()) == 14 and sum(equal()) < 7
    assert take_weights(graph, open_bundle(bundle)) >= 14
    assert all(equal())
