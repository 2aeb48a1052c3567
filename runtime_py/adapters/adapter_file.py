"""The file of an adapter: low-rank changes of a bundle's matrices, bound to the sha256 of the bundle's artifact.

A safetensors file: ``NAME.lora_A`` [rank, width] and ``NAME.lora_B`` [rows, rank] of every module, as PEFT trained
them, and metadata: format, the artifact's sha256, each module's key, rank, alpha and scale, a checksum over all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from edgec.bundle.atomic import write_file
from edgec.bundle.limited_json import first_fault, parse_json
from edgec.bundle.part import JsonPart, Sha256
from edgec.bundle.tensor_file import FloatTensor, TensorFile, read_tensor_file, tensor_file_bytes
from edgec.errors import InputError

FORMAT = "edgec-adapter-1"
MOST_RANK = 4096
_A, _B, _CHECKSUM = ".lora_A", ".lora_B", "checksum"


class AdapterModule(JsonPart):
    """A module that an adapter changes: y += scale * B (A x).

    ``key``: of its matrix in the artifact; ``scale``: alpha / rank, or alpha / sqrt(rank) with PEFT's use_rslora.
    """

    name: str
    key: Sha256
    rank: Annotated[int, Field(ge=1, le=MOST_RANK)]
    alpha: float
    scale: float


class _AdapterMetadata(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["edgec-adapter-1"]
    base: Sha256
    trained_on: str
    modules: str
    checksum: Sha256


_MODULES = TypeAdapter(list[AdapterModule])


@dataclass(frozen=True)
class MatrixChange:
    """What one module's matrix is changed by: y += scale * b (a x), ``a`` [rank, width], ``b`` [rows, rank]."""

    key: str
    a: FloatTensor
    b: FloatTensor
    scale: float


@dataclass(frozen=True, eq=False, repr=False)
class Adapter:
    """An adapter of one bundle's artifact, in memory.

    Attributes:
        base: sha256 (hex) of the artifact that it belongs to.
        trained_on: the model that PEFT's folder names; empty where it names none.
        modules: what it changes.
        tensors: ``NAME.lora_A`` and ``NAME.lora_B`` of each module.
        digest: sha256 (hex) over everything; a KV state under one adapter is never continued under another.
    """

    base: str
    trained_on: str
    modules: tuple[AdapterModule, ...]
    tensors: Mapping[str, FloatTensor]
    digest: str

    def __repr__(self) -> str:
        ranks = "/".join(map(str, sorted({module.rank for module in self.modules})))
        return f"<edgec Adapter {self.digest[:12]}: {len(self.modules)} modules, rank {ranks}>"

    @property
    def bytes(self) -> int:
        """The bytes of its matrices as stored."""
        return sum(len(tensor.data) for tensor in self.tensors.values())

    @property
    def changes(self) -> tuple[MatrixChange, ...]:
        """The changes of the artifact's matrices, as they are stored."""
        return tuple(map(self._change, self.modules))

    def _change(self, module: AdapterModule) -> MatrixChange:
        a, b = (self.tensors[module.name + end] for end in (_A, _B))
        return MatrixChange(module.key, a, b, module.scale)


def adapter(base: str, trained_on: str, changes: Sequence[tuple[AdapterModule, FloatTensor, FloatTensor]]) -> Adapter:
    """Make an adapter of its modules, each with its A [rank, width] and B [rows, rank]."""
    tensors = {module.name + end: tensor for module, a, b in changes for end, tensor in ((_A, a), (_B, b))}
    modules = tuple(module for module, _, _ in changes)
    unsigned = _metadata(base, trained_on, modules)
    return Adapter(base, trained_on, modules, tensors, adapter_checksum(unsigned, tensors))


def write_adapter(made: Adapter, path: Path) -> int:
    """Write an adapter's file, whole or not at all; returns its bytes.

    Raises:
        InputError: E121 or E122.
    """
    metadata = _metadata(made.base, made.trained_on, made.modules) | {_CHECKSUM: made.digest}
    pieces = tensor_file_bytes(TensorFile(metadata, made.tensors))
    write_file(path, *pieces)
    return sum(map(len, pieces))


def read_adapter(path: Path) -> Adapter:
    """Read an adapter's file.

    Raises:
        InputError: E695, it cannot be read, is damaged, or is not an adapter of this format.
    """
    try:
        file = read_tensor_file(path)
        if file.metadata.get("format") != FORMAT:
            raise ValueError("it is not an adapter that edgec wrote (edgec adapter BUNDLE PEFT_FOLDER makes one)")
        metadata = _AdapterMetadata.model_validate(dict(file.metadata))
        modules = tuple(_MODULES.validate_python(parse_json(metadata.modules.encode())))
        unsigned = {name: text for name, text in file.metadata.items() if name != _CHECKSUM}
        if adapter_checksum(unsigned, file.tensors) != metadata.checksum:
            raise ValueError("its contents do not match its checksum")
        _check_tensors(modules, file.tensors)
    except ValidationError as error:
        raise _damaged(path, first_fault(error)) from error
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    return Adapter(metadata.base, metadata.trained_on, modules, file.tensors, metadata.checksum)


def _metadata(base: str, trained_on: str, modules: Sequence[AdapterModule]) -> dict[str, str]:
    rows = json.dumps([module.model_dump() for module in modules], ensure_ascii=False)
    return {"format": FORMAT, "base": base, "trained_on": trained_on, "modules": rows}


def adapter_checksum(metadata: Mapping[str, str], tensors: Mapping[str, FloatTensor]) -> str:
    """The sha256 (hex) over a file's metadata without its checksum, and over its tensors."""
    described = [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]
    digest = hashlib.sha256(json.dumps([metadata, described], sort_keys=True).encode())
    for tensor in tensors.values():
        digest.update(tensor.data)
    return digest.hexdigest()


def _check_tensors(modules: Sequence[AdapterModule], tensors: Mapping[str, FloatTensor]) -> None:
    """Every module has its two matrices, of its rank, and there is nothing else."""
    if len({module.name for module in modules}) != len(modules) or len({m.key for m in modules}) != len(modules):
        raise ValueError("a module occurs twice")
    if {m.name + end for m in modules for end in (_A, _B)} != tensors.keys():
        raise ValueError("its tensors are not those of its modules")
    for module in modules:
        a, b = tensors[module.name + _A].shape, tensors[module.name + _B].shape
        if len(a) != 2 or len(b) != 2 or a[0] != module.rank or b[1] != module.rank:
            raise ValueError(f"{module.name} has A {list(a)} and B {list(b)}, which do not fit the rank {module.rank}")


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "The adapter's file cannot be read.",
        where=str(path),
        why=why[:200],
        fix="copy it again, or make it again with edgec adapter BUNDLE PEFT_FOLDER",
        code="E695",
    )
