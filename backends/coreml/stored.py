"""The bytes of a Core ML package: the program, and every run of constant bytes with its tensor's name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgec.backends.coreml.interpreter.blob import WeightFile
from edgec.backends.coreml.interpreter.element_types import BY_NUMBER
from edgec.backends.coreml.interpreter.proto import WEIGHT_FOLDER, read_spec
from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes

PLACE = "Core ML weights"


def package_layout(package: Path) -> ArtifactLayout:
    """Split the bytes of a .mlpackage into program, weights and padding.

    Args:
        package: the folder.

    Raises:
        InputError: E421, it is not a package.
    """
    files = {path: path.stat().st_size for path in package.rglob("*") if path.is_file()}
    runs = tuple(_runs(package))
    weights = sum(size for path, size in files.items() if path.is_relative_to(package / WEIGHT_FOLDER))
    stored = sum(run.bytes for run in runs)
    total = sum(files.values())
    return ArtifactLayout(total, total - weights, 0, weights - stored, runs)


def _runs(package: Path) -> Iterator[StoredBytes]:
    """List each stored record once, however many functions read it."""
    files: dict[str, WeightFile] = {}
    seen: set[tuple[str, int]] = set()
    for function in read_spec(package).mlProgram.functions.values():
        for operation in function.block_specializations[function.opset].operations:
            for value in _values(operation):
                reference = value.blobFileValue
                key = (reference.fileName, reference.offset)
                if key not in seen:
                    seen.add(key)
                    file = reference.fileName.rsplit("/", 1)[-1]
                    held = files.setdefault(file, WeightFile(package / WEIGHT_FOLDER / file))
                    yield _stored(str(operation.outputs[0].name), value, held, reference.offset)


def _values(operation: Any) -> Iterator[Any]:
    """The values of an operation that lie in a weight file."""
    bound = (binding.value for argument in operation.inputs.values() for binding in argument.arguments)
    for value in (*operation.attributes.values(), *bound):
        if value.WhichOneof("value") == "blobFileValue":
            yield value


def _stored(name: str, value: Any, file: WeightFile, offset: int) -> StoredBytes:
    raw = file.bytes_at(offset)
    kind = value.type.tensorType
    shape = tuple(int(d.constant.size) for d in kind.dimensions)
    element = BY_NUMBER.get(kind.dataType)
    digest = hashlib.sha256(raw.tobytes()).hexdigest()
    dtype = element.name if element else ""
    return StoredBytes(
        f"{name}@{offset}", PLACE, raw.nbytes, digest, dtype, shape, fill=_is_fill(raw, math.prod(shape))
    )


def _is_fill(raw: NDArray[np.uint8], count: int) -> bool:
    """Whether all of ``count`` values are the same."""
    values = raw.reshape(count, -1) if count and raw.size % count == 0 else raw.reshape(-1, 1)
    return all(bool((part == values[0]).all()) for part in (values[:64], values)) if values.size else False
