"""A STAND-IN for Core ML on a Mac: a toy model in numpy. It shows the wiring; nothing here ran on a Mac."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgec.bundle.entry_points import MethodInfo, TensorInfo
from edgec.ir.static_methods import join_logits

CHUNK, SLOTS, WIDTH, VOCABULARY = 4, 64, 32, 12
STATE = "key_cache_0"
_ROWS = np.random.default_rng(0).standard_normal((VOCABULARY, WIDTH)).astype(np.float32)


def toy_methods(held: bool) -> list[MethodInfo]:
    """Prefill and decode over one state; ``held``: it is an input, and new rows are an output."""
    return [_method("prefill", CHUNK, held), _method("decode", 1, held)]


def _method(name: str, width: int, held: bool) -> MethodInfo:
    shapes: dict[str, list[int | str]] = {"tokens": [1, width], "start": [1], "last": [1]}
    inputs = [TensorInfo(name=key, dtype="int32", shape=shape) for key, shape in shapes.items()]
    halves = [TensorInfo(name=f"logits_{i}", dtype="float16", shape=[1, 1, VOCABULARY // 2]) for i in range(2)]
    if not held:
        return MethodInfo(name=name, inputs=inputs, outputs=halves)
    state = TensorInfo(name=STATE, dtype="float16", shape=[1, 1, SLOTS, WIDTH])
    rows = TensorInfo(name=f"new_{STATE}", dtype="float16", shape=[1, 1, width, WIDTH])
    return MethodInfo(name=name, inputs=[*inputs, state], outputs=[*halves, rows])


def toy_step(data: Mapping[str, Any], cache: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Logits that depend on every token so far, and on nothing after the last one."""
    tokens, start, last = data["tokens"][0], int(data["start"][0]), int(data["last"][0])
    rows = _ROWS[tokens]
    seen = np.concatenate([cache[0, 0, :start], rows[: last + 1]])
    logits = _ROWS @ seen.sum(axis=0) + start + last
    parts = {f"logits_{i}": half[None, None] for i, half in enumerate(np.split(logits, 2))}
    # In the wrong order on purpose: Core ML returns a dictionary.
    return {**dict(reversed(parts.items())), f"new_{STATE}": rows[None, None]}


@dataclass
class ToyReference:
    """The same arithmetic as edgec's interpreter would do it."""

    chunk: int = CHUNK
    cache: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros((1, 1, SLOTS, WIDTH), np.float32))

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        outputs = toy_step({name: value.numpy() for name, value in inputs.items()}, self.cache)
        start, rows = int(inputs["start"]), outputs.pop(f"new_{STATE}")
        self.cache[:, :, start : start + rows.shape[2]] = rows
        return join_logits({name: torch.from_numpy(outputs[name]) for name in ("logits_0", "logits_1")})


@dataclass
class ToyModel:
    held: bool
    fault: float

    def predict(self, data: Mapping[str, Any], state: Any = None) -> Mapping[str, Any]:
        cache = data[STATE] if self.held else state
        outputs = toy_step(data, cache)
        rows = outputs.pop(f"new_{STATE}")
        if self.held:
            return {**outputs, f"new_{STATE}": rows}
        start = int(data["start"][0])
        cache[:, :, start : start + rows.shape[2]] = rows * (1 + self.fault)
        return outputs

    def make_state(self) -> Any:
        return np.zeros((1, 1, SLOTS, WIDTH), np.float32)


@dataclass
class ToyTools:
    """``edgec.backends.coreml.mac.Tools`` without a Mac; ``fault`` scales what is written into the cache."""

    held: bool = False
    fault: float = 0.0
    refusal: str = ""
    machine: str = "stand-in, no Mac"
    loaded: list[str | None] = field(default_factory=list)

    def compile(self, package: Path, destination: Path) -> Path:
        if self.refusal:
            raise RuntimeError(self.refusal)
        destination.mkdir()
        return destination

    def load(self, compiled: Path, function: str | None) -> ToyModel:
        assert compiled.is_dir()
        self.loaded.append(function)
        return ToyModel(self.held, self.fault)

    def operators(self, compiled: Path) -> Iterable[tuple[str, str, str]]:
        yield "decode", "ios18.conv", "MLNeuralEngineComputeDevice"
        yield "decode", "ios18.conv", "MLNeuralEngineComputeDevice"
        yield "decode", "ios18.gather", "MLCPUComputeDevice"
        yield "prefill", "ios18.conv", "MLGPUComputeDevice"
        yield "prefill", "ios18.cast", "MLFutureComputeDevice"
