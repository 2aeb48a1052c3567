"""How a tensor is stored, which of those ways kernels can read, and the record of what was decided for each tensor."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from edgec.errors import InputError


@dataclass(frozen=True)
class WeightScheme:
    """Integers per weight and what goes with them.

    Attributes:
        bits: width of a weight: 2, 4 or 8.
        group_size: values along the input width that share a scale; 0 for one scale per output channel.
        symmetric: the zero point is 0 (the only form the matrix kernels read).
        activation_bits: 8 quantises the input dynamically, per token; 0 leaves it in float (weight-only).
        scale_bits: 32 for float32 scales; 16 for scales that bfloat16 can hold, so that a lowering loses nothing.
    """

    bits: int = 4
    group_size: int = 32
    symmetric: bool = True
    activation_bits: int = 8
    scale_bits: int = 32

    def __str__(self) -> str:
        share = f"group {self.group_size}" if self.group_size else "per channel"
        return f"{self.bits}-bit {share}"

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    def block(self, width: int) -> int:
        """Values that share a scale in a row of ``width`` values."""
        return self.group_size or width


@dataclass(frozen=True)
class KernelGrid:
    """What kernels for one integer width read.

    Attributes:
        groups: group sizes, largest first; empty when only per channel.
        channel_multiple: per-channel rows must be a multiple of this wide; 0 forbids per channel.
    """

    bits: int
    groups: tuple[int, ...]
    channel_multiple: int

    def accepts(self, scheme: WeightScheme, width: int) -> bool:
        """Whether rows of ``width`` values may be stored by ``scheme``."""
        if scheme.bits != self.bits:
            return False
        if scheme.group_size:
            return scheme.group_size in self.groups and width % scheme.group_size == 0
        return self.channel_multiple > 0 and width % self.channel_multiple == 0


LOOKUP_BITS = (2, 4, 8)
# below this a float32 scale costs more than the integers it scales
_SMALLEST_GROUP = 16
# ExecuTorch 1.5.1 stores per-channel int4 as one block per row: it asserts a block size that is a multiple of 32.
DYNAMIC_INT8_KERNELS = (KernelGrid(4, (256, 128, 64, 32), 32), KernelGrid(8, (), 1))


def lookup_kernels(width: int) -> tuple[KernelGrid, ...]:
    """What embedding look-ups of rows of ``width`` values read: groups that divide the row and fill whole bytes."""
    groups = tuple(g for g in range(width - 1, _SMALLEST_GROUP - 1, -1) if width % g == 0)
    return tuple(KernelGrid(bits, tuple(g for g in groups if g * bits % 8 == 0), 8 // bits) for bits in LOOKUP_BITS)


@dataclass(frozen=True)
class Decision:
    """What was asked for a tensor and what it got.

    Attributes:
        name: the parameter's own name.
        role: ``linear``, ``vocabulary`` or ``embedding``.
        shape: rows, width.
        requested: as asked by recipe or rule; None for float.
        used: None when the tensor stays in float.
        reason: why ``used`` is not ``requested``; empty when it is.
        container_bits: bits per weight as stored.
        bytes: integers and scales as a device stores them (packed), bytes.
        buffers: names of the integer, scale and zero-point buffers in the graph.
        algorithm: how the scales were chosen.
    """

    name: str
    role: str
    shape: tuple[int, int]
    requested: WeightScheme | None
    used: WeightScheme | None
    reason: str
    information_bits: int
    container_bits: int
    bytes: int
    buffers: tuple[str, ...] = ()
    algorithm: str = ""

    def placed(self, names: tuple[str, ...], algorithm: str) -> Decision:
        """This decision after its tensors were placed in the graph."""
        return replace(self, buffers=names, algorithm=algorithm)

    def same_integers(self, other: Decision) -> bool:
        """Whether both stand for the same stored tensors: one parameter, one scheme; activations may differ."""
        if self.used is None or other.used is None or (self.name, self.algorithm) != (other.name, other.algorithm):
            return False
        return replace(self.used, activation_bits=0) == replace(other.used, activation_bits=0)

    def to_json(self) -> dict[str, Any]:
        """As plain data for manifest and report."""
        return asdict(self)


def decide(
    name: str,
    role: str,
    shape: tuple[int, int],
    requested: WeightScheme | None,
    fitted: tuple[WeightScheme | None, str],
) -> Decision:
    """Record a decision with its exact size; a float tensor counts 32 bits a weight."""
    used, reason = fitted
    bits = used.bits if used else 32
    size = stored_bytes(shape, used) if used else shape[0] * shape[1] * 4
    return Decision(name, role, shape, requested, used, reason, bits, bits, size)


def stored_bytes(shape: tuple[int, int], scheme: WeightScheme) -> int:
    """Bytes of packed integers and their scales; symmetric schemes store no zero points."""
    rows, width = shape
    integers = rows * -(-width * scheme.bits // 8)
    scales = rows * (width // scheme.block(width)) * scheme.scale_bits // 8
    return integers + scales


def fit(scheme: WeightScheme, width: int, kernels: tuple[KernelGrid, ...]) -> tuple[WeightScheme | None, str]:
    """The scheme itself when kernels read it, else the nearest one with at least its bits, with the reason.

    Order: a smaller group at the same bits, per channel at the same bits, then the same with wider integers, then float
    (None). Matrix kernels read 4 bits per channel only where they also read groups of 32, so there this means 8 bits.
    """
    if any(grid.accepts(scheme, width) for grid in kernels):
        return scheme, ""
    for candidate in _nearest(scheme, kernels):
        if any(grid.accepts(candidate, width) for grid in kernels):
            return candidate, f"no kernel reads {scheme} at a width of {width}; {candidate} used"
    return None, f"no kernel reads {scheme} at a width of {width}; left in float"


def _nearest(scheme: WeightScheme, kernels: tuple[KernelGrid, ...]) -> list[WeightScheme]:
    """Candidates in order of preference; the caller drops those that the width rules out."""
    found = []
    for grid in sorted((grid for grid in kernels if grid.bits >= scheme.bits), key=lambda grid: grid.bits):
        smaller = [group for group in grid.groups if group <= scheme.group_size]
        found += [replace(scheme, bits=grid.bits, group_size=group) for group in smaller]
        found.append(
            replace(scheme, bits=grid.bits, group_size=0, scale_bits=scheme.scale_bits if grid.bits < 8 else 32)
        )
    return found


def require_supported(scheme: WeightScheme, where: str) -> None:
    """Refuse schemes that have no meaning.

    Raises:
        InputError: E174, a width, group or activation width outside the known ones.
    """
    problems = [
        (scheme.bits not in (2, 4, 8), f"{scheme.bits} bits", "use 2, 4 or 8 bits"),
        (scheme.group_size < 0, f"group size {scheme.group_size}", "use 0 for per channel, or a positive group"),
        (scheme.activation_bits not in (0, 8), f"{scheme.activation_bits}-bit activations", "use 8, or 0 for float"),
        (scheme.scale_bits not in (16, 32), f"{scheme.scale_bits}-bit scales", "use 16 or 32"),
        (not scheme.symmetric, "an asymmetric weight grid", "use symmetric = true; matrix kernels read no zero points"),
    ]
    for wrong, what, fix in problems:
        if wrong:
            raise InputError(what=f"{what}: not a known weight scheme", where=where, fix=fix, code="E174")
