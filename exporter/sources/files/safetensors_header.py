"""The tensors of a safetensors file of weights, by its header alone, which ``bundle/safetensors_header.py`` checks."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from edgec.bundle.safetensors_header import LENGTH_BYTES, METADATA, header_entries, header_length
from edgec.errors import InputError

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
_ITEM_BYTES = {name: dtype.itemsize for name, dtype in DTYPES.items()}


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
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        size = status.st_size
        with file.open("rb") as stream:
            length = header_length(stream.read(LENGTH_BYTES), size, _HEADER_LIMIT)
            header = _parse(stream.read(length))
        entries = header_entries(header, _ITEM_BYTES, LENGTH_BYTES + length, size)
    except OSError as error:
        raise InputError(
            what="A weight file cannot be read.",
            where=str(file),
            why=error.strerror or str(error),
            fix="Check that the file exists and that you may read it.",
            code="E105",
        ) from error
    except ValueError as error:
        raise corrupt(file, str(error)) from error
    return {name: TensorEntry(DTYPES[each.dtype], each.shape, file, each.begin) for name, each in entries.items()}


def corrupt(file: Path, why: str) -> InputError:
    """The error for a weight file that contradicts itself."""
    return InputError(
        what="A weight file is truncated or corrupt.",
        where=str(file),
        why=why,
        fix="Download or copy the file again and compare its size and sha256 with the source.",
        code="E105",
    )


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    header.pop(METADATA, None)
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table
