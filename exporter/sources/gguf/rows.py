"""The values of a GGUF tensor, from the mapped file, dequantised by the ``gguf`` package some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.gguf_faults import gguf_error
from edgec.bundle.gguf_header import GgufTensor
from edgec.bundle.gguf_values import shortened

PackedRows = NDArray[np.uint8]
# Values that are dequantised at a time: several arrays of that many are made on the way.
_AT_ONCE = 1 << 21


def raw_rows(tensor: GgufTensor) -> NDArray[np.uint8]:
    """The stored bytes [rows, bytes of a row], a view of the mapped file; a vector is one row."""
    rows = prod(tensor.shape[:-1])
    return np.memmap(tensor.file, np.uint8, "r", tensor.offset, (rows, tensor.nbytes // rows))


def float_rows(tensor: GgufTensor) -> Iterator[NDArray[np.float32]]:
    """All rows in order, in float32, a few million values at a time.

    Raises:
        InputError: E812, a value is infinite or not a number.
    """
    raw, step = raw_rows(tensor), max(1, _AT_ONCE // tensor.shape[-1])
    for first in range(0, len(raw), step):
        rows = dequantized_rows(tensor, raw[first : first + step])
        check_finite(tensor, bool(np.isfinite(rows).all()))
        yield rows


def dequantized_rows(tensor: GgufTensor, raw: PackedRows) -> NDArray[np.float32]:
    """Some of a tensor's rows in float32, from their bytes [rows, bytes of a row]."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    # A broken scale is found by who checks the result, and numpy's remark on it says less.
    with np.errstate(all="ignore"):
        rows: NDArray[np.float32] = dequantize(np.ascontiguousarray(raw), GGMLQuantizationType[tensor.type])
    return rows


def float_values(tensor: GgufTensor) -> NDArray[np.float32]:
    """A whole tensor in float32, in its shape. Raises E812."""
    values = np.empty((prod(tensor.shape[:-1]), tensor.shape[-1]), np.float32)
    first = 0
    for rows in float_rows(tensor):
        values[first : first + len(rows)] = rows
        first += len(rows)
    return values.reshape(tensor.shape)


def check_finite(tensor: GgufTensor, finite: bool) -> None:
    """Raise E812 unless all values of a tensor are finite."""
    if not finite:
        raise gguf_error(
            "E812",
            tensor.file,
            "A tensor holds values that are infinite or not numbers.",
            f"{shortened(tensor.name)}, of type {tensor.type}",
            "Download or copy the file again; if it is as published, the model was damaged when it was quantised.",
        )
