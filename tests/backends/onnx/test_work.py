"""Multiply-accumulates of an ONNX model, for layers whose weights are read once a step or once a value."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.backends.onnx.work import work_of

ir: Any = pytest.importorskip("onnx_ir")


def value(*shape: int) -> Any:
    return ir.Value(name=f"v{len(shape)}_{'x'.join(map(str, shape))}", shape=ir.Shape(shape))


def operations(kind: str, *inputs: Any, output: Any) -> int:
    node = ir.Node("", kind, inputs, outputs=[output])
    model = ir.Model(ir.Graph(inputs, [output], nodes=[node]), ir_version=10)
    return work_of(model).operations[kind]


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "wanted"),
    [
        # 10 values of 8 channels, each into 16 outputs at 4 places.
        ("ConvTranspose", [(1, 8, 10), (8, 16, 4)], (1, 16, 43), 10 * 8 * 16 * 4),
        ("Conv", [(1, 8, 10), (16, 8, 3)], (1, 16, 8), 16 * 8 * 8 * 3),
        # 20 steps, both directions, four gates of 32 that read 24 inputs and 32 hidden values.
        ("LSTM", [(20, 1, 24), (2, 128, 24), (2, 128, 32)], (20, 2, 1, 32), 20 * 2 * 4 * 32 * (24 + 32)),
        ("GRU", [(20, 3, 24), (1, 96, 24), (1, 96, 32)], (20, 1, 3, 32), 20 * 3 * 3 * 32 * (24 + 32)),
    ],
)
def test_weights_are_counted_as_often_as_they_are_read(
    kind: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], wanted: int
) -> None:
    assert operations(kind, *(value(*each) for each in inputs), output=value(*output)) == wanted
