"""Write a GGUF file tensor by tensor with the ``gguf`` package, and say where its bytes lie.

    metadata, tensors (name, type, shape, bytes when asked) -> header -> table -> one tensor's bytes after the other

Other programs run the file, llama.cpp first of all; nothing in edgec does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.gguf_header import GgufTensor, read_gguf_header
from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes
from edgec.errors import ToolError
from edgec.ir.static_methods import Methods

EXECUTED_BY = "read back from the file, and run by transformers in float32"
DATA = "tensor data"
_HASHED = 1 << 22
Describe = Callable[[Any], None]
"""Tells a ``gguf.GGUFWriter`` the metadata."""


Report = Callable[[int, int], None]
"""Told how many tensors of how many are written."""


@dataclass(frozen=True)
class FileTensor:
    """A tensor on its way into a file.

    Attributes:
        name: there.
        type: GGUF's name of its type.
        shape: rows first.
        data: makes its bytes, uint8 [rows, bytes of a row] or [bytes], when they are written.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    data: Callable[[], NDArray[np.uint8]]


def type_bytes(kind: str, shape: Sequence[int]) -> int:
    """The bytes of a tensor in a type."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return prod(shape) // values * size


def write_file(
    path: Path, architecture: str, describe: Describe, tensors: Iterable[FileTensor], report: Report
) -> None:
    """Write a file; each tensor's bytes exist only while they are written.

    Args:
        path: of the file.
        architecture: GGUF's name of it.
        describe: adds the metadata.
        tensors: in the order of the file.
        report: told of progress.
    """
    from gguf import GGUFWriter
    from gguf.constants import GGMLQuantizationType

    writer, written = GGUFWriter(path, architecture), list(tensors)
    describe(writer)
    for tensor in written:
        kind = GGMLQuantizationType[tensor.type]
        # A dtype of numbers, so that the writer takes the shape as it is.
        size = type_bytes(tensor.type, tensor.shape)
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for done, tensor in enumerate(written):
        report(done, len(written))
        writer.write_tensor_data(np.ascontiguousarray(tensor.data()))
    writer.close()


def layout(path: Path) -> ArtifactLayout:
    """Where the file's bytes lie."""
    header, size = read_gguf_header(path), path.stat().st_size
    runs = tuple(_stored(path, tensor) for tensor in header.tensors)
    begin = min((tensor.offset for tensor in header.tensors), default=size)
    return ArtifactLayout(size, begin, 0, size - begin - sum(run.bytes for run in runs), runs)


def _stored(path: Path, tensor: GgufTensor) -> StoredBytes:
    digest, data = hashlib.sha256(), np.memmap(path, np.uint8, "r", tensor.offset, (tensor.nbytes,))
    for start in range(0, tensor.nbytes, _HASHED):
        digest.update(data[start : start + _HASHED].tobytes())
    return StoredBytes(tensor.name, DATA, tensor.nbytes, digest.hexdigest(), tensor.type, tensor.shape)


def execute(path: Path) -> Methods:
    """Refuse: other programs run GGUF files.

    Raises:
        ToolError: E824.
    """
    raise ToolError(
        "edgec does not run GGUF files.",
        where=str(path),
        why="the file is for llama.cpp and programs built on it",
        fix="llama-cli -m BUNDLE/model.gguf; export with --target host and without --format for edgec's own engine",
        code="E824",
    )
