"""Read the header of a safetensors file, and check everything in it.

Format: 8 bytes little-endian header length, a JSON object, then the tensors' bytes without gaps
(https://huggingface.co/docs/safetensors). Every size and offset is checked against the file before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from edgec.errors import InputError

_LENGTH_BYTES = 8
# The limit of the reference implementation; real headers stay far below it.
_HEADER_LIMIT = 100_000_000
DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class TensorEntry:
    """The dtype, shape and place of one stored tensor.

    Attributes:
        dtype: its stored dtype.
        shape: its stored shape.
        file: the file that holds it, or None for generated tensors.
        offset: its first byte in the file.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    file: Path | None = None
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """The tensor's size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def read_header(file: Path) -> dict[str, TensorEntry]:
    """The tensors of a safetensors file, by name; only the header is read.

    Raises:
        InputError: E105, the file is unreadable, truncated or its header contradicts it.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = _header_length(file, stream.read(_LENGTH_BYTES), size)
            text = stream.read(length)
    except OSError as error:
        raise InputError(
            what="A weight file cannot be read.",
            where=str(file),
            why=error.strerror or str(error),
            fix="Check that the file exists and that you may read it.",
            code="E105",
        ) from error
    return _entries(file, _parse(file, text), _LENGTH_BYTES + length, size)


def corrupt(file: Path, why: str) -> InputError:
    """The error for a weight file that contradicts itself."""
    return InputError(
        what="A weight file is truncated or corrupt.",
        where=str(file),
        why=why,
        fix="Download or copy the file again and compare its size and sha256 with the source.",
        code="E105",
    )


def _header_length(file: Path, prefix: bytes, size: int) -> int:
    if len(prefix) < _LENGTH_BYTES:
        raise corrupt(file, f"a header needs {_LENGTH_BYTES} bytes, the file has {size}")
    length = int.from_bytes(prefix, "little")
    if length > _HEADER_LIMIT:
        raise corrupt(file, f"the header claims {length} bytes, more than the format allows ({_HEADER_LIMIT})")
    if _LENGTH_BYTES + length > size:
        raise corrupt(file, f"expected at least {_LENGTH_BYTES + length} bytes for the header, the file has {size}")
    return length


def _parse(file: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise corrupt(file, f"the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise corrupt(file, "the header is not a JSON object")
    header.pop("__metadata__", None)
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _entries(file: Path, header: Mapping[str, Any], data: int, size: int) -> dict[str, TensorEntry]:
    entries = {name: _entry(file, name, raw, data) for name, raw in header.items()}
    position = data
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if entry.offset != position:
            kind = "overlaps" if entry.offset < position else "leaves a gap after"
            raise corrupt(file, f"tensor {name!r} {kind} its predecessor (byte {entry.offset}, expected {position})")
        position += entry.nbytes
    if position != size:
        raise corrupt(file, f"expected {position} bytes, the file has {size}")
    return entries


def _entry(file: Path, name: str, raw: object, data: int) -> TensorEntry:
    if not isinstance(raw, dict) or set(raw) != {"dtype", "shape", "data_offsets"}:
        raise corrupt(file, f"the header's entry for {name!r} is malformed")
    dtype = DTYPES.get(raw["dtype"]) if isinstance(raw["dtype"], str) else None
    if dtype is None:
        raise corrupt(file, f"tensor {name!r} has an unknown dtype {raw['dtype']!r}")
    shape, offsets = _naturals(raw["shape"]), _naturals(raw["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        raise corrupt(file, f"tensor {name!r} has a malformed shape or offset")
    entry = TensorEntry(dtype, shape, file, data + offsets[0])
    if offsets[1] - offsets[0] != entry.nbytes:
        held = offsets[1] - offsets[0]
        raise corrupt(file, f"tensor {name!r} needs {entry.nbytes} bytes for its shape, the header gives it {held}")
    return entry


def _naturals(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    good = all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**63 for item in value)
    return tuple(value) if good else None
