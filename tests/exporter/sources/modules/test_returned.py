"""What ``forward`` returns becomes the same named tensors in the model itself and in its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.sources.modules.returned import returned_of


class _Named(NamedTuple):
    mean: Tensor
    scale: Tensor


@dataclass
class _Plain:
    mean: Tensor
    scale: Tensor | None = None


class _Opaque:
    pass


class _Returns(nn.Module):
    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.form = form

    def forward(self, x: Tensor) -> Any:
        return self.form(x * 2)


X = torch.linspace(-1, 1, 4).reshape(1, 4)


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (lambda y: y, ["output"]),
        (lambda y: {"boxes": y, "scores": y.sigmoid()}, ["boxes", "scores"]),
        (lambda y: [y, y.exp()], ["output_0", "output_1"]),
        (lambda y: {"b": [y, (y.exp(), {"c": y.abs()})], "a": y}, ["b_0", "b_1_0", "b_1_1_c", "a"]),
        (lambda y: (y, None), ["output_0"]),
        (lambda y: (7, y), ["output_1"]),
        (lambda y: {"y": y, "kind": "box", "flag": True, "share": 0.5}, ["y"]),
        (
            lambda y: BaseModelOutputWithPooling(last_hidden_state=y, pooler_output=y.sum(-1)),
            ["last_hidden_state", "pooler_output"],
        ),
        (lambda y: _Named(y, y.exp()), ["mean", "scale"]),
        (_Plain, ["mean"]),
        (lambda y: [_Plain(y, y.exp())], ["output_0_mean", "output_0_scale"]),
        (lambda y: (y, y[:0]), ["output_0"]),
        (lambda y: {"x": y, "a_b": y, "a": {"b": y.exp()}}, ["x_2", "a_b", "a_b_2"]),
    ],
)
def test_outputs_have_the_names_of_their_places(form: Callable[[Tensor], Any], names: list[str]) -> None:
    module = _Returns(form)
    wanted = returned_of(module(X), "m", taken=["x"])
    program = capture_module(module, (X,))
    assert [tensor.name for tensor in program.interface.outputs] == names == list(wanted.names)
    for given, tensor in zip(program.graph(X), wanted.tensors, strict=True):
        assert torch.equal(given, tensor)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (lambda y: (y, 7), "output_1 is left out: it is 7"),
        (lambda y: {"y": y, "kind": "box"}, "kind is left out: it is the constant 'box'"),
        (lambda y: (y, y[:0]), "output_1 is left out: it has no values"),
        (lambda y: y.double(), "output is float64: cast to float32"),
        (lambda y: {"h": y.bfloat16()}, "h is bfloat16: cast to float32"),
    ],
)
def test_what_is_left_out_or_cast_is_said(form: Callable[[Tensor], Any], told: str) -> None:
    assert returned_of(form(X), "m").notes == (told,)
    (output,) = capture_module(_Returns(form), (X,)).interface.outputs
    assert output.dtype == torch.float32


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (lambda y: 7, "it is 7"),
        (lambda y: None, "it is None"),
        (lambda y: y[:0], "no values"),
        (lambda y: (), "nothing"),
        (lambda y: torch.complex(y, y), "complex64"),
        (lambda y: (y, y.sum().item()), "computed from values"),
        (lambda y: (y, _Opaque()), "_Opaque"),
    ],
)
def test_what_is_no_output_is_a_typed_error(form: Callable[[Tensor], Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        capture_module(_Returns(form), (X,), name="my:make")
    assert caught.value.code == "E792" and caught.value.where == "my:make"
    assert why in caught.value.why
