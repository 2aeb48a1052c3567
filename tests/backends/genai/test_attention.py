"""ONNX Runtime's operator of attention, as it is written here, against its meaning in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.ir.growing_cache import GROUPED_ATTENTION, grouped_attention

pytestmark = pytest.mark.long

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

HEADS, GROUPS, WIDTH, PAST, NEW = 4, 2, 16, 9, 3


class Attention(nn.Module):
    """One call of the operator."""

    def __init__(self, sinks: Tensor | None, options: Sequence[Any]) -> None:
        super().__init__()
        self.register_buffer("sinks", sinks)
        self.options = options

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        out: tuple[Tensor, ...] = GROUPED_ATTENTION(*tensors, self.sinks, HEADS, GROUPS, *self.options)
        return out


@pytest.mark.parametrize(
    ("sinks", "scale", "window", "softcap"),
    [
        pytest.param(False, 0.25, 0, 0.0, id="plain"),
        pytest.param(False, 0.1, 5, 0.0, id="a window"),
        pytest.param(False, 0.25, 0, 2.0, id="soft-capped"),
        pytest.param(True, 0.25, 5, 0.0, id="sinks and a window"),
    ],
)
def test_it_says_what_it_means(sinks: bool, scale: float, window: int, softcap: float) -> None:
    import onnxruntime

    from edgec.backends.genai.operators import translations

    torch.manual_seed(0)
    rows = [torch.randn(1, NEW, heads * WIDTH) for heads in (HEADS, GROUPS, GROUPS)]
    past = [torch.randn(1, GROUPS, PAST, WIDTH) for _ in range(2)]
    counted = [torch.tensor([PAST + NEW - 1], dtype=torch.int32), torch.tensor(PAST + NEW, dtype=torch.int32)]
    inputs: tuple[Any, ...] = (*rows, *past, *counted)
    learned = torch.randn(HEADS) if sinks else None
    module = Attention(learned, (scale, window, softcap))
    program = torch.export.export(module, inputs, strict=False)
    made = torch.onnx.export(
        program, dynamo=True, custom_translation_table=translations(), optimize=False, verbose=False
    )
    assert made is not None
    session = onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {each.name: value.numpy() for each, value in zip(session.get_inputs(), inputs, strict=True)}
    arguments: list[Any] = [*inputs, learned, HEADS, GROUPS, scale, window, softcap]
    wanted = grouped_attention(*arguments)
    for got, right in zip(session.run(None, feeds), wanted, strict=True):
        assert torch.allclose(torch.from_numpy(got), right, rtol=0, atol=1e-5)
