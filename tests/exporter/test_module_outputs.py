"""Models with several outputs: each is judged by its own size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from edgec.bundle.golden_function import function_vector
from edgec.errors import BudgetError, InputError
from edgec.exporter.parity.ladder import HALF_MODULE, Stage, gate, lowering_rung
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs, worst_output_rung
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.stages.module import ModuleStages

HIDDEN, POOLED = torch.linspace(-40, 40, 64).reshape(1, 8, 8), torch.linspace(-0.5, 0.5, 8).reshape(1, 8)
FORMS = forms_of((HIDDEN, POOLED))
HOW = partial(lowering_rung, budget=HALF_MODULE, rounded=True, note="executed")


def _stage(name: str, *outputs: torch.Tensor) -> Stage:
    return Stage(name, flatten_outputs(outputs))


def test_a_small_output_that_is_lost_fails_beside_a_large_one() -> None:
    rung = worst_output_rung(_stage("graph", HIDDEN, POOLED), _stage("artifact", HIDDEN, POOLED * 0), FORMS, HOW)
    assert not rung.passed and rung.reference_max_abs == 0.5
    assert "output 2 of 2" in rung.note
    with pytest.raises(BudgetError, match="E201"):
        gate([rung])


def test_an_output_that_is_not_finite_is_the_worst() -> None:
    broken = torch.full_like(HIDDEN, float("nan"))
    rung = worst_output_rung(_stage("graph", HIDDEN, POOLED), _stage("artifact", broken, POOLED), FORMS, HOW)
    assert not rung.passed and "output 1 of 2" in rung.note


def test_rounding_of_each_output_passes() -> None:
    rung = worst_output_rung(
        _stage("graph", HIDDEN, POOLED), _stage("artifact", HIDDEN.half(), POOLED.half()), FORMS, HOW
    )
    assert rung.passed and rung.kl_mean is None and rung.top1_agreement is None


def test_golden_tolerances_are_those_of_each_output() -> None:
    vector = function_vector({}, {"hidden": HIDDEN.numpy(), "pooled": POOLED.numpy()}, relative_tolerance=0.01)
    assert vector.tolerances == pytest.approx({"hidden": 0.4, "pooled": 0.005})
    assert vector.tolerance == pytest.approx(0.4)


class _Fails(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("two images are needed")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (ModelSource("m", "module", "own:make", factory=lambda: (_Fails(), (torch.ones(1),))), "E108"),
        (
            ModelSource(
                "m",
                "module",
                "folder",
                hf_config=SimpleNamespace(model_type="vit"),
                factory=lambda: (_Fails(), (torch.ones(1),)),
            ),
            "E149",
        ),
    ],
)
def test_a_model_that_fails_on_its_example_inputs_is_refused(source: ModelSource, code: str, tmp_path: Path) -> None:
    stages = ModuleStages(cast(ExportRequest, SimpleNamespace(source=source)))
    with pytest.raises(InputError, match="two images are needed") as caught:
        stages.rewrite(tmp_path, Progress())
    assert caught.value.code == code
