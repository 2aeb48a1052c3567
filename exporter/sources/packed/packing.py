"""How a folder's checkpoint is quantised, from its settings, and its weights under the names of its float form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from edgec.bundle.limited_json import first_fault
from edgec.exporter.sources.files.model_folder import CONFIG, ModelFolder, read_json
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.packed.awq import AwqSettings, awq_tensors
from edgec.exporter.sources.packed.bitnet import BitnetSettings, bitnet_tensors
from edgec.exporter.sources.packed.compressed import CompressedSettings, compressed_tensors
from edgec.exporter.sources.packed.faults import bad_settings, unread_method
from edgec.exporter.sources.packed.floats import FineGrainedSettings, fine_grained_tensors
from edgec.exporter.sources.packed.gptq import GptqSettings, gptq_tensors
from edgec.exporter.sources.packed.mxfp4 import mxfp4_tensors
from edgec.exporter.sources.packed.torchao import torchao_tensors
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor, PackedWeights

KEY, MLX_KEY = "quantization_config", "quantization"
_BESIDE = ("quantize_config.json", "quant_config.json")
# autoawq's own names of what others call otherwise.
_RENAMED = {"w_bit": "bits", "q_group_size": "group_size", "version": "format"}
_FORMAT, _BITS = "format", {"bits", "w_bit"}
# How a runtime is to round activations, keys and values; edgec's kernels have their own way.
_OF_ACTIVATIONS = re.compile(r"\.((input|output|activation|[qkv])_scale|(input|output|[qkv])_zero_point)$")
_UNNAMED = "an unnamed method"

Stated = Mapping[str, Any]
Tensors = Callable[[FileWeights], dict[str, PackedTensor]]
KindT = TypeVar("KindT", bound=BaseModel)


@dataclass(frozen=True)
class Packing:
    """How a checkpoint is quantised.

    Attributes:
        method: as the settings name it.
        files: those that state it.
        tensors: finds the quantised parameters.
    """

    method: str
    files: tuple[Path, ...]
    tensors: Tensors

    def weights(self, base: FileWeights) -> PackedWeights:
        """The stored tensors under the names of the float form.

        Raises:
            InputError: E815, none is quantised; E816 to E819, what is stored contradicts itself or the settings.
        """
        packed = self.tensors(base)
        if not packed:
            raise bad_settings(self.files[0], f"{self.method} is stated, and no tensor is stored so")
        return PackedWeights(base, packed, frozenset(name for name in base.names() if _OF_ACTIVATIONS.search(name)))


def packing_of(folder: ModelFolder) -> Packing | None:
    """How a folder's checkpoint is quantised; None where it is not.

    Raises:
        InputError: E814, in a way that edgec does not read; E815, the settings contradict each other.
    """
    config_file = folder.path / CONFIG
    stated = _stated(config_file, folder.config)
    beside = {folder.path / name: read_json(folder.path / name) for name in _BESIDE if is_plain(folder.path / name)}
    # Other tools write files of that name, too; what says no bits is not about weights.
    other_file, other = next(((f, each) for f, each in beside.items() if _BITS & each.keys()), (None, None))
    if stated is None and other is None:
        return None
    files = tuple(file for file in (config_file if stated is not None else None, other_file) if file is not None)
    settings = _joined(_plain(stated or {}), _plain(other or {}), files)
    method = _method(settings)
    reader = _READERS.get(method)
    if reader is None:
        raise unread_method(files[0], method)
    return Packing(method, files, reader(files[0], settings))


def without_packing(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without what it says of quantised weights, here and in the configs inside it."""
    kept = {key: value for key, value in config.items() if key not in (KEY, MLX_KEY)}
    return {key: without_packing(value) if isinstance(value, Mapping) else value for key, value in kept.items()}


def _stated(file: Path, config: Mapping[str, Any]) -> Stated | None:
    """The settings in config.json, of the model or of its language model."""
    tables = [config, *(value for value in config.values() if isinstance(value, Mapping))]
    found = [table[KEY] for table in tables if table.get(KEY) is not None]
    if not found and isinstance(config.get(MLX_KEY), Mapping):
        raise unread_method(file, "MLX")
    if any(not isinstance(entry, Mapping) for entry in found):
        raise bad_settings(file, f"{KEY} is not an object")
    if any(entry != found[0] for entry in found):
        raise bad_settings(file, f"there are {len(found)} different objects {KEY}")
    return found[0] if found else None


