"""Ways to store a weight, how many bytes each takes, and which have a meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, log2

from edgec.errors import InputError

KINDS = ("int", "lut", "balanced")
INTEGER_BITS, LIFTED_BITS, TABLE_BITS = (2, 3, 4, 8), (2, 3, 4, 5, 6), (1, 2, 3, 4, 6, 8)
LIFTED_SCALE_BITS = (6, 16)
BALANCED = (-1.5, -0.5, 0.5, 1.5)
"""Apple's fixed set of 2-bit values, in units of a scale."""
BALANCED_SET = "balanced"


@dataclass(frozen=True)
class WeightScheme:
    """How the weights of a tensor are stored.

    Attributes:
        bits: width of a weight: 2, 3, 4 or 8, with minimums 2 to 6; of an index into a table: 1, 2, 3, 4, 6 or 8.
        group_size: values along the input width that share a scale; 0 for one scale per output channel.
        symmetric: integers lie around a zero point of 0; else they count from a minimum, which each group has beside
            its scale (only edgec's kernels read that).
        activation_bits: 8 quantises the input dynamically; 0 leaves it in float (weight-only).
        scale_bits: 32 for float32 scales; 16 for scales that bfloat16 can hold, so that a lowering loses nothing. With
            minimums: 16 for float16, 6 for multiples of float16 numbers that 8 groups share, 24 for a float16 scale and
            a zero point of 8 bits (checkpoints only).
        kind: ``int``; ``lut``: indices into a table of float16 values; ``balanced``: the table is ``BALANCED`` x scale.
        group_rows: output channels that share a table; 0 for one table.
        sparsity: share of the weights that become zero and are left out of the file, 0..1; tables only.
        sparse_block: neighbours in a row of which each loses that share (4 with 0.5: 2:4); 0 for the whole row.
        levels: how many integers around 0 are used of those that ``bits`` hold: 3 is ternary, 8 are three bits in a
            wider container; 0 for all.
        activation_group: values of a token that share a scale there; 0: the whole token, with a zero point; None: as
            the kernels that read the weight round it.
        stored: the checkpoint's name of the form (``Q4_1``) where the very integers, scales and minimums of the
            checkpoint are kept, or the name of integers that hold its values; empty for all others.
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
    activation_group: int | None = None
    stored: str = ""

    def __str__(self) -> str:
        if self.stored:
            return f"{self.stored} as stored"
        if self.is_table:
            name = "balanced" if self.kind == "balanced" else "look-up table"
            share = f"per {self.group_rows} channels" if self.group_rows else "per tensor"
            return f"{self.bits}-bit {name} {share}" + f", {self.sparsity:.0%} zeros" * (self.sparsity > 0)
        share = f"group {self.group_size}" if self.group_size else "per channel"
        share += " with minimums" * (not self.symmetric)
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
        """The smallest and largest integer that ``bits`` can hold; from 0 on where values have a minimum."""
        least = -(1 << (self.bits - 1)) if self.symmetric else 0
        return least, least + (1 << self.bits) - 1

    @property
    def information_bits(self) -> float:
        """Bits of information in a weight."""
        return log2(self.levels) if self.levels else self.bits

    def block(self, width: int) -> int:
        """Values that share a scale in a row of ``width`` values."""
        return self.group_size or width

    @property
    def weights_only(self) -> WeightScheme:
        """The scheme without what it says of activations."""
        return replace(self, activation_bits=0, activation_group=None)


def around_zero(scheme: WeightScheme) -> WeightScheme:
    """The scheme without minimums that holds at least its bits; itself where it has none."""
    if scheme.symmetric:
        return scheme
    bits = next(bits for bits in INTEGER_BITS if bits >= scheme.bits)
    return replace(scheme, bits=bits, symmetric=True, scale_bits=16)


SchemeRule = tuple[str, WeightScheme | None]
"""A pattern on a parameter's name, and the scheme for what matches it; None leaves it in float."""
CONTAINER = WeightScheme(4, 0)
"""What holds the balanced set where there are no look-up tables: -3, -1, 1 and 3 times half its scale, exactly."""


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
    """Bytes of packed integers and their scales (no zero points) and minimums, or of indices and tables."""
    if scheme.is_table:
        return _table_bytes(shape, scheme)
    rows, width = shape
    integers = rows * -(-width * scheme.bits // 8)
    return integers + rows * _scale_bytes(width // scheme.block(width), scheme)


def _scale_bytes(groups: int, scheme: WeightScheme) -> int:
    """Bytes of the scales, and minimums, of a row."""
    if scheme.symmetric and scheme.scale_bits == 8:
        return groups + 2 * -(-groups // 16)  # a float16 step for the scales of 16 groups
    if scheme.symmetric:
        return groups * scheme.scale_bits // 8
    if scheme.scale_bits == 24:
        return 3 * groups  # a float16 scale and a byte for the zero point
    shared = 4 * -(-groups // 8)  # a float16 step for scales and one for minimums
    return 4 * groups if scheme.scale_bits == 16 else groups + -(-groups // 2) + shared


def require_supported(scheme: WeightScheme, where: str) -> None:
    """Refuse a scheme that has no meaning.

    Raises:
        InputError: E174, a kind, width, group, sparsity or activation width outside the known ones.
    """
    integers = INTEGER_BITS if scheme.symmetric else LIFTED_BITS
    widths = TABLE_BITS if scheme.kind == "lut" else (2,) if scheme.kind == "balanced" else integers
    scale_bits = (16, 32) if scheme.symmetric else LIFTED_SCALE_BITS
    problems = [
        (scheme.kind not in KINDS, f"weights of kind {scheme.kind!r}", f"use one of {', '.join(KINDS)}"),
        (scheme.bits not in widths, f"{scheme.bits} bits", f"use {_listed(widths)} bits"),
        (not _countable(scheme), f"{scheme.levels} levels in {scheme.bits} bits", "use 3 to 2^bits, or 0 for all"),
        (scheme.group_size < 0, f"group size {scheme.group_size}", "use 0 for per channel, or a positive group"),
        (scheme.activation_bits not in (0, 8), f"{scheme.activation_bits}-bit activations", "use 8, or 0 for float"),
        (
            scheme.activation_group not in (None, 0, 32),
            f"{scheme.activation_group} values of a token that share a scale",
            "use activation_group = 32, or 0 for the whole token",
        ),
        (scheme.scale_bits not in scale_bits, f"{scheme.scale_bits}-bit scales", f"use {_listed(scale_bits)}"),
        (not scheme.symmetric and scheme.group_size != 32, "minimums without groups of 32", "set group_size = 32"),
        (not scheme.symmetric and scheme.is_table, "a look-up table with minimums", "leave symmetric = false out"),
        (not scheme.symmetric and scheme.levels > 0, "fewer levels with minimums", "leave levels out"),
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
