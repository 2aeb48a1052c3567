"""The recurrences' meaning: their gradients, and their continuation from a state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.ir.recurrence import CAUSAL_CONV, DELTA_RULE, LINEAR_RECURRENCE, RECURRENCES, SELECTIVE_SCAN, SSD, VALUE_OF
from edgec.ir.state_operators import (
    CACHED_CONV,
    CACHED_DELTA_RULE,
    CACHED_RECURRENCE,
    CACHED_SCAN,
    CACHED_SSD,
)

TOKENS, GROUPS, HEADS, KEYS, VALUES = 9, 2, 4, 3, 5


def operands(operator: Any) -> tuple[Any, ...]:
    """Small operands in double precision; positions are those of one whole sequence."""
    torch.manual_seed(0)

    def made(*sizes: int) -> Tensor:
        return torch.randn(sizes, dtype=torch.float64)

    positions, wide = torch.arange(TOKENS), (1, TOKENS, VALUES)
    shared, each = (1, TOKENS, GROUPS, KEYS), (1, TOKENS, HEADS)
    if operator is CAUSAL_CONV:
        return made(*wide), made(VALUES, 3), made(VALUES), positions, True
    if operator is DELTA_RULE:
        decay, beta = -made(*each, KEYS).abs(), made(*each).sigmoid()
        return made(*shared), made(*shared), made(*each, VALUES), decay, beta, positions, True, 0.5
    if operator is SSD:
        return made(*each, VALUES), made(*each).abs(), -made(HEADS).abs(), made(*shared), made(*shared), None, positions
    if operator is SELECTIVE_SCAN:
        keys = (1, TOKENS, KEYS)
        decay = -made(VALUES, KEYS).abs()
        return made(*wide), made(*wide).abs(), decay, made(*keys), made(*keys), made(VALUES), positions
    return made(*wide), made(*wide).sigmoid(), positions


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_gradients_are_those_of_finite_differences(operator: Any) -> None:
    given = operands(operator)
    floats = [i for i, value in enumerate(given) if isinstance(value, Tensor) and value.is_floating_point()]

    def function(*varied: Tensor) -> Tensor:
        return operator(*[varied[floats.index(i)] if i in floats else value for i, value in enumerate(given)])

    assert torch.autograd.gradcheck(function, [given[i].requires_grad_() for i in floats])


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_a_later_token_changes_nothing_before_it(operator: Any) -> None:
    given = operands(operator)
    value = VALUE_OF[operator]
    changed = given[value].clone()
    changed[:, 5] += 1.0
    before, after = operator(*given), operator(*given[:value], changed, *given[value + 1 :])
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5], after[:, 5]) and not torch.equal(before[:, 6], after[:, 6])


# The operator that continues, the index of the positions, of a turned matrix, and the state's shape.
CONTINUED = {
    CAUSAL_CONV: (CACHED_CONV, 3, 1, (1, 1, 2, VALUES)),
    DELTA_RULE: (CACHED_DELTA_RULE, 5, None, (1, 1, HEADS, KEYS, VALUES)),
    SSD: (CACHED_SSD, 6, None, (1, 1, HEADS, KEYS, VALUES)),
    SELECTIVE_SCAN: (CACHED_SCAN, 6, 2, (1, 1, KEYS, VALUES)),
    LINEAR_RECURRENCE: (CACHED_RECURRENCE, 2, None, (1, 1, VALUES)),
}


def call(operator: Any, start: int, stop: int, state: Tensor, seen: Tensor) -> Tensor:
    cached, at, turned, _ = CONTINUED[operator]
    given = [
        v[:, start:stop] if isinstance(v, Tensor) and v.shape[:2] == (1, TOKENS) else v for v in operands(operator)
    ]
    if turned is not None:
        given[turned] = given[turned].t().contiguous()
    result: Tensor = cached(*given[:at], torch.arange(start, stop), state, seen, *given[at + 1 :])
    return result


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_calls_that_continue_give_the_whole_sequence_and_begin_anew_at_0(operator: Any) -> None:
    state = torch.full(CONTINUED[operator][3], float("nan"), dtype=torch.float64)
    seen = torch.full((1, 1), 77)
    wanted = operator(*operands(operator))
    for _ in range(2):
        parts = [call(operator, *part, state, seen) for part in ((0, 4), (4, 5), (5, 9))]
        # Exact in double precision up to the order of sums.
        assert torch.allclose(torch.cat(parts, 1), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
@pytest.mark.parametrize("start", [2, 5], ids=["back", "a gap"])
def test_a_state_goes_neither_back_nor_over_a_gap(operator: Any, start: int) -> None:
    state, seen = torch.zeros(CONTINUED[operator][3], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.long)
    call(operator, 0, 4, state, seen)
    kept = state.clone()
    with pytest.raises(RuntimeError, match="taken in 4 tokens"):
        call(operator, start, start + 2, state, seen)
    assert torch.equal(state, kept) and int(seen) == 4
