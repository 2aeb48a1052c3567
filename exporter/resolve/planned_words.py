"""What a plan says of bits, in words: ``weights in 4 bits (value projections in 6, down projections in 5)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.parameters import Kind
from edgec.ir.weight_scheme import SchemeRule

_PROJECTIONS = ("query", "key", "value", "output", "gate", "up", "down")
_NAMED = {f"*.{name[0]}_proj.weight": name for name in _PROJECTIONS[:4]}
_NAMED |= {f"*.{name}_proj.weight": name for name in _PROJECTIONS[4:]}
_FLOATS = 16


def recipe_words(widths: Widths) -> str:
    """The bits of every kind of number in a model, for people."""
    weights = widths.told or f"weights in {_bits(widths.weight_bits)}{_ruled(widths)}"
    both = widths.embedding_bits == widths.lm_head_bits
    ends = f"embedding and lm_head in {_bits(widths.lm_head_bits)}"
    if not both:
        ends = f"embedding in {_bits(widths.embedding_bits)}, lm_head in {_bits(widths.lm_head_bits)}"
    shared = "" if widths.kv_boundary is None else f", shared after {widths.kv_boundary} of the layers"
    cache = f"cached keys and values in {_bits(widths.kv_bits)}{shared}"
    return f"{weights}, {ends}, {cache}" + ", activations in float" * widths.float_inputs


def _bits(bits: int) -> str:
    return f"{bits}-bit floats" if bits >= _FLOATS else f"{bits} bits"


def _ruled(widths: Widths) -> str:
    """The matrices that have other bits than the rest, in brackets; empty where there are none."""
    if not widths.rules or not widths.is_told(Kind.LINEAR):
        return ""
    return f" ({', '.join(_of_rules(widths.rules))})"


def _of_rules(rules: Sequence[SchemeRule]) -> Iterator[str]:
    for bits, alike in groupby(rules, lambda rule: rule[1].bits if rule[1] else 32):
        patterns = [pattern for pattern, _ in alike]
        named = [_NAMED[pattern] for pattern in patterns if pattern in _NAMED]
        others = len(patterns) - len(named)
        told = [f"{_joined(named)} projections"] if named else []
        told += [f"{others} other {'matrix' if others == 1 else 'matrices'}"] if others else []
        yield f"{_joined(told)} in {bits}"


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
