"""The recurrences' meaning: their gradients, and their continuation from a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.ir.recurrence import (
    CAUSAL_CONV,
    DELTA_RULE,
    LINEAR_RECURRENCE,
    RECURRENCES,
    SELECTIVE_SCAN,
    SSD,
    VALUE_OF,
    WKV,
)
from edgec.ir.state_operators import (
    CACHED_CONV,
    CACHED_DELTA_RULE,
    CACHED_RECURRENCE,
    CACHED_SCAN,
    CACHED_SSD,
    CACHED_WKV,
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
    if operator is WKV:
        return made(*wide), made(*wide), -made(VALUES).abs(), made(VALUES), positions
    return made(*wide), made(*wide).sigmoid(), positions


@pytest.mark.long
@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_gradients_are_those_of_finite_differences(operator: Any) -> None:
    given = operands(operator)
    floats = [i for i, value in enumerate(given) if isinstance(value, Tensor) and value.is_floating_point()]

    def function(*varied: Tensor) -> Tensor:
        result: Tensor = operator(*[varied[floats.index(i)] if i in floats else value for i, value in enumerate(given)])
        return result

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


# The operator that continues, the index of the positions, of a turned matrix, the state's shape, and its log's width.
MATRIX = (1, 1, HEADS, KEYS, VALUES)
CONTINUED = {
    CAUSAL_CONV: (CACHED_CONV, 3, 1, (1, 1, 2, VALUES), VALUES),
    DELTA_RULE: (CACHED_DELTA_RULE, 5, None, MATRIX, GROUPS * KEYS + HEADS * KEYS + HEADS * VALUES),
    SSD: (CACHED_SSD, 6, None, MATRIX, GROUPS * KEYS + HEADS + HEADS * VALUES),
    SELECTIVE_SCAN: (CACHED_SCAN, 6, 2, (1, 1, KEYS, VALUES), 2 * VALUES + KEYS),
    LINEAR_RECURRENCE: (CACHED_RECURRENCE, 2, None, (1, 1, VALUES), 2 * VALUES),
    WKV: (CACHED_WKV, 4, None, (1, 1, 3, VALUES), 2 * VALUES),
}
# Tokens that a call may drop again.
REVOCABLE = 2


@dataclass
class Left:
    """What an operator leaves behind."""

    state: Tensor
    log: Tensor
    seen: Tensor

    @classmethod
    def filled(cls, operator: Any, value: float, count: int) -> Left:
        *_, shape, width = CONTINUED[operator]
        log = torch.full((1, REVOCABLE, width), value, dtype=torch.float64)
        return cls(torch.full(shape, value, dtype=torch.float64), log, torch.full((1, 1, 2), count))


def call(operator: Any, start: int, stop: int, left: Left) -> Tensor:
    cached, at, turned, *_ = CONTINUED[operator]
    given = [
        v[:, start:stop] if isinstance(v, Tensor) and v.shape[:2] == (1, TOKENS) else v for v in operands(operator)
    ]
    if turned is not None:
        given[turned] = given[turned].t().contiguous()
    result: Tensor = cached(*given[:at], torch.arange(start, stop), left.state, left.log, left.seen, *given[at + 1 :])
    return result


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_calls_that_continue_give_the_whole_sequence_and_begin_anew_at_0(operator: Any) -> None:
    left = Left.filled(operator, float("nan"), 77)
    wanted = operator(*operands(operator))
    for _ in range(2):
        parts = [call(operator, *part, left) for part in ((0, 4), (4, 5), (5, 9))]
        # Exact in double precision up to the order of sums.
        assert torch.allclose(torch.cat(parts, 1), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
def test_the_last_tokens_of_a_call_are_dropped_again(operator: Any) -> None:
    left, wanted = Left.filled(operator, 0.0, 0), operator(*operands(operator))
    call(operator, 0, 4, left)
    assert left.seen.flatten().tolist() == [2, 4]
    for start, stop in ((2, 5), (4, 6), (5, 8), (6, 9)):
        got = call(operator, start, stop, left)
        assert torch.allclose(got, wanted[:, start:stop], rtol=1e-12, atol=1e-12)
    assert left.seen.flatten().tolist() == [7, 9]


@pytest.mark.parametrize("operator", RECURRENCES, ids=str)
@pytest.mark.parametrize("start", [1, 5], ids=["too far back", "a gap"])
def test_a_state_goes_neither_further_back_nor_over_a_gap(operator: Any, start: int) -> None:
    left = Left.filled(operator, 0.0, 0)
    call(operator, 0, 4, left)
    kept = left.state.clone()
    with pytest.raises(RuntimeError, match="taken in 2 to 4 tokens"):
        call(operator, start, start + 2, left)
    assert torch.equal(left.state, kept) and left.seen.flatten().tolist() == [2, 4]
