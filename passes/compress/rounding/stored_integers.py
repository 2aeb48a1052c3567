"""Keep stored integers: those of a quantised checkpoint, with its scales and minimums, bit for bit.

``record_stored`` tells a captured graph which of its parameters a checkpoint stores as integers, and how to read them
one at a time, so that nothing is held twice. A pass asks ``scheme_to_keep`` how to store a parameter, and
``stored_integers`` for the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.fx import GraphModule

from edgec.ir.kernel_grids import KernelGrid, held
from edgec.ir.weight_decision import KEPT, RE_EXPRESSED, Decision
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight

STORED = "edgec_stored"
AS_STORED = "as stored"


@dataclass(frozen=True)
class StoredForm:
    """One parameter in a quantised checkpoint.

    Attributes:
        name: of the tensor, which several parameters may share.
        form: the form's name (``Q4_1``, ``GPTQ uint4``).
        bytes: what it takes there.
        bits: of a weight, scales and minimums included.
        kept_scheme: the scheme that keeps it, or holds its very values in integers of another form, where kernels read
            that; None where none does.
        reason: why there is none, where it is not the form alone.
        half: whether float16 holds each of its scales and minimums.
    """

    name: str
    form: str
    bytes: int
    bits: float
    kept_scheme: WeightScheme | None = None
    reason: str = ""
    half: bool = True

    @property
    def fate_where_read(self) -> str:
        """What becomes of it where kernels read ``kept_scheme``."""
        return KEPT if self.kept_scheme and self.kept_scheme.stored == self.form else RE_EXPRESSED


@dataclass(frozen=True)
class StoredIntegers:
    """The parameters that a checkpoint stores as integers.

    Attributes:
        forms: by the parameter's name.
        integers: reads one parameter's, int8 [N, K], on the grid of its ``kept_scheme``.
        values: what a parameter means by the library that defines the format, float32 in any shape.
        columns: the order in which a parameter's integers have its columns, int64 [K]; None where it is its own.
    """

    forms: Mapping[str, StoredForm]
    integers: Callable[[str], QuantizedWeight]
    values: Callable[[str], Tensor]
    columns: Callable[[str], Tensor | None] = lambda name: None


def record_stored(graph: GraphModule, stored: StoredIntegers | None) -> None:
    """Record a checkpoint's integers in a graph, for the passes that will quantise it; None: there are none."""
    if stored is not None:
        graph.meta[STORED] = stored


def stored_weights(graph: GraphModule) -> StoredIntegers | None:
    """What ``record_stored`` recorded."""
    stored: StoredIntegers | None = graph.meta.get(STORED)
    return stored


def stored_form(graph: GraphModule, name: str) -> StoredForm | None:
    """How the checkpoint stores a parameter; None where it stores floats."""
    stored = stored_weights(graph)
    return stored.forms.get(name) if stored else None


def scheme_to_keep(
    graph: GraphModule, name: str, kernels: Sequence[KernelGrid], others: Sequence[WeightScheme | None]
) -> WeightScheme | None:
    """How to store a parameter that the checkpoint stores as integers.

    Args:
        graph: with the record.
        name: the parameter's.
        kernels: what the target's read.
        others: the recipe's schemes.

    Returns:
        The scheme that keeps it where a kernel reads that, with the recipe's activations; else the scheme of ``others``
        that is nearest to it in bits. None where the checkpoint stores floats, or there are no others.
    """
    found, rest = stored_form(graph, name), [scheme for scheme in others if scheme is not None]
    if found is None:
        return None
    kept = held(found.kept_scheme, kernels) if found.kept_scheme else None
    if kept is not None:
        like = rest[0] if rest else kept
        return replace(kept, activation_bits=like.activation_bits, activation_group=like.activation_group)
    return min(rest, key=lambda scheme: abs(scheme.bits - found.bits), default=None)


def column_order(graph: GraphModule, decision: Decision) -> Tensor | None:
    """The order in which the graph has a kept parameter's columns, int64 [K]; None where it is the parameter's own."""
    stored = stored_weights(graph)
    kept = stored is not None and decision.used is not None and bool(decision.used.stored)
    return stored.columns(decision.name) if stored is not None and kept else None


def unkept(graph: GraphModule, name: str, used: WeightScheme | None) -> str:
    """Why a parameter's stored integers are not kept; empty where they are, or there are none."""
    found = stored_form(graph, name)
    if found is None or (used and used.stored):
        return ""
    return found.reason or f"no kernel reads {found.form} as it is"


def stored_integers(graph: GraphModule, decision: Decision) -> QuantizedWeight:
    """The integers, scales and zero points or minimums of a parameter that is kept, in the groups decided for it."""
    stored = stored_weights(graph)
    assert stored is not None and decision.used is not None, decision.name
    found = stored.integers(decision.name)
    times = decision.shape[1] // decision.used.block(decision.shape[1]) // found.scale.shape[1]
    if times == 1:
        return found
    scale, beside = (each[:].repeat_interleave(times, 1) for each in (found.scale, found.beside))
    return replace(found, scale=scale, beside=beside)
