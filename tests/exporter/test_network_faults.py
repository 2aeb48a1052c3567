"""What trained networks are made of exports, and computes what the network does, on every target that once failed."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

import edgec
from tests.exporter import faulty_networks

IPHONE: dict[str, Any] = {"target": "iphone", "recipe": "float"}
TARGETS: dict[str, dict[str, Any]] = {
    "pte": {**IPHONE, "format": "pte"},
    "mlpackage": {**IPHONE, "format": "mlpackage"},
    "aimodel": {**IPHONE, "format": "aimodel"},
    "android": {"target": "android-cpu", "recipe": "float"},
    "android 8bit": {"target": "android-cpu", "recipe": "8bit"},
    "android 4bit": {"target": "android-cpu", "recipe": "4bit"},
    "host": {"target": "host", "recipe": "float"},
    "onnx 8bit": {"target": "host", "format": "onnx", "recipe": "8bit"},
}
APPLE = ("pte", "mlpackage", "aimodel")
FAULTS = {
    "lstm": APPLE,
    "bilstm": ("mlpackage", "aimodel"),
    "gru": APPLE,
    "traced": ("host", "mlpackage"),
    "prelu": ("pte", "aimodel"),
    "prelu_of_vectors": (*APPLE, "android"),
    "upsample": ("mlpackage", "aimodel"),
    "instance": APPLE,
    "normalize": APPLE,
    "group": ("pte", "mlpackage"),
    "layer": ("pte", "aimodel"),
    "pool": ("pte", "mlpackage"),
    "weightless": ("mlpackage", "host"),
    "computed": ("android 8bit", "android 4bit", "mlpackage"),
    "normed_weights": ("mlpackage", "android 8bit", "onnx 8bit"),
    "spectral": ("aimodel", "android 8bit", "onnx 8bit"),
    "mels": (*APPLE, "android 8bit", "host", "onnx 8bit"),
}
CASES = [(name, target) for name, targets in FAULTS.items() for target in targets]
# Networks that once gave NaN where their inputs do not lie around 0.
SHIFTED = {"group": (5.0, 20.0), "layer": (5.0, 100.0), "pool": (5.0, 20.0)}
# Of the largest output. In float16 11 bits, of sums of up to 25,600 values; in 8 and 4 bits what the recipes cost.
ALLOWED = {
    "pte": 0.02,
    "mlpackage": 0.02,
    "aimodel": 0.02,
    "android 8bit": 0.05,
    "android 4bit": 0.2,
    "onnx 8bit": 0.05,
}
EXACT = 1e-4


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_network_that_once_failed_is_right(name: str, target: str, tmp_path: Path) -> None:
    bundle = edgec.export(f"tests.exporter.faulty_networks:{name}", out=tmp_path / "x.edgec", **TARGETS[target])
    module, (x,) = getattr(faulty_networks, name)()
    model = edgec.load(bundle)
    # The width's last digits: of values around 100 float16 keeps a sixteenth.
    for shift in (0.0, *SHIFTED.get(name, ())):
        allowed = ALLOWED.get(target, EXACT) * (1 + shift)
        with torch.no_grad():
            wanted = module(x + shift)
        (got,) = model.run(**{_input(module): (x + shift).numpy()}).values()
        assert float((torch.as_tensor(got) - wanted).abs().max()) <= allowed * float(wanted.abs().max())


def _input(module: torch.nn.Module) -> str:
    """The name of a network's input; a script's is that of its first argument."""
    return (
        next(iter(signature(module.forward).parameters)) if not isinstance(module, torch.jit.ScriptModule) else "input"
    )
