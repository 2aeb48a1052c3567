"""Rules that begin with themselves, written otherwise: `sum: sum "+" one | one` is `sum: one ("+" one)*`.

Rules are regular terms over symbols and hold no empty text. Rules that begin with each other are taken one after the
other (Paull's algorithm): each is put into those after it, so that a rule begins with itself alone or with later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgec.exporter.schemas.regular import Regular, RegularPool


def without_left_recursion(pool: RegularPool, bodies: Mapping[int, Regular]) -> dict[int, Regular]:
    """The same rules, none of which begins with itself.

    Later rules are put into earlier ones: `e: sum | N` with `sum: e "+" e` is then one rule, read in one way.
    """
    out, done = dict(bodies), list[int]()
    circular = _circular({rule: _first(pool, body, bodies) for rule, body in bodies.items()})
    for rule in sorted(circular, reverse=True):
        for before in done:
            out[rule] = _replaced(pool, out[rule], before, out[before])
        out[rule] = _repeated(pool, out[rule], rule)
        done.append(rule)
    return out


def _first(pool: RegularPool, body: Regular, rules: Iterable[int]) -> set[int]:
    """The rules that a body may begin with."""
    return {rule for rule in rules if pool.after(body, rule) is not pool.nothing}


def _circular(first: Mapping[int, set[int]]) -> set[int]:
    """The rules that may begin with themselves, also by way of others."""
    reached = {rule: set(found) for rule, found in first.items()}
    size = -1
    while size < (size := sum(map(len, reached.values()))):
        reached = {rule: found.union(*(reached[each] for each in found)) for rule, found in reached.items()}
    return {rule for rule, found in reached.items() if rule in found}


def _replaced(pool: RegularPool, body: Regular, rule: int, by: Regular) -> Regular:
    rest = pool.after(body, rule)
    return body if rest is pool.nothing else pool.either(_other(pool, body, rule), pool.then(by, rest))


def _repeated(pool: RegularPool, body: Regular, rule: int) -> Regular:
    rest = pool.after(body, rule)
    return body if rest is pool.nothing else pool.then(_other(pool, body, rule), pool.repeat(rest))


def _other(pool: RegularPool, body: Regular, rule: int) -> Regular:
    """What of a body does not begin with a rule."""
    return pool.both(body, pool.other(pool.then(pool.one_of(1 << rule), pool.everything)))
