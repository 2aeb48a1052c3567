"""Rows chosen by scores that nearly tie: an artifact may choose others, and is compared with its graph of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.chosen_rows import chooses_rows, expose_choices, rung_with_choices
from edgec.exporter.parity.ladder import HALF_MODULE, Stage, lowering_rung
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs, worst_output_rung
from edgec.ir.program import Program

COMPARE = partial(lowering_rung, budget=HALF_MODULE, rounded=True)
# Rows 0 and 1 nearly tie for the last place of three, rows 2 and 3 for the first.
SCORES = torch.tensor([0.5, 0.5001, 0.9, 0.8999, 0.1, 0.2])


class Chosen(nn.Module):
    """Three of six rows, chosen by their scores and doubled."""

    def forward(self, x: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        chosen = scores.topk(3, dim=1).indices
        return 2 * x.gather(1, chosen.unsqueeze(-1).expand(-1, -1, x.shape[-1])), x.sum(-1)


INPUTS = (torch.arange(24.0).reshape(1, 6, 4) ** 2, SCORES[None])


def program() -> Program:
    return capture_module(Chosen(), INPUTS)


def told(scores: Tensor, chosen: Sequence[int]) -> list[Tensor]:
    """The outputs of an artifact that has these scores and chose these rows, exposed ones last."""
    rows = torch.tensor([list(chosen)])
    return [2 * INPUTS[0][:, rows[0]], INPUTS[0].sum(-1), scores[None], rows.to(torch.int32)]


def judged(exposed: Sequence[Tensor], outputs: Sequence[Tensor] | None = None) -> Rung:
    outputs = exposed[:2] if outputs is None else outputs
    wanted = Chosen()(*INPUTS)
    before, after = (Stage(name, flatten_outputs(values)) for name, values in (("graph", wanted), ("it", outputs)))
    first = worst_output_rung(before, after, forms_of(outputs, INPUTS), COMPARE)
    assert not first.passed
    return rung_with_choices(first, program(), INPUTS, outputs, exposed, forms_of(outputs, INPUTS), COMPARE)


ROUNDED = SCORES + torch.tensor([2e-4, 0, 0, 0, 0, 0])


def test_another_row_of_scores_that_nearly_tie_is_no_fault() -> None:
    rung = judged(told(ROUNDED, (2, 3, 0)))
    assert rung.passed and "1 of 3 rows chosen otherwise" in rung.note


def test_another_order_of_the_same_rows_is_no_fault() -> None:
    rung = judged(told(SCORES + torch.tensor([0, 0, 0, 2e-4, 0, 0]), (3, 2, 1)))
    assert rung.passed and "0 of 3 rows chosen otherwise" in rung.note


@pytest.mark.parametrize(
    "exposed",
    [
        told(SCORES, (2, 3, 0)),  # not the best of its own scores
        told(SCORES + torch.tensor([0.1, 0, 0, 0, 0, 0]), (2, 3, 0)),  # scores that are not the graph's
        [told(ROUNDED, (2, 3, 4))[0], *told(ROUNDED, (2, 3, 0))[1:]],  # other rows than it chose
        [told(ROUNDED, (2, 3, 0))[0], 2 * INPUTS[0].sum(-1), *told(ROUNDED, (2, 3, 0))[2:]],  # another output is wrong
    ],
)
def test_what_rounding_does_not_explain_stays_refused(exposed: list[Tensor]) -> None:
    rung = judged(exposed)
    assert not rung.passed and "chosen otherwise" not in rung.note


@pytest.mark.parametrize("chosen", [(2, 3, 6), (2, 3, -1), (2, 3, 3)])
def test_what_is_no_choice_of_rows_stays_refused(chosen: tuple[int, ...]) -> None:
    scores = torch.tensor([0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    outputs = told(ROUNDED, (2, 3, 0))[:2]
    assert not judged([*outputs, scores[None], torch.tensor([chosen])], outputs).passed


def test_the_exposed_artifact_must_compute_what_the_first_one_does() -> None:
    exposed = told(ROUNDED, (2, 3, 0))
    assert not judged(exposed, [exposed[0] + 1, exposed[1]]).passed


def test_scores_and_indices_follow_a_program_s_own_outputs() -> None:
    exposed = expose_choices(program())
    assert [tensor.name for tensor in exposed.interface.outputs[2:]] == ["scores_0", "chosen_0"]
    assert exposed.graph(*INPUTS)[3].tolist() == [[2, 3, 1]]
    assert chooses_rows(program()) and not chooses_rows(capture_module(nn.Linear(4, 2), (torch.ones(1, 4),)))


# Rows hold the same values in another order, and their sums differ by the order of adding alone.
FACTORY = """
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.box = nn.Linear(256, 1, bias=False), nn.Linear(256, 4)
        nn.init.constant_(self.score.weight, 0.3)

    def forward(self, x):
        scores = self.score(x).squeeze(-1)
        chosen = scores.topk(20, dim=1).indices
        return scores, self.box(x.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 256)))


def make():
    torch.manual_seed(0)
    row = torch.randn(256)
    return Detector().eval(), (torch.stack([row[torch.randperm(256)] for _ in range(60)])[None],)
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("target", ["iphone", "host"])
def test_a_detector_whose_scores_nearly_tie_is_exported(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target == "iphone":
        pytest.importorskip("coremltools")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "two_stage_detector.py").write_text(FACTORY)
    edgec.export("two_stage_detector:make", target=target, recipe="float", out=tmp_path / "x.edgec")
    last = open_bundle(tmp_path / "x.edgec").manifest.parity[-1]
    assert last.passed and "of 20 rows chosen otherwise" in last.note
