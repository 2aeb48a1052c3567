"""The forms of quantised checkpoints: GGUF's types by their names, and the integers of safetensors by method and bits.

Kept means bit for bit: the graph holds the checkpoint's own integers, and its scales and minimums as float32, which
edgec's kernels store as they were (backends/cpu/linear/scale_forms.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from edgec.ir.weight_scheme import WeightScheme


def _around_zero(name: str, bits: int, group: int, scale_bits: int = 16) -> WeightScheme:
    return WeightScheme(bits, group, scale_bits=scale_bits, stored=name)


def _lifted(name: str, bits: int, scale_bits: int) -> WeightScheme:
    return WeightScheme(bits, 32, symmetric=False, scale_bits=scale_bits, stored=name)


KEPT_SCHEMES: Mapping[str, WeightScheme] = MappingProxyType(
    {
        scheme.stored: scheme
        for scheme in (
            _around_zero("Q4_0", 4, 32),
            _around_zero("Q5_0", 5, 32),
            _around_zero("Q8_0", 8, 32),
            _around_zero("Q6_K", 6, 16, 8),
            replace(_around_zero("TQ2_0", 2, 256), levels=3),
            _lifted("Q4_1", 4, 16),
            _lifted("Q5_1", 5, 16),
            _lifted("Q4_K", 4, 6),
            _lifted("Q5_K", 5, 6),
        )
    }
)

EXPRESSED_SCHEMES: Mapping[str, WeightScheme] = MappingProxyType(
    {
        "IQ4_NL": _around_zero("IQ4_NL as 8-bit integers", 8, 32),
        "MXFP4": _around_zero("MXFP4 as 5-bit integers", 5, 32),
        "Q3_K": _around_zero("Q3_K as 6-bit integers", 6, 16, 8),
        "TQ1_0": replace(_around_zero("TQ1_0 as 2-bit integers", 2, 256), levels=3),
    }
)
"""Forms of GGUF whose very values kernels read in wider integers: the whole numbers of a table, or more bits."""
HELD_SCHEMES: Mapping[str, WeightScheme] = MappingProxyType({**KEPT_SCHEMES, **EXPRESSED_SCHEMES})

FORM_BITS: Mapping[str, float] = MappingProxyType(
    {
        **{"Q4_0": 4.5, "Q4_1": 5.0, "Q5_0": 5.5, "Q5_1": 6.0, "Q8_0": 8.5},
        **{"Q2_K": 2.625, "Q3_K": 3.4375, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625},
        **{"IQ4_NL": 4.5, "IQ4_XS": 4.25, "MXFP4": 4.25, "TQ1_0": 1.6875, "TQ2_0": 2.0625},
    }
)
"""Bits of a weight, scales and minimums included, of every form of GGUF that edgec reads."""

GPTQ, AWQ, COMPRESSED, TORCHAO = "GPTQ", "AWQ", "compressed-tensors", "torchao"
TERNARY, MXFP4 = "ternary", "MXFP4"
HELD_GROUPS = tuple(range(1024, 31, -32))
"""Groups that kernels read of forms of safetensors, largest first."""
ZERO_BITS = 24
"""Scale bits of groups with a float16 scale and a zero point of 8 bits."""


@dataclass(frozen=True)
class PackedForm:
    """A form of safetensors that kernels read, with groups of any of ``HELD_GROUPS`` or one scale a row.

    Attributes:
        name: of the integers (``GPTQ uint4``), as the report calls them.
        bits: of an integer.
        symmetric: they lie around 0; else they count from 0, and groups have zero points.
        levels: how many of them are in use; 0: all.
        ordered: columns are stored in another order than the model's (act-order), and are read in that of their groups.
    """

    name: str
    bits: int
    symmetric: bool = True
    levels: int = 0
    ordered: bool = False

    @classmethod
    def of(cls, method: str, bits: int, symmetric: bool) -> PackedForm:
        """A method's integers: ``GPTQ uint4`` where groups have zero points, else ``GPTQ int4``."""
        return cls(f"{method} {'' if symmetric else 'u'}int{bits}", bits, symmetric)

    @property
    def in_act_order(self) -> PackedForm:
        """The same integers where the columns of a group do not lie side by side."""
        return replace(self, name=f"{self.name}, act-order", ordered=True)

    def scheme(self, group: int) -> WeightScheme:
        """The scheme that keeps it; a group of 0 is a whole row, whose one scale is stored in float32."""
        scale_bits = 32 if not group else 16 if self.symmetric else ZERO_BITS
        scheme = WeightScheme(self.bits, group, self.symmetric, scale_bits=scale_bits, stored=self.name)
        return replace(scheme, levels=self.levels)


def _ordered(forms: tuple[PackedForm, ...]) -> tuple[PackedForm, ...]:
    return (*forms, *(form.in_act_order for form in forms))


def _integers(method: str, *widths: int) -> tuple[PackedForm, ...]:
    around_zero = (PackedForm.of(method, bits, True) for bits in widths)
    # An int8 holds codes from 0 on of fewer than 8 bits.
    lifted = (PackedForm.of(method, bits, False) for bits in widths if bits < 8)
    return (*around_zero, *lifted)


MXFP4_INTEGERS = PackedForm("MXFP4 as 5-bit integers", 5)
"""MXFP4's values are halves of -12 to 12 under powers of two."""
PACKED_FORMS: Mapping[str, PackedForm] = MappingProxyType(
    {
        form.name: form
        for form in (
            *_ordered(_integers(GPTQ, 2, 3, 4, 8)),
            *_integers(AWQ, 4),
            *_ordered(_integers(COMPRESSED, 2, 3, 4, 5, 6, 8)),
            *_integers(TORCHAO, 2, 3, 4, 5, 6, 8),
            PackedForm(TERNARY, 2, levels=3),
            MXFP4_INTEGERS,
        )
    }
)
