"""The forms of quantised checkpoints, by their names in GGUF: their bits, and the scheme of those that kernels keep.

Kept means bit for bit: the graph holds the checkpoint's own integers, and its scales and minimums as float32, which
edgec's kernels store as they were (backends/edgec_linear/scale_forms.py).
"""

from __future__ import annotations

from collections.abc import Mapping
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
            _lifted("Q4_1", 4, 16),
            _lifted("Q5_1", 5, 16),
            _lifted("Q4_K", 4, 6),
            _lifted("Q5_K", 5, 6),
        )
    }
)

FORM_BITS: Mapping[str, float] = MappingProxyType(
    {
        **{"Q4_0": 4.5, "Q4_1": 5.0, "Q5_0": 5.5, "Q5_1": 6.0, "Q8_0": 8.5},
        **{"Q2_K": 2.625, "Q3_K": 3.4375, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625},
        **{"IQ4_NL": 4.5, "IQ4_XS": 4.25, "MXFP4": 4.25, "TQ1_0": 1.6875, "TQ2_0": 2.0625},
    }
)
"""Bits of a weight, scales and minimums included, of every form that edgec reads."""
