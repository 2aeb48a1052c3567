"""Whether a float16 artifact gives numbers on inputs that are larger or further from 0 than those it is compared on.

A mean whose terms are added before they are divided, or a norm of values with a common part, is right on noise around
0 and NaN on speech. What float16 cannot hold at all, since the model itself computes values beyond its range there, is
not a fault of the artifact: it is refused only on inputs as large as real ones may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

from edgec.backends.coreml.activation_ranges import activation_ranges
from edgec.errors import InputError
from edgec.exporter.parity.half_range import LIMIT
from edgec.exporter.parity.half_run import outputs_in_half
from edgec.exporter.parity.made_inputs import Stress
from edgec.ir.float_islands import is_kept
from edgec.ir.program import Program

_GIVE = "if the app never passes such values, say what it does pass: --inputs"
_FIX = f"export for a CPU, which computes in float32, or report it; {_GIVE}"


class Judged(Protocol):
    """What says whether inputs are the user's own."""

    @property
    def given(self) -> bool:
        """Whether they are."""


def check_stress(
    stress: Sequence[Stress], program: Program, function: Callable[[Sequence[Tensor]], Sequence[Tensor]]
) -> None:
    """Refuse an artifact that gives NaN or infinities where its graph gives numbers that float16 holds.

    Args:
        stress: inputs on which the float model gives numbers.
        program: the graph that was lowered.
        function: the artifact.

    Raises:
        InputError: E830.
    """
    for each in stress:
        outputs = function(each.inputs)
        if all(bool(value.isfinite().all()) for value in outputs if value.is_floating_point()):
            continue
        wanted: Sequence[Tensor] = program.graph(*each.inputs)
        masked = any(bool(value.isinf().any()) for value in wanted if value.is_floating_point())
        largest = max(activation_ranges(program, [each.inputs]).values(), default=0.0)
        if not masked and (largest <= LIMIT or each.moderate):
            raise _not_finite(each, outputs_in_half(program.graph, each.inputs, is_kept)[1], largest)


def _not_finite(stress: Stress, layer: str, largest: float) -> InputError:
    return InputError(
        what="the artifact gives NaN or infinities where the model gives numbers",
        where="; ".join(filter(None, (stress.name, layer and f"first in {layer}"))),
        why=f"no value of the model is larger than {largest:,.0f} there, and sums in float16 end at 65,504",
        fix=f"keep it in float32 (--keep-float {layer}), or {_FIX}" if layer else _FIX,
        code="E830",
    )


@contextmanager
def naming_made_inputs(judged: Judged) -> Iterator[None]:
    """Make a refusal for values beyond float16 (E830) say that inputs were made, where they were."""
    try:
        yield
    except InputError as error:
        if error.code != "E830" or judged.given:
            raise
        raise InputError(error.what, error.where, error.why, f"{error.fix}; {_GIVE}", error.code) from error
