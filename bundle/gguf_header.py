"""The header of a GGUF file: what is claimed there is held against the file before any library sees it.

    magic "GGUF", version u32, tensors u64, metadata u64 | metadata: key, type, value | tensors: name, dimensions
    (fastest first), type, offset u64 | padding to the alignment | data

Source of the layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The ``gguf`` package's own reader makes
several arrays of numpy for each token: with a vocabulary of 262,144 tokens and merges it took 28 s and 1.1 GB, this one
1.3 s and 0.1 GB. A test holds one against the other; sizes of blocks are the package's.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from edgec.bundle.gguf_faults import copy_again, gguf_error
from edgec.bundle.gguf_values import MOST_HEADER_BYTES, Cursor, shortened
from edgec.errors import InputError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_FIXED_BYTES = 24
_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT, _MOST_ALIGNMENT = "general.alignment", 32, 1 << 16
# ggml's own limits on names and dimensions; keys are at most 65,535 bytes long by the format.
_MOST_NAME, _MOST_KEY, _MOST_DIMENSIONS = 63, 65_535, 4
_MOST_KEYS, _MOST_TENSORS, _MOST_VALUES = 1 << 14, 1 << 17, 1 << 48
READ_TYPES = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"),
)


@dataclass(frozen=True)
class GgufTensor:
    """One stored tensor.

    Attributes:
        name: as stored.
        type: one of ``READ_TYPES``.
        shape: rows first, as torch has it; the last dimension lies together in memory.
        file: the file that holds it.
        offset: its first byte in the file.
        nbytes: its bytes there.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GgufHeader:
    """One file's metadata by key, and its tensors in the order of its table."""

    file: Path
    metadata: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]


def read_gguf_header(file: Path) -> GgufHeader:
    """Read and check a file's header; nothing of the tensors' data is read.

    Raises:
        InputError: E800 (not such a file), E801 (version, byte order), E802 (it ends too early, impossible counts),
            E803 (metadata), E804 (alignment), E805 (table of tensors), E806 (type of a tensor) or E807 (its place).
    """
    try:
        with file.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size < len(MAGIC):
                raise _not_gguf(file, f"it is {status.st_size:,} bytes long")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(file, data, status.st_size)
    except OSError as error:
        raise _not_gguf(file, error.strerror or str(error)) from error


def is_gguf(file: Path) -> bool:
    """Whether a regular file is named so, or begins so."""
    if file.suffix.lower() == ".gguf":
        return True
    try:
        with file.open("rb") as stream:
            return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _read(file: Path, data: mmap.mmap, size: int) -> GgufHeader:
    if data[: len(MAGIC)] != MAGIC:
        raise _not_gguf(file, f"it begins with {data[: len(MAGIC)]!r} instead of {MAGIC!r}")
    cursor = Cursor(data, len(MAGIC), min(size, MOST_HEADER_BYTES), _fault(file, "E802"))
    _check_version(file, cursor.number("I"))
    tensors, keys = cursor.number("Q"), cursor.number("Q")
    if tensors > min(_MOST_TENSORS, size) or keys > min(_MOST_KEYS, size):
        raise cursor.fault(f"{tensors:,} tensors and {keys:,} metadata entries are claimed in {size:,} bytes")
    cursor.fault = _fault(file, "E803")
    metadata = _metadata(cursor, keys)
    alignment = _alignment(file, metadata)
    cursor.fault = _fault(file, "E805")
    table = [_row(cursor, file) for _ in range(tensors)]
    begin = cursor.at + -cursor.at % alignment
    placed = tuple(replace(tensor, offset=begin + tensor.offset) for tensor in table)
    _check_names(file, placed)
    _check_places(file, placed, begin, size, alignment)
    return GgufHeader(file, metadata, placed)


def _check_version(file: Path, version: int) -> None:
    if version in _VERSIONS:
        return
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    big = "the file is big-endian" if swapped in _VERSIONS else f"it is of version {version}"
    fix = "Convert the model again with a current llama.cpp on a little-endian machine."
    raise gguf_error("E801", file, "The GGUF file is of a version or byte order that edgec does not read.", big, fix)


