"""The record of what was decided for each tensor: the scheme that was asked for, the one it got, and its size."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from edgec.ir.weight_scheme import BALANCED_SET, WeightScheme, stored_bytes

KEPT, RE_EXPRESSED, ROUNDED_AGAIN = "kept", "re-expressed", "rounded again"
FATES = (KEPT, RE_EXPRESSED, ROUNDED_AGAIN)
"""What becomes of integers that a checkpoint stores: kept bit for bit, other numbers for the same values, or others."""


@dataclass(frozen=True)
class Decision:
    """The scheme that was asked for a tensor, and the one it got.

    Attributes:
        name: the parameter's own name.
        role: ``linear``, ``vocabulary``, ``embedding`` or ``convolution``.
        shape: rows, width; of a convolution its output channels, and the values of each.
        requested: as asked by recipe or rule; None for float.
        used: as stored; None when the tensor stays in float.
        reason: why ``used`` is not ``requested``; empty when it is.
        container_bits: bits per weight as stored.
        bytes: integers and scales as a device stores them (packed), bytes.
        buffers: names of the buffers in the graph of integers, scales, and zero points or minimums.
        algorithm: how the scales were chosen.
        found: the form that a quantised checkpoint has it in (``Q4_1``); empty for floats.
        fate: what became of that form, one of ``FATES``; empty where there was none, or it was not measured yet.
        error: of what is stored against the checkpoint's own values, relative to their norm; None as ``fate``.
    """

    name: str
    role: str
    shape: tuple[int, int]
    requested: WeightScheme | None
    used: WeightScheme | None
    reason: str
    information_bits: float
    container_bits: int
    bytes: int
    buffers: tuple[str, ...] = ()
    algorithm: str = ""
    found: str = ""
    fate: str = ""
    error: float | None = None

    def placed(self, names: tuple[str, ...], algorithm: str) -> Decision:
        """This decision after its tensors were placed in the graph."""
        return replace(self, buffers=names, algorithm=algorithm)

    def same_integers(self, other: Decision) -> bool:
        """Whether both stand for the same stored tensors: one parameter, one scheme; activations may differ.

        What follows a comma in ``algorithm`` says how inputs were weighted, which look-ups of the same table share.
        """
        algorithms = [each.algorithm.partition(",")[0] for each in (self, other)]
        if self.used is None or other.used is None or self.name != other.name or algorithms[0] != algorithms[1]:
            return False
        return self.used.weights_only == other.used.weights_only

    def to_json(self) -> dict[str, Any]:
        """The decision as plain data, for manifest and report."""
        return asdict(self)


def decide(
    name: str,
    role: str,
    shape: tuple[int, int],
    requested: WeightScheme | None,
    fitted: tuple[WeightScheme | None, str],
    packed_bits: int = 0,
) -> Decision:
    """Record a decision with its exact size; a float tensor counts 32 bits a weight.

    Args:
        name: of the parameter.
        role: as in ``Decision``.
        shape: rows, width.
        requested: as asked by recipe or rule.
        fitted: the scheme in the graph, and why it is not the requested one.
        packed_bits: bits of an integer in the file where kernels read fewer than the graph's scheme has; 0: as many.
    """
    used, reason = fitted
    bits = packed_bits or (used.bits if used else 32)
    information = used.information_bits if used else bits
    if used and requested and requested.kind == BALANCED_SET:
        information = requested.bits
    size = stored_bytes(shape, replace(used, bits=bits)) if used else shape[0] * shape[1] * 4
    return Decision(name, role, shape, requested, used, reason, information, bits, size)
