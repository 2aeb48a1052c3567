"""Rules that begin with themselves are written otherwise, with the same texts."""

from __future__ import annotations

from edgec.exporter.schemas.left_recursion import without_left_recursion
from edgec.exporter.schemas.regular import Regular, RegularPool

A, B, X, Y = range(4)
POOL = RegularPool(4)


def one(*symbols: int) -> Regular:
    return POOL.then(*(POOL.one_of(1 << symbol) for symbol in symbols))


def holds(term: Regular, symbols: tuple[int, ...]) -> bool:
    for symbol in symbols:
        term = POOL.after(term, symbol)
    return term.nullable


def test_a_rule_that_begins_with_itself_repeats_what_follows() -> None:
    body = without_left_recursion(POOL, {X: POOL.either(one(X, A), one(X), one(B))})[X]
    assert [holds(body, text) for text in ((B,), (B, A), (B, A, A), (A,), (X, A), ())] == [True] * 3 + [False] * 3


def test_rules_that_begin_with_each_other_do_no_more() -> None:
    bodies = without_left_recursion(POOL, {X: POOL.either(one(Y, A), one(A)), Y: POOL.either(one(X, B), one(B))})
    first = {
        rule: {other for other in (X, Y) if POOL.after(body, other) is not POOL.nothing}
        for rule, body in bodies.items()
    }
    assert first[X] == set() and first[Y] <= {X}
    assert holds(bodies[X], (A, B, A)) and holds(bodies[X], (B, A)) and not holds(bodies[X], (A, A))


def test_other_rules_stay_as_they_are() -> None:
    bodies = {X: one(A, X), Y: one(X, Y)}
    assert without_left_recursion(POOL, bodies) == bodies


def test_a_rule_that_only_begins_with_itself_has_no_text() -> None:
    body = without_left_recursion(POOL, {X: one(X, A)})[X]
    assert not any(state.final for state in POOL.automaton(body, 9))
