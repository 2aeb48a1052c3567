"""Adapter files that lie under a right checksum."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgec.bundle.folder import open_bundle
from edgec.bundle.tensor_file import FloatTensor, TensorFile, read_tensor_file, tensor_file_bytes
from edgec.runtime_py.adapters.adapter_file import Adapter, adapter, adapter_checksum, write_adapter
from edgec.runtime_py.adapters.make import bind
from edgec.runtime_py.adapters.peft_folder import read_peft
from tests.runtime_py.adapters.loras import pairs, write_lora

Lie = Callable[[dict[str, str], dict[str, FloatTensor]], None]


def _module_lie(change: Mapping[str, Any], *, gone: str = "") -> Lie:
    def lie(metadata: dict[str, str], _: dict[str, FloatTensor]) -> None:
        (first, *rest) = json.loads(metadata["modules"])
        first = {name: value for name, value in (first | change).items() if name != gone}
        metadata["modules"] = json.dumps([first, *rest])

    return lie


def _metadata_lie(**change: str) -> Lie:
    return lambda metadata, _: metadata.update(change)


def _tensor_lie(shape: tuple[int, ...], dtype: str = "F32") -> Lie:
    def lie(_: dict[str, str], tensors: dict[str, FloatTensor]) -> None:
        name, size = next(iter(tensors)), {"F32": 4, "F64": 8}[dtype]
        tensors[name] = FloatTensor(dtype, shape, memoryview(bytes(size * int(np.prod(shape)))))

    return lie


LIES: dict[str, Lie] = {
    "a rank that is not the tensors'": _module_lie({"rank": 3}),
    "a rank of zero": _module_lie({"rank": 0}),
    "a rank beyond the most": _module_lie({"rank": 5000}),
    "a rank beyond 64 bits": _module_lie({"rank": 1 << 70}),
    "a rank with a fraction": _module_lie({"rank": 4.5}),
    "a rank as text": _module_lie({"rank": "4"}),
    "a negative rank": _module_lie({"rank": -4}),
    "an infinite scale": _module_lie({"scale": float("inf")}),
    "a scale that is not a number": _module_lie({"scale": float("nan")}),
    "a scale as text": _module_lie({"scale": "1"}),
    "an unknown field": _module_lie({"more": 1}),
    "a field too few": _module_lie({}, gone="alpha"),
    "a short key": _module_lie({"key": "ab"}),
    "a key that is not hex": _module_lie({"key": "x" * 64}),
    "another name": _module_lie({"name": "model.other"}),
    "modules that are not JSON": _metadata_lie(modules="["),
    "modules with more behind them": _metadata_lie(modules="[] []"),
    "modules that are an object": _metadata_lie(modules="{}"),
    "modules nested deeply": _metadata_lie(modules="[" * 100_000),
    "another format": _metadata_lie(format="edgec-adapter-2"),
    "a base that is not a digest": _metadata_lie(base="ab"),
    "unknown metadata": _metadata_lie(more="x"),
    "a vector": _tensor_lie((128,)),
    "a cube": _tensor_lie((4, 8, 4)),
    "doubles": _tensor_lie((4, 32), "F64"),
    "another width": _tensor_lie((4, 31)),
    "no width": _tensor_lie((4, 0)),
}


def sealed_lie(bundle: Path, scratch: Path, lie: Lie) -> bytes:
    """The bytes of a small adapter's file after a lie, with the checksum that fits it."""
    write_adapter(one_module(bundle), scratch)
    intact = read_tensor_file(scratch)
    metadata, tensors = dict(intact.metadata), dict(intact.tensors)
    del metadata["checksum"]
    lie(metadata, tensors)
    metadata["checksum"] = adapter_checksum(metadata, tensors)
    return b"".join(tensor_file_bytes(TensorFile(metadata, tensors)))


def one_module(bundle: Path) -> Adapter:
    """A small file of which most bytes are the header's."""
    opened = open_bundle(bundle)
    name = "model.layers.0.self_attn.q_proj"
    folder = bundle.parent / "one-module"
    if not folder.exists():
        write_lora(folder, {name: pairs()[name]})
    whole = bind(read_peft(folder), opened)
    parts = [(m, whole.tensors[f"{m.name}.lora_A"], whole.tensors[f"{m.name}.lora_B"]) for m in whole.modules]
    return adapter(whole.base, "m\u00f6del", parts)
