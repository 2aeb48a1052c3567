"""PEFT's folder of a LoRA: adapter_config.json and adapter_model.safetensors, read without PEFT and without torch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.bundle.checked_files import file_sha256
from edgec.bundle.tensor_file import FloatTensor, read_tensor_file
from edgec.errors import InputError
from edgec.runtime_py.adapters.peft_settings import ADAPTER_CONFIG, PeftSettings, read_settings, unsupported

WEIGHTS = "adapter_model.safetensors"
_PICKLED = "adapter_model.bin"
_NAME = re.compile(r"base_model\.model\.(?P<module>[\w.-]+)\.lora_(?P<side>[AB])\.weight")
# Parts of names by which PEFT's other features are known.
_FEATURES = {
    "lora_magnitude_vector": "DoRA (lora_magnitude_vector)",
    "lora_embedding_": "LoRA of an embedding (lora_embedding_A, lora_embedding_B)",
    "modules_to_save": "modules_to_save",
    ".lora_B.bias": "lora_bias",
    "trainable_tokens_": "trainable_token_indices",
    "lora_diag": "KaSA (lora_diag)",
}


@dataclass(frozen=True)
class PeftModule:
    """A module's A [rank, width] and B [rows, rank] as PEFT stored them; ``name``: as in the base model."""

    name: str
    a: FloatTensor
    b: FloatTensor


@dataclass(frozen=True)
class PeftFolder:
    """What a folder holds."""

    path: Path
    settings: PeftSettings
    modules: tuple[PeftModule, ...]


def folder_digest(folder: Path) -> str:
    """The sha256 (hex) over the sha256 of each of the two files that an adapter is read from.

    Raises:
        InputError: E691, one of them cannot be read.
    """
    try:
        files = [bytes.fromhex(file_sha256(folder / name)) for name in (ADAPTER_CONFIG, WEIGHTS)]
    except OSError as error:
        raise _unreadable(folder, str(error)) from error
    return hashlib.sha256(b"".join(files)).hexdigest()


def tensor_name(module: str, side: str) -> str:
    """The name of a module's A or B in the folder's safetensors file."""
    return f"base_model.model.{module}.lora_{side}.weight"


def read_peft(folder: Path) -> PeftFolder:
    """Read a folder that PEFT's ``save_pretrained`` wrote.

    Raises:
        InputError: E691, it cannot be read, is damaged, or holds a pickle; E692, a feature that edgec does not compute.
    """
    settings = read_settings(folder)
    path = folder / WEIGHTS
    if not path.exists() and (folder / _PICKLED).exists():
        fix = "save it again with save_pretrained(folder, safe_serialization=True)"
        raise _unreadable(folder / _PICKLED, "a pickle can run code when it is read; only safetensors are", fix)
    try:
        tensors = read_tensor_file(path).tensors
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    return PeftFolder(folder, settings, tuple(_modules(path, tensors)))


def _modules(path: Path, tensors: Mapping[str, FloatTensor]) -> Iterator[PeftModule]:
    sides: dict[str, dict[str, FloatTensor]] = {}
    for name, tensor in tensors.items():
        found = _NAME.fullmatch(name)
        if found is None:
            raise unsupported(path, _feature(name))
        sides.setdefault(found["module"], {})[found["side"]] = tensor
    if not sides:
        raise _unreadable(path, "it holds no module")
    for module, pair in sides.items():
        if pair.keys() != {"A", "B"}:
            raise _unreadable(path, f"{module} has lora_{next(iter(pair))} alone")
        yield PeftModule(module, pair["A"], pair["B"])


def _feature(name: str) -> str:
    return next((feature for part, feature in _FEATURES.items() if part in name), f"the tensor {name[:120]!r}")


def _unreadable(where: Path, why: str, fix: str = "save or copy it again") -> InputError:
    return InputError("PEFT's folder cannot be read.", where=str(where), why=why[:200], fix=fix, code="E691")
