"""Trained networks of packages under MIT, BSD or Apache-2.0: exported by default, no user notices the difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from benchmarks.real_modules import NETWORKS, judged
from benchmarks.real_networks.network import FOLDER, seeded

pytestmark = [pytest.mark.real_model, pytest.mark.slow, pytest.mark.timeout(1800)]
if FOLDER not in os.environ:
    pytestmark.append(
        pytest.mark.skip(reason=f"{FOLDER} names no folder of unzipped packages (benchmarks/real_modules.py)")
    )
TARGETS = ("host", "android-cpu", "iphone", "onnx")
CELLS = [(name, target) for name in NETWORKS for target in TARGETS]


@pytest.mark.parametrize(("name", "target"), CELLS)
def test_the_default_export_answers_as_the_network(name: str, target: str, tmp_path: Path) -> None:
    found, network = judged(name, target, tmp_path, held_out=16), NETWORKS[name]
    assert max(found.gaps) <= network.limit


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_move_the_answer_by_more_than_the_limit(name: str) -> None:
    """Else the comparison could not fail."""
    network = NETWORKS[name]
    module, drawn = network.make()[0], seeded(1)
    with torch.no_grad():
        answers = [module(*network.drawn(drawn)) for _ in range(8)]
    rows = [(each,) if isinstance(each, torch.Tensor) else each for each in answers]
    assert max(network.unit[1](rows[0], other) for other in rows[1:]) > 3 * network.limit
