"""Which integer schemes kernels can read, and the nearest of them to the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from edgec.ir.stored_forms import HELD_GROUPS, HELD_SCHEMES, PACKED_FORMS
from edgec.ir.weight_scheme import LIFTED_BITS, WeightScheme


@dataclass(frozen=True)
class KernelGrid:
    """The group sizes that kernels for one integer width can read.

    Attributes:
        groups: group sizes, largest first; empty when only per channel.
        channel_multiple: per-channel rows must be a multiple of this wide; 0 forbids per channel.
        coarsens: whether groups that do not divide a row become one per row at these bits, rather than wider integers.
        activation_group: values of a token that share a scale where activations have 8 bits; 0: the whole token.
        symmetric: whether integers lie around 0; else groups have minimums.
        stored: the form of a checkpoint that is kept bit for bit; empty for all others.
        scale_bits: those of the scales that are read; 0: any.
        width_multiple: rows are a multiple of it.
    """

    bits: int
    groups: tuple[int, ...]
    channel_multiple: int
    coarsens: bool = True
    activation_group: int = 0
    symmetric: bool = True
    stored: str = ""
    scale_bits: int = 0
    width_multiple: int = 1

    def accepts(self, scheme: WeightScheme, width: int) -> bool:
        """Whether rows of ``width`` values may be stored by ``scheme``."""
        if (scheme.bits, scheme.symmetric, scheme.stored) != (self.bits, self.symmetric, self.stored):
            return False
        if width % self.width_multiple or (self.scale_bits and scheme.scale_bits != self.scale_bits):
            return False
        if scheme.group_size:
            return scheme.group_size in self.groups and width % scheme.group_size == 0
        return self.channel_multiple > 0 and width % self.channel_multiple == 0

    def reads(self, scheme: WeightScheme, width: int) -> tuple[WeightScheme, str]:
        """An accepted scheme with the activations that these kernels read beside it, and why these are in float.

        Layers whose groups have float32 scales are XNNPACK's, which reads whole tokens.
        """
        own = 0 if scheme.group_size and scheme.scale_bits == 32 else self.activation_group
        group = own if scheme.activation_group is None else scheme.activation_group
        if not scheme.activation_bits or not group:
            return scheme, ""
        if width % group:
            return replace(scheme, activation_bits=0), f"{group} does not divide {width}: float inputs"
        return replace(scheme, activation_group=group), ""


LOOKUP_BITS = (2, 4, 8)
_HALF_BITS = 16
# Below this, a float32 scale costs more than the integers it scales.
_SMALLEST_GROUP = 16
# ExecuTorch 1.5.1 stores per-channel int4 as one block per row: it asserts a block size that is a multiple of 32.
DYNAMIC_INT8_KERNELS = (KernelGrid(4, (256, 128, 64, 32), 32), KernelGrid(8, (), 1))
_LINEAR_GROUPS = (256, 128, 64, 32)
LIFTED_KERNELS = tuple(KernelGrid(bits, (32,), 0, False, 32, symmetric=False) for bits in LIFTED_BITS)
"""Groups with minimums, which only edgec's kernels read; embedding tables as well as matrices."""
LINEAR_KERNELS = (
    *(KernelGrid(bits, _LINEAR_GROUPS, 1, coarsens=bits == 8, activation_group=32) for bits in (2, 3, 4, 8)),
    *LIFTED_KERNELS,
)
"""What edgec's own linear kernels read (engine/kernels/linear/matrix.h)."""
_PACKED = {
    name: KernelGrid(form.bits, HELD_GROUPS, 1, False, 32, form.symmetric, name) for name, form in PACKED_FORMS.items()
}
COLUMNS_IN_PLACE = (
    *(KernelGrid(s.bits, (s.group_size,), 0, False, 32, s.symmetric, s.stored) for s in HELD_SCHEMES.values()),
    *(grid for name, grid in _PACKED.items() if not PACKED_FORMS[name].ordered),
)
"""The forms of checkpoints whose columns are in the model's order."""
STORED_KERNELS = (*COLUMNS_IN_PLACE, *(grid for name, grid in _PACKED.items() if PACKED_FORMS[name].ordered))
"""The forms of checkpoints that edgec's kernels read bit for bit, embedding tables as well as matrices."""


def holding(kernels: tuple[KernelGrid, ...]) -> tuple[KernelGrid, ...]:
    """What kernels of integers around 0 read of the checkpoints' forms: those of the same bits."""
    forms = [(scheme.bits, scheme.stored) for scheme in HELD_SCHEMES.values() if scheme.symmetric]
    forms += [(form.bits, form.name) for form in PACKED_FORMS.values() if form.symmetric and not form.ordered]
    return tuple(replace(grid, stored=name) for grid in kernels for bits, name in forms if bits == grid.bits)


