"""Networks with one call as ``.tflite``: what the interpreter computes, names in order, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.functions.function import Function

pytest.importorskip("ai_edge_litert.interpreter")
pytest.importorskip("litert_torch")
from edgec.backends.litert.network import open_function


class _Network(nn.Module):
    """A convolution, a norm over its channels, and rounded layers; two inputs, two outputs, neither sorted by name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.first, self.last = nn.Linear(8, 64), nn.Linear(64, 10)

    def forward(self, pixels: torch.Tensor, added: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = torch.relu(self.norm(self.convolution(pixels))).mean((2, 3))
        made = nn.functional.gelu(self.first(held))
        return self.last(made) * 0.125 + added, made


def network() -> tuple[Any, Any]:
    """The network and an example of its inputs."""
    torch.manual_seed(1)
    return _Network().eval(), (torch.rand(1, 3, 16, 16), torch.rand(1, 10))


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["float", pytest.param("8bit", marks=pytest.mark.slow)])
def test_it_computes_what_the_network_does(recipe: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"target": "android-litert", "format": "tflite", "recipe": recipe}
    out = edgec.export("tests.backends.litert.test_network:network", out=tmp_path / "x.edgec", **given)
    bundle = open_bundle(out)
    (artifact,) = (rung for rung in bundle.manifest.parity if rung.stage == "artifact")
    assert artifact.gated and artifact.passed
    assert (bundle.manifest.format, [each.name for each in bundle.manifest.methods]) == ("tflite", ["main"])
    model, example = network()
    wanted, function = model(*example), Function(bundle)
    names = [each.name for each in function.info.inputs]
    made = function.run(**{name: value.numpy() for name, value in zip(names, example, strict=True)})
    for held, right in zip(made.values(), wanted, strict=True):
        assert np.abs(held - right.detach().numpy()).max() < (1e-5 if recipe == "float" else 0.02)


@pytest.mark.parametrize("content", [b"", b"no model", b"TFL3" * 16])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(InputError, match="E903"):
        open_function(path)


@pytest.mark.long
@pytest.mark.parametrize("given", [{"target": "android-litert"}, {"target": "android-litert-gpu", "format": "tflite"}])
def test_other_forms_are_refused_before_work(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        edgec.export("tests.backends.litert.test_network:network", out=tmp_path / "x.edgec", recipe="float", **given)
    assert caught.value.code == "E907" and "--format tflite" in caught.value.fix
