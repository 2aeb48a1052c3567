"""A safetensors file of float tensors from outside, read whole once its header was checked, or written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.safetensors_header import LENGTH_BYTES, METADATA, HeaderEntry, header_entries, header_length

_MOST_BYTES, _MOST_HEADER, _MOST_TENSORS = 1 << 32, 16 << 20, 1 << 16
_MOST_RANK, _MOST_SIZE = 8, 1 << 53
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_TEXTS = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class FloatTensor:
    """A stored tensor: ``dtype`` as safetensors names it, ``F32``, ``F16`` or ``BF16``; ``data``: its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    def floats(self) -> NDArray[np.float32]:
        """The values, float32 of the tensor's shape."""
        if self.dtype == "F32":
            return np.frombuffer(self.data, "<f4").reshape(self.shape)
        if self.dtype == "F16":
            return np.frombuffer(self.data, "<f2").astype(np.float32).reshape(self.shape)
        return (np.frombuffer(self.data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(self.shape)


@dataclass(frozen=True)
class TensorFile:
    """What a file holds: its metadata and its tensors by name."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, FloatTensor]


def read_tensor_file(path: Path) -> TensorFile:
    """Read a file of float tensors.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, its header contradicts it, or a tensor has another dtype.
    """
    raw = memoryview(limited_bytes(path, _MOST_BYTES))
    length = header_length(bytes(raw[:LENGTH_BYTES]), len(raw), _MOST_HEADER)
    data = LENGTH_BYTES + length
    header = parse_json(bytes(raw[LENGTH_BYTES:data]))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    metadata = _metadata(header.pop(METADATA, {}))
    if len(header) > _MOST_TENSORS:
        raise ValueError(f"it has {len(header):,} tensors, more than {_MOST_TENSORS:,}")
    entries = header_entries(header, _ITEM_BYTES, data, len(raw))
    return TensorFile(metadata, {name: _tensor(name, entry, raw) for name, entry in entries.items()})


def _metadata(told: object) -> dict[str, str]:
    try:
        return _TEXTS.validate_python(told)
    except ValidationError as error:
        raise ValueError(f"its metadata: {first_fault(error)}") from error


def _tensor(name: str, entry: HeaderEntry, raw: memoryview) -> FloatTensor:
    if len(entry.shape) > _MOST_RANK or max(entry.shape, default=0) > _MOST_SIZE:
        raise ValueError(f"{name} has more than {_MOST_RANK} dimensions, or one above {_MOST_SIZE:,}")
    return FloatTensor(entry.dtype, entry.shape, raw[entry.begin : entry.end])


def tensor_file_bytes(file: TensorFile) -> list[bytes | memoryview]:
    """A file's bytes in pieces; the data begins at a multiple of 8 bytes."""
    assert sys.byteorder == "little"
    header: dict[str, Any] = {METADATA: dict(file.metadata)}
    end = 0
    for name, tensor in file.tensors.items():
        begin, end = end, end + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    length = len(text).to_bytes(LENGTH_BYTES, "little")
    return [length, text, *(tensor.data for tensor in file.tensors.values())]
