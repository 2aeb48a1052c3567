"""A model's numbers from GGUF metadata, each checked for its kind before anything is computed from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.bundle.gguf_faults import gguf_error
from edgec.errors import InputError
from edgec.exporter.sources.gguf.file import GgufFile

ARCHITECTURE = "general.architecture"


@dataclass(frozen=True)
class Numbers:
    """The metadata of one architecture: keys are given without its prefix."""

    file: GgufFile
    prefix: str

    def has(self, key: str) -> bool:
        """Whether the file states it."""
        return f"{self.prefix}.{key}" in self.file.metadata

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1. Raises E810 where it is absent without a default, or is something else."""
        value = self._value(key, default)
        if type(value) is not int or value < 1:
            raise self.fault(f"{self.prefix}.{key} is {str(value)[:40]}, not a count")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A finite number above 0. Raises E810 as ``count``."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
            raise self.fault(f"{self.prefix}.{key} is {str(value)[:40]}, not a number above 0")
        return float(value)

    def per_layer(self, key: str, layers: int, default: int | None = None) -> tuple[int, ...]:
        """A whole number for each layer, 0 allowed; the file may state one for all. Raises E810 as ``count``."""
        value = self._value(key, default)
        values: Sequence[Any] = value if isinstance(value, list) else [value] * layers
        if len(values) != layers or any(type(each) is not int or each < 0 for each in values) or not any(values):
            raise self.fault(f"{self.prefix}.{key} is {str(value)[:40]}, not a count for each of {layers} layers")
        return tuple(values)

    def fault(self, why: str) -> InputError:
        """The error E810, for a reason."""
        return _fault(self.file, why)

    def _value(self, key: str, default: Any) -> Any:
        value = self.file.metadata.get(f"{self.prefix}.{key}", default)
        if value is None:
            raise self.fault(f"{self.prefix}.{key} is absent")
        return value


def undescribed(file: GgufFile, error: InputError) -> InputError:
    """The error E810 for one that says of the file's config or weights that they do not make a model."""
    named = f"{error.where}; " if error.where and not error.where.startswith("/") else ""
    return _fault(file, f"{named}{error.why}")


def _fault(file: GgufFile, why: str) -> InputError:
    return gguf_error(
        "E810",
        file.files[0],
        "The metadata of the GGUF file does not describe a model that edgec reads.",
        why,
        "Convert the model again with a current llama.cpp, or pass the model that it was made from.",
    )


def token_id(file: GgufFile, name: str) -> int | None:
    """The id of a special token (``bos``, ``eos``, ``padding``, ``unknown``, ``eot``, ``eom``), or None."""
    value = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
    # llama.cpp writes 2^32 - 1 for a token that the model does not have.
    return value if type(value) is int and 0 <= value < (1 << 31) else None
