"""Integers that scores decide: an artifact may decide otherwise where its scores tie, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from edgec.bundle.findings import Rung
from edgec.errors import BudgetError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.chosen_rows import expose_choices, read_choices
from edgec.exporter.parity.decisions import deciding_scores, expose_scores, has_decisions, rung_with_decisions
from edgec.exporter.parity.ladder import HALF_MODULE, Stage, gate, lowering_rung
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs, worst_output_rung

COMPARE = partial(lowering_rung, budget=HALF_MODULE, rounded=True)
# Of 64 rows of four scores, row 0 nearly ties between classes 1 and 2, row 1 lies at the threshold of 0.5.
SCORES = torch.rand(1, 64, 4, generator=torch.Generator().manual_seed(0)) * 0.4
SCORES[0, :, 3] += 0.7
SCORES[0, 0] = torch.tensor([0.1, 0.9, 0.9001, 0.2])
SCORES[0, 1] = torch.tensor([0.1, 0.5001, 0.2, 0.9])


class Classes(nn.Module):
    """The best class of each row, whether any of its scores is above one half, and steps of a tenth."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = x * 1.0
        return scores.argmax(-1), scores > 0.5, (scores * 10).round().long()


def told(scores: Tensor, *made: Tensor) -> list[Tensor]:
    """The outputs of an artifact that has these scores in float16, exposed ones last."""
    scores = scores.half()
    own = [*made] or list(Classes()(scores.float()))
    return [*own, scores, 10 * scores]


def first_rung(wanted: Sequence[Tensor], outputs: Sequence[Tensor]) -> Rung:
    """The artifact beside its graph as it is."""
    before, after = Stage("graph", flatten_outputs(wanted)), Stage("it", flatten_outputs(outputs))
    return worst_output_rung(before, after, forms_of(wanted, (SCORES,)), COMPARE)


def judged(exposed: Sequence[Tensor], outputs: Sequence[Tensor] = ()) -> Rung:
    outputs, wanted = outputs or exposed[:3], Classes()(SCORES)
    program, forms = capture_module(Classes(), (SCORES,)), forms_of(wanted, (SCORES,))
    first = first_rung(wanted, outputs)
    return rung_with_decisions(first, program, (SCORES,), outputs, exposed, forms, COMPARE)


MOVED = SCORES.clone()
MOVED[0, 0, 1] += 2e-4
MOVED[0, 1, 1] -= 2e-4


def test_scores_are_found_behind_what_rounds_and_compares() -> None:
    program = capture_module(Classes(), (SCORES,))
    assert len(deciding_scores(program)) == 2 and has_decisions(program)
    assert [tensor.name for tensor in expose_scores(program).interface.outputs[3:]] == ["scores_0", "scores_1"]
    assert not has_decisions(capture_module(nn.Linear(4, 2), (torch.ones(1, 4),)))


def test_what_scores_that_nearly_tie_decide_otherwise_is_no_fault() -> None:
    rung = judged(told(MOVED))
    assert rung.passed and "values decided otherwise" in rung.note


def test_integers_beside_their_own_scores_are_a_fault() -> None:
    classes, above, steps = Classes()(MOVED.half().float())
    classes[0, 5] = (classes[0, 5] + 1) % 4
    rung = judged(told(MOVED, classes, above, steps))
    assert not rung.passed
    with pytest.raises(BudgetError, match="equal_share") as caught:
        gate([rung])
    assert caught.value.code == "E203" and "scores" in caught.value.fix and "kl_mean" not in caught.value.fix


def test_scores_that_are_not_the_graphs_are_a_fault() -> None:
    moved = SCORES.clone()
    moved[0, 7] = moved[0, 7].flip(0)
    assert not judged(told(moved)).passed


def test_the_exposed_artifact_must_compute_what_the_first_one_does() -> None:
    exposed = told(MOVED)
    assert not judged(exposed, [(exposed[0] + 1) % 4, *exposed[1:3]]).passed


@pytest.mark.parametrize(("count", "passes"), [(2000, True), (500, False)])
def test_a_map_may_differ_in_one_value_of_a_thousand_and_a_list_in_none(count: int, passes: bool) -> None:
    one = torch.arange(count)[None] % 7
    other = one.clone()
    other[0, 3] += 1
    rung = first_rung([one], [other])
    assert rung.passed is passes and rung.equal_share == (count - 1) / count


def test_whole_numbers_beyond_float32_are_compared_exactly() -> None:
    one = torch.tensor([[2**24 + 1, 5]])
    assert not first_rung([one], [one - torch.tensor([[1, 0]])]).passed


class Best(nn.Module):
    """The classes that fit best, with their scores and as rows of a table: what chooses them is an output already."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.eye(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = x.topk(2)
        return (
            found.values,
            found.indices,
            self.table.unsqueeze(0).gather(1, found.indices.unsqueeze(-1).expand(1, 2, 6)),
        )


def test_choices_are_read_where_an_output_shows_them_already() -> None:
    scores = torch.tensor([[0.1, 0.5, 0.9, 0.3, 0.2, 0.0]])
    program = capture_module(Best(), (scores,))
    exposed = expose_choices(program)
    outputs = exposed.graph(scores)
    assert [tensor.name for tensor in exposed.interface.outputs[3:]] == ["scores_0"]
    (choice,) = read_choices(program, outputs)
    assert choice.indices.tolist() == [[2, 1]] and torch.equal(choice.scores, scores)
