"""Ways to store a weight, which of them kernels can read, and the record of what was decided for each tensor."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import log, log2
from typing import Any

from edgec.errors import InputError

KINDS = ("int", "lut", "balanced")
INTEGER_BITS, TABLE_BITS = (2, 3, 4, 8), (1, 2, 3, 4, 6, 8)
BALANCED = (-1.5, -0.5, 0.5, 1.5)
"""Apple's fixed set of 2-bit values, in units of a scale."""
BALANCED_SET = "balanced"


@dataclass(frozen=True)
class WeightScheme:
    """How the weights of a tensor are stored.

    Attributes:
        bits: width of a weight: 2, 3, 4 or 8; of an index into a table: 1, 2, 3, 4, 6 or 8.
        group_size: values along the input width that share a scale; 0 for one scale per output channel.
        symmetric: the zero point is 0 (the only form the matrix kernels read).
        activation_bits: 8 quantises the input dynamically, per token; 0 leaves it in float (weight-only).
        scale_bits: 32 for float32 scales; 16 for scales that bfloat16 can hold, so that a lowering loses nothing.
        kind: ``int``; ``lut``: indices into a table of float16 values; ``balanced``: the table is ``BALANCED`` x scale.
        group_rows: output channels that share a table; 0 for one table.
        sparsity: share of the weights that become zero and are left out of the file, 0..1; tables only.
        sparse_block: neighbours in a row of which each loses that share (4 with 0.5: 2:4); 0 for the whole row.
        levels: how many integers around 0 are used of those that ``bits`` hold: 3 is ternary, 8 are three bits in a
            wider container; 0 for all.
    """

    bits: int = 4
    group_size: int = 32
    symmetric: bool = True
    activation_bits: int = 8
    scale_bits: int = 32
    kind: str = "int"
    group_rows: int = 0
    sparsity: float = 0.0
    sparse_block: int = 0
    levels: int = 0

    def __str__(self) -> str:
        if self.is_table:
            name = "balanced" if self.kind == "balanced" else "look-up table"
            share = f"per {self.group_rows} channels" if self.group_rows else "per tensor"
            return f"{self.bits}-bit {name} {share}" + f", {self.sparsity:.0%} zeros" * (self.sparsity > 0)
        share = f"group {self.group_size}" if self.group_size else "per channel"
        return f"{self.bits}-bit {share}" + f", {self.levels} levels" * (self.levels > 0)

    @property
    def is_table(self) -> bool:
        """Whether weights are indices into a table of values."""
        return self.kind != "int"

    def table_rows(self, rows: int) -> int:
        """Output channels that share a table in a matrix of ``rows``."""
        return self.group_rows or rows

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and largest integer in use."""
        return (-(self.levels // 2), (self.levels - 1) // 2) if self.levels else self.held

    @property
    def held(self) -> tuple[int, int]:
        """The smallest and largest integer that ``bits`` can hold."""
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def information_bits(self) -> float:
        """Bits of information in a weight."""
        return log2(self.levels) if self.levels else self.bits

    def block(self, width: int) -> int:
        """Values that share a scale in a row of ``width`` values."""
        return self.group_size or width


SchemeRule = tuple[str, WeightScheme | None]
"""A pattern on a parameter's name, and the scheme for what matches it; None leaves it in float."""


@dataclass(frozen=True)
class KernelGrid:
    """The group sizes that kernels for one integer width can read.

    Attributes:
        groups: group sizes, largest first; empty when only per channel.
        channel_multiple: per-channel rows must be a multiple of this wide; 0 forbids per channel.
        coarsens: whether groups that do not divide a row become one per row at these bits, rather than wider integers.
    """

    bits: int
    groups: tuple[int, ...]
    channel_multiple: int
    coarsens: bool = True

    def accepts(self, scheme: WeightScheme, width: int) -> bool:
        """Whether rows of ``width`` values may be stored by ``scheme``."""
        if scheme.bits != self.bits:
            return False
        if scheme.group_size:
            return scheme.group_size in self.groups and width % scheme.group_size == 0
        return self.channel_multiple > 0 and width % self.channel_multiple == 0


LOOKUP_BITS = (2, 4, 8)
CONTAINER = WeightScheme(4, 0)
"""What holds the balanced set where there are no look-up tables: -3, -1, 1 and 3 times half its scale, exactly."""
# Below this, a float32 scale costs more than the integers it scales.
_SMALLEST_GROUP = 16
# ExecuTorch 1.5.1 stores per-channel int4 as one block per row: it asserts a block size that is a multiple of 32.
DYNAMIC_INT8_KERNELS = (KernelGrid(4, (256, 128, 64, 32), 32), KernelGrid(8, (), 1))
_LINEAR_GROUPS = (256, 128, 64, 32)
LINEAR_KERNELS = (*(KernelGrid(bits, _LINEAR_GROUPS, 1, coarsens=False) for bits in (2, 3, 4)), KernelGrid(8, (), 1))
"""What edgec's own linear kernels read (devices/runner/kernels/linear/matrix.h)."""