def holding_halves(forms: tuple[KernelGrid, ...]) -> tuple[KernelGrid, ...]:
    """The forms of checkpoints with 4 or 8 bits and no scales in small integers, read beside float inputs."""
    stepped = {name for name, scheme in HELD_SCHEMES.items() if scheme.scale_bits < _HALF_BITS}
    whole = (grid for grid in forms if grid.bits in (4, 8) and grid.stored not in stepped)
    return tuple(replace(grid, activation_group=0) for grid in whole)


def holding_rows(forms: tuple[KernelGrid, ...]) -> tuple[KernelGrid, ...]:
    """The forms of checkpoints whose integers lie around 0 under one scale a row, read beside float inputs."""
    rows = (grid for grid in forms if grid.channel_multiple and grid.symmetric)
    return tuple(replace(grid, groups=(), activation_group=0) for grid in rows)


def held(kept: WeightScheme, kernels: Iterable[KernelGrid]) -> WeightScheme | None:
    """How kernels read a checkpoint's form bit for bit; None where they do not.

    It is the form's own scheme, or that of the largest group into which its groups can be cut, with equal scales.
    """
    for grid in kernels:
        if grid.stored != kept.stored or (not kept.group_size and not grid.channel_multiple):
            continue
        cuts = (group for group in grid.groups if kept.group_size % group == 0)
        group = max(cuts, default=0) if kept.group_size else 0
        if group or not kept.group_size:
            own = kept.activation_bits if grid.activation_group else 0
            return replace(kept, group_size=group, activation_bits=own)
    return None


FILE_KERNELS = (
    *(KernelGrid(bits, (32,), 0, False, scale_bits=16) for bits in (4, 8)),
    *(KernelGrid(bits, (32,), 0, False, symmetric=False, scale_bits=6, width_multiple=256) for bits in (4, 5)),
    *(KernelGrid(bits, (32,), 0, False, symmetric=False, scale_bits=16) for bits in (4, 5)),
)
"""What GGUF's types hold of edgec's own schemes: Q4_0 and Q8_0, Q4_K and Q5_K, Q4_1 and Q5_1."""
FILE_STORED = tuple(replace(grid, channel_multiple=0) for grid in COLUMNS_IN_PLACE)
"""The forms of checkpoints whose values GGUF's types hold: without those of one float32 scale a row."""


def lookup_kernels(width: int) -> tuple[KernelGrid, ...]:
    """What embedding look-ups of rows of ``width`` values read: groups that divide the row and fill whole bytes."""
    groups = tuple(g for g in range(width - 1, _SMALLEST_GROUP - 1, -1) if width % g == 0)
    return tuple(KernelGrid(bits, tuple(g for g in groups if g * bits % 8 == 0), 8 // bits) for bits in LOOKUP_BITS)


def fit(scheme: WeightScheme, width: int, kernels: tuple[KernelGrid, ...]) -> tuple[WeightScheme | None, str]:
    """The scheme itself when kernels read it, else the nearest one with at least its bits, with the reason.

    Order: a smaller group at the same bits, per channel at the same bits, then the same with wider integers, then float
    (None). Matrix kernels read 4 bits per channel only where they also read groups of 32, so there this means 8 bits.
    What the scheme leaves open of activations is as the kernels round them.
    """
    for candidate in (scheme, *_nearest(scheme, kernels)):
        grid = next((grid for grid in kernels if grid.accepts(candidate, width)), None)
        if grid is not None:
            used, reason = grid.reads(candidate, width)
            asked = candidate == scheme
            return used, reason if asked else f"no kernel reads {scheme} at a width of {width}; {used} used"
    return None, f"no kernel reads {scheme} at a width of {width}; left in float"


def _nearest(scheme: WeightScheme, kernels: tuple[KernelGrid, ...]) -> list[WeightScheme]:
    """Candidates in order of preference; the caller drops those that the width rules out."""
    candidates = []
    if not scheme.symmetric:
        lifted = {grid.bits for grid in kernels if not grid.symmetric and not grid.stored}
        widths = [(bits, held) for bits in sorted(lifted) for held in (scheme.scale_bits, 16) if bits >= scheme.bits]
        candidates += [replace(scheme, bits=bits, scale_bits=held) for bits, held in widths]
        # Around 0 a group takes 16 bits for its scale; more would be lost with fewer bits than the asked ones.
        scheme = replace(scheme, symmetric=True, scale_bits=16)
        candidates.append(scheme)
    around_zero = (grid for grid in kernels if grid.bits >= scheme.bits and grid.symmetric and not grid.stored)
    for grid in sorted(around_zero, key=lambda grid: grid.bits):
        # Where no kernel reads a scale for a row, its largest groups take its place.
        largest = scheme.group_size or (0 if grid.channel_multiple else max(grid.groups, default=0))
        smaller = [group for group in grid.groups if group <= largest]
        held = grid.scale_bits or scheme.scale_bits
        candidates += [replace(scheme, bits=grid.bits, group_size=group, scale_bits=held) for group in smaller]
        if grid.coarsens:
            scale_bits = scheme.scale_bits if grid.bits < 8 else 32
            candidates.append(replace(scheme, bits=grid.bits, group_size=0, scale_bits=scale_bits))
    return candidates
