"""Matrices that transformers saves of torchao's tensors of unpacked integers.

    _weight_qdata       int8 [N, K]     integers around 0, of as many bits as the file's metadata says
    _weight_scale       float [N, G]
    _weight_zero_point  int8 [N, G]

A value is scale * (integer - zero point). Of torchao's tensors these are IntxUnpackedToInt8Tensor and Int8Tensor;
packed ones have other layouts on every device. Source: torchao ``prototype/safetensors``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from edgec.exporter.sources.packed.faults import bad_tensors, unread_method
from edgec.exporter.sources.packed.integer_groups import IntegerGroups, whole_groups
from edgec.exporter.sources.packed.parts import FLOATS, Parts, entries_of, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, integer_tensor
from edgec.ir.row_tensor import ChosenRows
from edgec.ir.stored_forms import TORCHAO, PackedForm

_CODES, _SCALE, _ZERO = "_weight_qdata", "_weight_scale", "_weight_zero_point"
_READ = ("IntxUnpackedToInt8Tensor", "Int8Tensor", "Tensor")
_WIDTH = re.compile(r"int([2-8])")


def torchao_tensors(weights: FileWeights) -> dict[str, PackedTensor]:
    """The quantised matrices of a checkpoint by parameter.

    Raises:
        InputError: E814, tensors of a kind that is not read; E816, E818, what is stored contradicts itself.
    """
    stated = {name: entry for file in weights.files for name, entry in _stated(file).items()}
    for name, entry in stated.items():
        if entry.get("_type") not in _READ:
            raise unread_method(weights.files[0], f"torchao as {str(entry.get('_type'))[:40]} ({name[:60]})")
    found = modules_with(weights, _CODES)
    return {parts.parameter: _tensor(parts, _bits(stated.get(parts.parameter, {}))) for parts in found}


def _tensor(parts: Parts, bits: int) -> PackedTensor:
    rows, width = parts.entry(_CODES, (torch.int8,)).shape
    count = parts.entry(_SCALE, FLOATS).shape[1]
    if width % count:
        raise bad_tensors(f"{parts.module}.{_SCALE}", f"{count} groups do not divide {width} columns")
    scale = parts.shaped(_SCALE, FLOATS, (rows, count))
    stored = parts.shaped(_ZERO, (torch.int8,), (rows, count)) if parts.has(_ZERO) else None
    half = 1 << bits - 1
    zero = None if stored is None or not bool(stored.any()) else stored.to(torch.int16) + half
    read = partial(_codes, parts, 0 if zero is None else half)
    integers = IntegerGroups(parts.parameter, read, scale, zero, whole_groups(width, width // count), bits)
    return integer_tensor(
        entries_of(parts), parts.names(_CODES, _SCALE, _ZERO), integers, PackedForm.of(TORCHAO, bits, zero is None)
    )


def _codes(parts: Parts, half: int, rows: ChosenRows) -> torch.Tensor:
    """Integers around 0, or from 0 on: int8, of 8 bits from 0 on uint8."""
    codes = parts.tensor(_CODES)[rows]
    return (codes.view(torch.uint8) + half if half == 128 else codes + half) if half else codes


def _bits(entry: Mapping[str, Any]) -> int:
    """The bits of a tensor's integers by the metadata; 8 where it does not say."""
    kind = entry.get("_data", {}).get("target_dtype", {})
    match = _WIDTH.fullmatch(str(kind.get("_data", ""))) if isinstance(kind, Mapping) else None
    return int(match[1]) if match else 8


def _stated(file: Path) -> dict[str, Mapping[str, Any]]:
    """What a file's metadata says of its tensors; what cannot be read is left out."""
    from safetensors import safe_open

    if file.suffix != ".safetensors":
        return {}
    with safe_open(file, "pt") as stored:
        metadata = stored.metadata() or {}
    found: dict[str, Mapping[str, Any]] = {}
    for name, text in metadata.items():
        try:
            entry = json.loads(text) if text.startswith("{") else None
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and "_type" in entry:
            found[name] = {**entry, "_data": entry["_data"] if isinstance(entry.get("_data"), dict) else {}}
    return found