def lookup_kernels(width: int) -> tuple[KernelGrid, ...]:
    """What embedding look-ups of rows of ``width`` values read: groups that divide the row and fill whole bytes."""
    groups = tuple(g for g in range(width - 1, _SMALLEST_GROUP - 1, -1) if width % g == 0)
    return tuple(KernelGrid(bits, tuple(g for g in groups if g * bits % 8 == 0), 8 // bits) for bits in LOOKUP_BITS)


@dataclass(frozen=True)
class Decision:
    """The scheme that was asked for a tensor, and the one it got.

    Attributes:
        name: the parameter's own name.
        role: ``linear``, ``vocabulary`` or ``embedding``.
        shape: rows, width.
        requested: as asked by recipe or rule; None for float.
        used: as stored; None when the tensor stays in float.
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
    information_bits: float
    container_bits: int
    bytes: int
    buffers: tuple[str, ...] = ()
    algorithm: str = ""

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
        return replace(self.used, activation_bits=0) == replace(other.used, activation_bits=0)

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


def lut(bits: int, group_rows: int = 0, sparsity: float = 0.0, sparse_block: int = 0) -> WeightScheme:
    """The scheme of look-up tables of float16 values."""
    table = WeightScheme(bits, group_size=0, activation_bits=0, scale_bits=16, kind="lut", group_rows=group_rows)
    return replace(table, sparsity=sparsity, sparse_block=sparse_block)


def balanced(group_rows: int = 0) -> WeightScheme:
    """The two-bit scheme ``BALANCED`` x a float16 scale."""
    return WeightScheme(2, group_size=0, activation_bits=0, scale_bits=16, kind="balanced", group_rows=group_rows)


def fit_tables(scheme: WeightScheme, rows: int) -> tuple[WeightScheme, str]:
    """The scheme itself where its groups divide the rows, else with the divisor nearest in ratio, and the reason."""
    if rows % scheme.table_rows(rows) == 0:
        return scheme, ""
    divisors = [count for count in range(1, rows + 1) if rows % count == 0]
    used = replace(scheme, group_rows=min(divisors, key=lambda count: abs(log(count / scheme.group_rows))))
    return used, f"{scheme.group_rows} does not divide {rows} channels; {used} used"


def _table_bytes(shape: tuple[int, int], scheme: WeightScheme) -> int:
    """Bytes of packed indices (one bit for each zero, where that is less) and float16 tables."""
    rows, width = shape
    count = rows * width
    dense, sparse = count * scheme.bits, count + round(count * (1 - scheme.sparsity)) * scheme.bits
    packed = -(-(min(dense, sparse) if scheme.sparsity else dense) // 8)
    return packed + rows // scheme.table_rows(rows) * (1 << scheme.bits) * 2


def stored_bytes(shape: tuple[int, int], scheme: WeightScheme) -> int:
    """Bytes of packed integers and their scales (symmetric: no zero points), or of indices and tables."""
    if scheme.is_table:
        return _table_bytes(shape, scheme)
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
    candidates = []
    for grid in sorted((grid for grid in kernels if grid.bits >= scheme.bits), key=lambda grid: grid.bits):
        smaller = [group for group in grid.groups if group <= scheme.group_size]
        candidates += [replace(scheme, bits=grid.bits, group_size=group) for group in smaller]
        if grid.coarsens:
            scale_bits = scheme.scale_bits if grid.bits < 8 else 32
            candidates.append(replace(scheme, bits=grid.bits, group_size=0, scale_bits=scale_bits))
    return candidates


def require_supported(scheme: WeightScheme, where: str) -> None:
    """Refuse a scheme that has no meaning.

    Raises:
        InputError: E174, a kind, width, group, sparsity or activation width outside the known ones.
    """
    widths = TABLE_BITS if scheme.kind == "lut" else (2,) if scheme.kind == "balanced" else INTEGER_BITS
    problems = [
        (scheme.kind not in KINDS, f"weights of kind {scheme.kind!r}", f"use one of {', '.join(KINDS)}"),
        (scheme.bits not in widths, f"{scheme.bits} bits", f"use {_listed(widths)} bits"),
        (not _countable(scheme), f"{scheme.levels} levels in {scheme.bits} bits", "use 3 to 2^bits, or 0 for all"),
        (scheme.group_size < 0, f"group size {scheme.group_size}", "use 0 for per channel, or a positive group"),
        (scheme.activation_bits not in (0, 8), f"{scheme.activation_bits}-bit activations", "use 8, or 0 for float"),
        (scheme.scale_bits not in (16, 32), f"{scheme.scale_bits}-bit scales", "use 16 or 32"),
        (not scheme.symmetric, "an asymmetric weight grid", "use symmetric = true; matrix kernels read no zero points"),
        *_table_problems(scheme),
    ]
    for wrong, what, fix in problems:
        if wrong:
            raise InputError(what=f"{what}: not a known weight scheme", where=where, fix=fix, code="E174")


def _countable(scheme: WeightScheme) -> bool:
    return scheme.levels == 0 or (scheme.kind == "int" and 3 <= scheme.levels <= 1 << scheme.bits)


def _table_problems(scheme: WeightScheme) -> list[tuple[bool, str, str]]:
    table, sparse = scheme.is_table, scheme.sparsity > 0
    return [
        (table and scheme.group_size > 0, "a look-up table per block of a row", "use group_rows; group_size = 0"),
        (table and scheme.activation_bits > 0, "a look-up table with 8-bit activations", "set activation_bits = 0"),
        (not table and scheme.group_rows > 0, "integers that share a grid by rows", 'use group_size, or kind = "lut"'),
        (sparse and scheme.kind != "lut", f"zeros in {scheme.kind} weights", 'use kind = "lut" with sparsity'),
        (not 0 <= scheme.sparsity < 1, f"a sparsity of {scheme.sparsity}", "use a share from 0 to 1"),
    ]


def _listed(values: tuple[int, ...]) -> str:
    return " or ".join([", ".join(map(str, values[:-1])), str(values[-1])]) if len(values) > 1 else str(values[0])
