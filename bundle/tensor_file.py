"""A safetensors file from outside, read whole: every size, offset and name is checked before it is used.

Format: 8 bytes little-endian header length, a JSON object, then the tensors' bytes without gaps
(https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from edgec.bundle.limited_json import limited_bytes, parse_json
from edgec.bundle.part import JsonCount

METADATA = "__metadata__"
_LENGTH_BYTES = 8
_MOST_BYTES, _MOST_HEADER, _MOST_TENSORS = 1 << 32, 16 << 20, 1 << 16
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    dtype: str
    shape: Annotated[list[JsonCount], Field(max_length=8)]
    data_offsets: Annotated[list[JsonCount], Field(min_length=2, max_length=2)]


_ENTRIES = TypeAdapter(dict[str, _Entry])
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
    length = int.from_bytes(raw[:_LENGTH_BYTES], "little")
    if length > min(_MOST_HEADER, len(raw) - _LENGTH_BYTES):
        raise ValueError(f"its header would have {length:,} bytes, more than the file or the limit of {_MOST_HEADER:,}")
    header = parse_json(bytes(raw[_LENGTH_BYTES : _LENGTH_BYTES + length]))
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    metadata = _TEXTS.validate_python(header.pop(METADATA, {}))
    entries = _ENTRIES.validate_python(header)
    data = raw[_LENGTH_BYTES + length :]
    _check_places(entries, len(data))
    return TensorFile(metadata, {name: _tensor(name, entry, data) for name, entry in entries.items()})


def _check_places(entries: Mapping[str, _Entry], size: int) -> None:
    """The tensors lie one after the other and fill the file."""
    if len(entries) > _MOST_TENSORS:
        raise ValueError(f"it has {len(entries):,} tensors, more than {_MOST_TENSORS:,}")
    places = sorted(entry.data_offsets for entry in entries.values())
    bounds = [[0, 0], *places, [size, size]]
    if any(end != begin for (_, end), (begin, _) in pairwise(bounds)):
        raise ValueError(f"its tensors do not fill its {size:,} bytes of data one after the other")


def _tensor(name: str, entry: _Entry, data: memoryview) -> FloatTensor:
    if entry.dtype not in _BYTES:
        raise ValueError(f"{name} has the dtype {entry.dtype[:20]}; known are {', '.join(_BYTES)}")
    begin, end = entry.data_offsets
    if end - begin != prod(entry.shape) * _BYTES[entry.dtype]:
        raise ValueError(f"{name} has {end - begin:,} bytes, which its shape {entry.shape} does not ask for")
    return FloatTensor(entry.dtype, tuple(entry.shape), data[begin:end])


def tensor_file_bytes(file: TensorFile) -> list[bytes | memoryview]:
    """A file's bytes in pieces; the data begins at a multiple of 8 bytes."""
    assert sys.byteorder == "little"
    header: dict[str, Any] = {METADATA: dict(file.metadata)}
    end = 0
    for name, tensor in file.tensors.items():
        begin, end = end, end + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    length = len(text).to_bytes(_LENGTH_BYTES, "little")
    return [length, text, *(tensor.data for tensor in file.tensors.values())]
