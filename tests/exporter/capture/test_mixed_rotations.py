"""Rotations that follow from other positions of a call are refused when a decoder is captured."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.decoders.stored_rotations import hold_rotations
from edgec.ir.program import Program
from tests.exporter.rope_models import BY_NAME, CONTEXT, FIRST, HEAD, MODELS, RopeModel, text
from tests.passes.decoders import StateDict

# The graph does eager's float32 arithmetic operator by operator; only kernel choice may differ in the last places.
TOLERANCE = 1e-4


def captured(model: RopeModel, context: int, held: bool = True, change: Any = None) -> Program:
    from transformers import AutoModelForCausalLM

    config = model.config()

    def build() -> Any:
        seams = {"attn_implementation": "edgec", "experts_implementation": "edgec"}
        made = AutoModelForCausalLM.from_config(config, **seams)
        if held:
            hold_rotations(made, context)
        if change is not None:
            change(made)
        return made

    return capture_decoder(build_skeleton(build), model_spec(config.to_dict()), StateDict(model.model()), context)


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ["longrope", "longrope beside the parameters", "longrope in some layers"])
def test_frequencies_that_are_renewed_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="when a later token has come") as raised:
        captured(BY_NAME[name], CONTEXT, held=False)
    assert raised.value.code == "E743"


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_last_positions_are_those_of_transformers(model: RopeModel) -> None:
    context = CONTEXT if model.others else model.first or CONTEXT
    program, positions = captured(model, context), torch.arange(context - 8, context)
    tokens = torch.tensor([text(8)])
    with torch.no_grad():
        wanted = model.model()(input_ids=tokens, position_ids=positions[None], use_cache=False).logits
        got = program.graph(tokens, positions)
    torch.testing.assert_close(got[0] if isinstance(got, tuple | list) else got, wanted, atol=TOLERANCE, rtol=0)


class ByLength(torch.nn.Module):
    """Rotary code of a model's own, which stretches its angles by the call's largest or smallest position."""

    def __init__(self, inner: Any, largest: bool) -> None:
        super().__init__()
        self.inner, self.largest = inner, largest

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        bound = position_ids.max() if self.largest else position_ids.min()
        cos, sin = self.inner(x, position_ids)
        scale = torch.where(bound >= FIRST, 0.5, 1.0)
        return cos * scale, sin * scale


@pytest.mark.long
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_code_of_its_own_is_refused_for_the_contexts_that_it_mixes(largest: bool) -> None:
    def change(model: Any) -> None:
        model.model.rotary_emb = ByLength(model.model.rotary_emb, largest)

    with pytest.raises(InputError) as raised:
        captured(BY_NAME["default"], CONTEXT, change=change)
    assert raised.value.code == "E743"
    captured(BY_NAME["default"], FIRST, change=change)


class Local(torch.nn.Module):
    """Rotary code that fills memory of its own call with its angles."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        cos, sin = self.inner(x, position_ids)
        own = torch.zeros(1, 1, HEAD)
        own.copy_(torch.full([1, 1, HEAD], 2.0) * position_ids[:, :1, None].sign().abs().clamp(max=0))
        return cos + own, sin + own


@pytest.mark.long
def test_memory_of_a_call_is_no_constant() -> None:
    def change(model: Any) -> None:
        model.model.rotary_emb = Local(model.model.rotary_emb)

    captured(BY_NAME["default"], CONTEXT, change=change)


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("context", [8, 11, 24])
def test_short_contexts_are_tried_as_well(context: int) -> None:
    captured(BY_NAME["yarn"], context)