def _plain(settings: Stated) -> dict[str, Any]:
    """Stated under their common names, formats in lower case."""
    named = {_RENAMED.get(key, key): value for key, value in settings.items()}
    if "checkpoint_format" in named:
        named[_FORMAT] = named.pop("checkpoint_format")
    if isinstance(named.get(_FORMAT), str):
        named[_FORMAT] = named[_FORMAT].lower()
    return named


def _joined(one: dict[str, Any], other: dict[str, Any], files: tuple[Path, ...]) -> dict[str, Any]:
    """The settings of both files. Raises E815 where these differ on how the weights are stored."""
    for key in ("quant_method", "bits", "group_size", "sym", "desc_act", "zero_point", _FORMAT):
        here, there = one.get(key), other.get(key)
        if here is not None and there is not None and here != there:
            raise bad_settings(files[1], f"{key} is {here!r} in {files[0].name} and {there!r} here")
    return {**other, **{key: value for key, value in one.items() if value is not None}}


def _method(settings: Stated) -> str:
    """The method's name; old files of autoawq and auto-gptq do not say it."""
    named = settings.get("quant_method")
    if isinstance(named, str) and named:
        return named.lower()
    if "zero_point" in settings and "bits" in settings:
        return "awq"
    if "desc_act" in settings and "bits" in settings:
        return "gptq"
    return "MLX" if set(settings) <= {"bits", "group_size", "mode"} and "bits" in settings else _UNNAMED


def checked(kind: type[KindT], file: Path, settings: Stated) -> KindT:
    """Stated of a method. Raises E815."""
    try:
        return kind.model_validate(dict(settings))
    except ValidationError as error:
        raise bad_settings(file, first_fault(error)) from error


def _gptq(file: Path, settings: Stated) -> Tensors:
    layout = settings.get(_FORMAT, "gptq")
    if layout not in ("gptq", "gptq_v2"):
        raise unread_method(file, f"GPTQ in the layout {str(layout)[:40]!r}", "gptq and gptq_v2 are read")
    if settings.get("dynamic"):
        raise unread_method(file, "GPTQ with bits of their own for some layers (dynamic)")
    return partial(gptq_tensors, settings=checked(GptqSettings, file, {**settings, "checkpoint_format": layout}))


def _awq(file: Path, settings: Stated) -> Tensors:
    layout = settings.get(_FORMAT, "gemm")
    if layout != "gemm":
        raise unread_method(file, f"AWQ in the layout {str(layout)[:40]!r}", "that of GEMM kernels is read")
    return partial(awq_tensors, settings=checked(AwqSettings, file, settings))


def _compressed(file: Path, settings: Stated) -> Tensors:
    known = checked(CompressedSettings, file, settings)
    if known.unread:
        raise unread_method(file, f"compressed-tensors in the format {known.unread[:40]!r}")
    return partial(compressed_tensors, settings=known)


def _fine_grained(file: Path, settings: Stated) -> Tensors:
    if settings.get("expert_dtype", "fp8") != "fp8":
        raise unread_method(file, f"FP8 with experts in {str(settings['expert_dtype'])[:40]!r}")
    return partial(fine_grained_tensors, settings=checked(FineGrainedSettings, file, settings))


def _mxfp4(file: Path, settings: Stated) -> Tensors:
    return mxfp4_tensors


def _torchao(file: Path, settings: Stated) -> Tensors:
    return torchao_tensors


def _bitnet(file: Path, settings: Stated) -> Tensors:
    known = checked(BitnetSettings, file, settings)
    if known.quantization_mode == "online" or known.use_rms_norm:
        raise unread_method(file, "bitnet online, or with norms inside its layers")
    return partial(bitnet_tensors, settings=known)


_READERS: Mapping[str, Callable[[Path, Stated], Tensors]] = {
    **{"gptq": _gptq, "awq": _awq, "compressed-tensors": _compressed},
    **{"fp8": _fine_grained, "mxfp4": _mxfp4, "bitnet": _bitnet, "torchao": _torchao},
}
