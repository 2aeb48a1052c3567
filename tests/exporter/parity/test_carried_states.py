"""States follow from call to call where inputs and outputs tell which they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.parity.carried_states import carried_states, with_states
from edgec.exporter.parity.made_inputs import made_inputs

X, STATE, OTHER = torch.randn(1, 8), torch.zeros(2, 1, 4), torch.zeros(1, 3)


def test_inputs_of_zeros_are_matched_with_outputs_of_their_shape() -> None:
    assert carried_states((X, STATE), (torch.ones(1, 1), torch.ones(2, 1, 4))) == {1: 1}
    assert carried_states((STATE, X, STATE), (torch.ones(2, 1, 4), torch.ones(2, 1, 4))) == {0: 0, 2: 1}
    assert carried_states((X, STATE, OTHER), (torch.ones(1, 3), torch.ones(2, 1, 4))) == {1: 1, 2: 0}


def test_what_is_not_told_apart_is_left_alone() -> None:
    assert carried_states((X, STATE), (torch.ones(2, 1, 4), torch.ones(2, 1, 4))) == {}
    assert carried_states((X, STATE), (torch.ones(1, 1),)) == {}
    assert carried_states((X, STATE + 1), (torch.ones(2, 1, 4),)) == {}
    assert carried_states((X, STATE.long()), (torch.ones(2, 1, 4, dtype=torch.int64),)) == {}
    assert carried_states((STATE,), (torch.ones(2, 1, 4),)) == {}
    assert carried_states((X, torch.zeros(1)), (torch.ones(1),)) == {}


def test_given_states_stay() -> None:
    states, before = {1: 1}, (torch.ones(1, 1), torch.full((2, 1, 4), 3.0))
    assert torch.equal(with_states((X, STATE), (X, STATE), states, before)[1], before[1])
    own = torch.full((2, 1, 4), 5.0)
    assert with_states((X, own), (X, STATE), states, before)[1] is own


class Counts(nn.Module):
    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(-1), state + 1


def test_made_inputs_carry_them() -> None:
    def run(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        answer: tuple[Tensor, ...] = Counts()(*inputs)
        return answer

    found = made_inputs(Counts(), (X, STATE), run)
    assert [float(state[0, 0, 0]) for _, state in found.calls] == list(range(16))
    assert "states of the call before" in found.note
    for call, outputs in zip(found.calls, found.outputs, strict=True):
        assert torch.equal(outputs[1], call[1] + 1)
