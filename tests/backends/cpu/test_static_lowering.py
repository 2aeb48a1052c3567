from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu.static_lowering import StaticLowered, lower_static
from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.decompose_attention import DecomposeAttention
from tests.modules import ConvNet, Mlp, bert, padded_text, vit

# XNNPACK's float32 kernels sum in another order and approximate exp, erf and tanh to a few units in the last place.
TOLERANCE = 1e-4
# 8-bit activations are rounded at run time: a value on the border of two steps may fall to either side.
QUANTISED_TOLERANCE = 0.02


@dataclass(frozen=True)
class Executed:
    program: Program
    lowered: StaticLowered
    inputs: Mapping[str, Tensor]
    outputs: list[Tensor]


def _prepared(module: nn.Module, inputs: Mapping[str, Tensor], *passes: Any) -> Program:
    program = capture_module(module, inputs)
    for rewrite in (RemoveNoops(), FuseSdpa(), *passes, DecomposeAttention()):
        program = run_pass(program, rewrite)
    return program


def _execute(artifact: bytes, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(artifact)
    results: list[Tensor] = program.load_method("forward").execute(list(inputs.values()))
    return [result.clone() for result in results]


def _run(module: nn.Module, inputs: Mapping[str, Tensor], *passes: Any) -> Executed:
    program = _prepared(module, inputs, *passes)
    lowered = lower_static(program)
    return Executed(program, lowered, inputs, _execute(lowered.artifact, inputs))


def _image() -> dict[str, Tensor]:
    return {"image": torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(2))}


@pytest.mark.long
@torch.no_grad()
def test_a_perceptron_is_delegated_whole() -> None:
    module, inputs = Mlp().eval(), {"features": torch.randn(2, 8, generator=torch.Generator().manual_seed(2))}
    done = _run(module, inputs)
    torch.testing.assert_close(done.outputs[0], module(**inputs), atol=TOLERANCE, rtol=0)
    assert done.lowered.delegates == 1
    assert done.lowered.outside == ()
    assert done.lowered.delegated_macs == 2 * (8 * 8 + 8 * 3)
    assert done.lowered.delegated_share() == 1.0


@pytest.mark.long
@torch.no_grad()
def test_a_convolutional_net() -> None:
    module = ConvNet().eval()
    done = _run(module, _image())
    torch.testing.assert_close(done.outputs[0], module(**_image()), atol=TOLERANCE, rtol=0)
    expected = 8 * 8 * 8 * (3 * 9) + 8 * 6 * 6 * (1 * 9) + 8 * 5
    assert done.lowered.delegated_macs + sum(each.macs for each in done.lowered.outside) == expected
    assert done.lowered.delegated_share() == 1.0


@pytest.mark.slow
@torch.no_grad()
def test_an_encoder_with_padding() -> None:
    model, (padded, short) = bert(), padded_text()
    done = _run(model, padded)
    torch.testing.assert_close(done.outputs[0], model(**padded).logits, atol=TOLERANCE, rtol=0)
    unmasked = {**padded, "attention_mask": torch.ones_like(padded["attention_mask"])}
    everything = _execute(done.lowered.artifact, unmasked)[0]
    torch.testing.assert_close(everything, model(**unmasked).logits, atol=TOLERANCE, rtol=0)
    assert (everything - model(**short).logits).abs().max() > 1e-2, "the mask is an input, not a constant"
    outside = {each.operator: each for each in done.lowered.outside}
    assert outside["aten::native_layer_norm"].count == 5
    assert done.lowered.delegated["aten::bmm"] == 4
    assert done.lowered.delegated_share() == 1.0


@torch.no_grad()
@pytest.mark.slow
def test_a_vision_transformer_in_float() -> None:
    model, inputs = vit(), {"pixel_values": _image()["image"]}
    done = _run(model, inputs)
    torch.testing.assert_close(done.outputs[0], model(**inputs).logits, atol=TOLERANCE, rtol=0)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("scheme", [WeightScheme(4, 32), WeightScheme(8, 0)], ids=str)
def test_a_quantised_vision_transformer_equals_its_quantised_graph(scheme: WeightScheme) -> None:
    model, inputs = vit(), {"pixel_values": _image()["image"]}
    floats = _prepared(model, inputs)
    done = _run(model, inputs, Quantize(default=scheme, lm_head=scheme))
    expected = done.program.graph(*inputs.values())[0]
    torch.testing.assert_close(done.outputs[0], expected, atol=QUANTISED_TOLERANCE, rtol=0)
    assert (expected - floats.graph(*inputs.values())[0]).abs().max() > 0, "nothing was quantised"
    assert not [each for each in done.lowered.outside if "quantize" in each.operator]
    assert done.lowered.delegated_share() == 1.0


class _Erf(nn.Module):
    """A matrix product of batches with a broadcast that XNNPACK does not take, and an operator it lacks."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x) @ x.to(torch.float64).to(torch.float32).transpose(0, 1)


@pytest.mark.long
def test_what_stays_outside_is_counted() -> None:
    lowered = lower_static(_prepared(_Erf(), {"x": torch.randn(3, 4)}))
    counts = {each.operator: each.count for each in lowered.outside}
    assert counts["aten::erf"] == 1
    total = lowered.delegated_macs + sum(each.macs for each in lowered.outside)
    assert total == 3 * 4 * 3


def test_attention_in_edgecs_form_is_refused() -> None:
    model, inputs = vit(), {"pixel_values": _image()["image"]}
    fused = run_pass(capture_module(model, inputs), FuseSdpa())
    with pytest.raises(InputError, match="as it is") as caught:
        lower_static(fused)
    assert (caught.value.code, "decompose_attention" in caught.value.fix) == ("E182", True)


class _Distances(nn.Module):
    """A row for each pair of positions, as the attention of Wav2Vec2-BERT has."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(40, 16)
        self.register_buffer("apart", torch.arange(40).remainder(40).expand(40, 40).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bqc,qkc->bqk", x, self.rows(self.apart))


@pytest.mark.long
@torch.no_grad()
def test_rows_that_are_looked_up_alike_in_every_call_are_stored_once() -> None:
    module, inputs = _Distances().eval(), {"x": torch.randn(1, 40, 16, generator=torch.Generator().manual_seed(2))}
    done = _run(module, inputs)
    torch.testing.assert_close(done.outputs[0], module(**inputs), atol=TOLERANCE, rtol=0)
    looked_up = 40 * 40 * 16 * 4
    assert len(done.lowered.artifact) < looked_up
