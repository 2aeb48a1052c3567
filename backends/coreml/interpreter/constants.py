"""Constants as tensors: read, decompressed and kept at their first use, once for all functions of a package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.blob import WeightFile, decoded
from edgec.backends.coreml.interpreter.element_types import ElementType
from edgec.backends.coreml.interpreter.graph import Constant, Immediate, StoredConstant, ValueType
from edgec.backends.coreml.interpreter.operators.compression import DECOMPRESSIONS
from edgec.backends.coreml.interpreter.proto import messages

Value = Tensor | str | list[str]


class Constants:
    """All constants of one package; functions that share a weight share its tensor."""

    def __init__(self, weights: Path) -> None:
        """Prepare to read ``weights``, the package's folder of weight files; nothing is read yet."""
        self._folder = weights
        self._files: dict[str, WeightFile] = {}
        self._values: dict[Constant, Any] = {}

    def value(self, constant: Constant) -> Value:
        """A constant's value; a compressed weight in the dtype that it decompresses to.

        Raises:
            InputError: E421, its bytes are not in the package.
        """
        if constant not in self._values:
            self._values[constant] = self._made(constant)
        result: Value = self._values[constant]
        return result

    def open_files(self) -> None:
        """Map every weight file of the folder; nothing is read yet."""
        for path in sorted(self._folder.glob("*")) if self._folder.exists() else ():
            self._file(path.name)

    def held_bytes(self) -> int:
        """The number of bytes in the tensors made so far."""
        tensors = {v.data_ptr(): v.numel() * v.element_size() for v in self._values.values() if isinstance(v, Tensor)}
        return sum(tensors.values())

    def _made(self, constant: Constant) -> Value:
        if isinstance(constant, StoredConstant):
            element, shape = _known(constant.type)
            return decoded(self._file(constant.file).bytes_at(constant.offset), element, shape)
        if isinstance(constant, Immediate):
            return immediate(constant)
        # Parameters are used by this weight alone, so they are not kept.
        inputs = {name: self._made(value) for name, value in constant.inputs}
        result = DECOMPRESSIONS[constant.operator](**inputs)
        made: Value = result[constant.index] if isinstance(result, tuple) else result
        return made

    def _file(self, name: str) -> WeightFile:
        if name not in self._files:
            self._files[name] = WeightFile(self._folder / name)
        return self._files[name]


def immediate(constant: Immediate) -> Value:
    """The value of a constant that the program itself holds."""
    value = messages("MIL_pb2").Value.FromString(constant.message)
    kind = value.immediateValue.WhichOneof("value")
    if kind == "list":
        return [str(item.immediateValue.tensor.strings.values[0]) for item in value.immediateValue.list.values]
    tensor = value.immediateValue.tensor
    field = tensor.WhichOneof("value")
    values: Any = getattr(tensor, field).values if field else []
    if constant.type.element is None:
        return str(values[0])
    element, shape = _known(constant.type)
    if field == "bytes":
        return decoded(np.frombuffer(values, dtype=np.uint8), element, shape)
    return torch.tensor(list(values), dtype=element.held).reshape(shape)


def _known(kind: ValueType) -> tuple[ElementType, tuple[int, ...]]:
    """A constant's element type and shape; constants of text do not come here."""
    assert kind.element is not None
    return kind.element, tuple(int(size) for size in kind.shape if size is not None)
