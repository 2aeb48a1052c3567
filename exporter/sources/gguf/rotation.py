"""Rotary frequencies as a GGUF file states them: base, kind of scaling, or a factor for each frequency in a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.exporter.sources.gguf.metadata import Numbers
from edgec.exporter.sources.gguf.rows import float_values

FACTORS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
# Llama 3.1 and 3.2: low and high factor, and positions of the first training. The file has only what follows from them.
_LLAMA3 = (1.0, 4.0, 8192)
_DEFAULT_BASE = 10_000.0
# Rotated parts of heads are read where transformers' class can have them.
_PARTIAL = ("phi3",)
# The factors were computed in float32 or float64 by a converter, from frequencies rounded to float32.
_SAME = 1e-4
Scaling = dict[str, Any]


def rotation(numbers: Numbers, head_dim: int) -> Scaling:
    """The ``rope_parameters`` of transformers.

    Args:
        numbers: the file's metadata.
        head_dim: values in a head.

    Raises:
        InputError: E810, a scaling that edgec does not read, or factors that belong to no known one.
    """
    base = numbers.real("rope.freq_base", _DEFAULT_BASE)
    rotated = numbers.count("rope.dimension_count", head_dim)
    if rotated != head_dim and (numbers.prefix not in _PARTIAL or rotated > head_dim):
        raise numbers.fault(f"{rotated} of the {head_dim} values of a head are rotated")
    part = {"partial_rotary_factor": rotated / head_dim} if numbers.prefix in _PARTIAL else {}
    return {"rope_theta": base, **part, **_scaling(numbers, base, rotated)}


def _scaling(numbers: Numbers, base: float, rotated: int) -> Scaling:
    tensors = numbers.file.tensors
    if LONG in tensors or SHORT in tensors:
        return _long(numbers, rotated)
    kind = numbers.file.metadata.get(f"{numbers.prefix}.rope.scaling.type", "none")
    make = _KINDS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise numbers.fault(f"the rotary scaling {str(kind)[:40]!r} is not read")
    if FACTORS not in tensors:
        return make(numbers)
    return _llama3(numbers, base, _factors(numbers, FACTORS, rotated), rotated)


def _default(numbers: Numbers) -> Scaling:
    return {"rope_type": "default"}


def _linear(numbers: Numbers) -> Scaling:
    return {"rope_type": "linear", "factor": numbers.real("rope.scaling.factor")}


def _yarn(numbers: Numbers) -> Scaling:
    if numbers.has("rope.scaling.yarn_log_multiplier") or numbers.real("rope.scaling.attn_factor", 1.0) != 1.0:
        raise numbers.fault("YaRN with a factor of its own on the scores is not read")
    betas = {name: numbers.real(f"rope.scaling.yarn_{name}", value) for name, value in _BETAS.items()}
    original = numbers.count("rope.scaling.original_context_length")
    factor = numbers.real("rope.scaling.factor")
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **betas}


_BETAS = {"beta_fast": 32.0, "beta_slow": 1.0}
_KINDS: Mapping[str, Callable[[Numbers], Scaling]] = {"none": _default, "linear": _linear, "yarn": _yarn}


def _long(numbers: Numbers, rotated: int) -> Scaling:
    """Phi-3's two tables of factors, for short texts and for long ones."""
    tables = {
        "long_factor": _factors(numbers, LONG, rotated).tolist(),
        "short_factor": _factors(numbers, SHORT, rotated).tolist(),
    }
    original = numbers.count("rope.scaling.original_context_length")
    stated = numbers.has("rope.scaling.attn_factor")
    attention = {"attention_factor": numbers.real("rope.scaling.attn_factor")} if stated else {}
    return {"rope_type": "longrope", "original_max_position_embeddings": original, **tables, **attention}


def _llama3(numbers: Numbers, base: float, factors: NDArray[np.float32], rotated: int) -> Scaling:
    low, high, original = _LLAMA3
    factor = float(factors.max())
    if factor == 1.0 and factors.min() == 1.0:
        return {"rope_type": "default"}
    if not np.allclose(factors, _expected(factor, base, rotated), rtol=_SAME):
        raise numbers.fault(f"the factors of frequencies in {FACTORS} are not those of Llama 3's scaling")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }


def _expected(factor: float, base: float, rotated: int) -> NDArray[np.float64]:
    """What llama.cpp's converter computes from the settings of Llama 3."""
    low, high, original = _LLAMA3
    turns = original * base ** (-np.arange(0, rotated, 2, dtype=np.float64) / rotated) / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)


def _factors(numbers: Numbers, name: str, rotated: int) -> NDArray[np.float32]:
    tensor = numbers.file.tensors.get(name)
    if tensor is None or tensor.shape != (rotated // 2,):
        raise numbers.fault(f"{name} is {'absent' if tensor is None else f'of shape {tensor.shape}'}")
    values = float_values(tensor)
    if not np.isfinite(values).all() or values.min() <= 0:
        raise numbers.fault(f"{name} holds factors that are not above 0")
    return values
