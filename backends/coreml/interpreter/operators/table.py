"""The table of operators that the interpreter knows, and how the arithmetic of each is rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Accumulate = Literal["float16", "float32", "unrounded"]
ACCUMULATIONS: tuple[Accumulate, ...] = get_args(Accumulate)


@dataclass(frozen=True)
class Operator:
    """A MIL operator as a function, with its kind of rounding.

    Attributes:
        run: takes MIL's inputs by name, returns one tensor or several.
        computes: takes float16 values widened to float32; others only move values and take them as they are.
    """

    run: Callable[..., Any]
    computes: bool


def operator_table(accumulate: Accumulate) -> Mapping[str, Operator]:
    """Every operator, with sums rounded as ``accumulate`` says.

    Args:
        accumulate: ``float16``: sums of products, of squares and of means are rounded to float16 on the way;
            ``float32``: within an operator sums are float32, its result is rounded to the declared type;
            ``unrounded``: nothing is ever rounded to float16, which shows the program's own meaning.
    """
    from edgec.backends.coreml.interpreter.operators import (
        activation,
        elementwise,
        gather,
        layout,
        linear,
        normalization,
        pool,
        reduction,
        resize,
        slices,
        sort,
    )

    half = accumulate == "float16"
    computing = (
        *(elementwise.TABLE, activation.TABLE, normalization.TABLE, pool.TABLE, resize.TABLE, sort.COMPUTING),
        *(linear.table(half), reduction.table(half)),
    )
    moving = (layout.TABLE, slices.TABLE, gather.TABLE, sort.MOVING)
    known = {name: Operator(run, True) for table in computing for name, run in table.items()}
    return {**known, **{name: Operator(run, False) for table in moving for name, run in table.items()}}