def _metadata(cursor: Cursor, keys: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = cursor.text(_MOST_KEY)
        if key in metadata:
            raise cursor.fault(f"{shortened(key)} occurs twice")
        metadata[key] = cursor.value(key)
    return metadata


def _alignment(file: Path, metadata: Mapping[str, Any]) -> int:
    value = metadata.get(_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT)
    if type(value) is not int or not 0 < value <= _MOST_ALIGNMENT or value & (value - 1):
        raise _fault(file, "E804")(f"{_ALIGNMENT_KEY} is {str(value)[:40]}, not a power of two up to {_MOST_ALIGNMENT}")
    return value


def _row(cursor: Cursor, file: Path) -> GgufTensor:
    """A row of the table of tensors; its offset counts from the beginning of the data."""
    name, count = cursor.text(_MOST_NAME), cursor.number("I")
    if not 1 <= count <= _MOST_DIMENSIONS:
        raise cursor.fault(f"tensor {shortened(name)} has {count:,} dimensions")
    shape = cursor.numbers("Q", count)[::-1]
    if min(shape) < 1 or prod(shape) > _MOST_VALUES:
        raise cursor.fault(f"tensor {shortened(name)} has the shape {shape}")
    kind, offset = _known_type(file, name, cursor.number("I")), cursor.number("Q")
    values, size = _blocks()[kind]
    if shape[-1] % values:
        raise cursor.fault(f"tensor {shortened(name)} is {shape[-1]} wide, not a multiple of {kind}'s {values}")
    return GgufTensor(name, kind, shape, file, offset, prod(shape) // values * size)


def _known_type(file: Path, name: str, number: int) -> str:
    known = _type_names().get(number)
    if known in READ_TYPES:
        return known
    raise gguf_error(
        "E806",
        file,
        "A tensor is of a type that edgec does not read.",
        f"{shortened(name)} is of type {known or f'number {number}'}; read are {', '.join(READ_TYPES)}",
        "Take a file in one of those types (Q4_K_M and Q8_0 are common), or quantise the model again.",
    )


def _check_names(file: Path, tensors: tuple[GgufTensor, ...]) -> None:
    names: set[str] = set()
    for tensor in tensors:
        if tensor.name in names:
            raise _fault(file, "E805")(f"tensor {shortened(tensor.name)} occurs twice")
        names.add(tensor.name)


def _check_places(file: Path, tensors: tuple[GgufTensor, ...], begin: int, size: int, alignment: int) -> None:
    fault = _fault(file, "E807")
    for tensor in tensors:
        end = tensor.offset + tensor.nbytes
        if (tensor.offset - begin) % alignment:
            raise fault(f"{shortened(tensor.name)} begins at byte {tensor.offset:,}, no multiple of {alignment}")
        if end > size:
            raise fault(f"{shortened(tensor.name)} would end at byte {end:,}; the file has {size:,}")
    for one, other in pairwise(sorted(tensors, key=lambda tensor: tensor.offset)):
        if one.offset + one.nbytes > other.offset:
            raise fault(f"{shortened(one.name)} and {shortened(other.name)} lie in the same bytes")


@cache
def _type_names() -> Mapping[int, str]:
    from gguf.constants import GGMLQuantizationType

    return {int(kind): kind.name for kind in GGMLQuantizationType}


@cache
def _blocks() -> Mapping[str, tuple[int, int]]:
    """Values and bytes of a block of each type, by its name."""
    from gguf.constants import GGML_QUANT_SIZES

    return {kind.name: sizes for kind, sizes in GGML_QUANT_SIZES.items()}


def _fault(file: Path, code: str) -> Callable[[str], InputError]:
    return lambda why: copy_again(code, file, why)


def _not_gguf(file: Path, why: str) -> InputError:
    return gguf_error("E800", file, "The file is not a GGUF file.", why, "Check the path; download or copy it again.")
