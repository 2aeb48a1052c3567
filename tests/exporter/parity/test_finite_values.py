"""A model that computes NaN or infinities is refused by the name of the layer that does."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.parity.probe import Probe
from edgec.exporter.stages.capturing import eager_stage
from edgec.ir.call_plan import call_plan
from tests.passes.decoders import ROWS, tiny_model, tokens

PROBE = Probe(tuple(tokens(30)), call_plan(30, 12, ROWS), "seeded")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_the_first_layer_that_is_not_finite_is_named(value: float) -> None:
    model = deepcopy(tiny_model("llama"))
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3] = value
    with pytest.raises(InputError) as caught:
        eager_stage(model, PROBE)
    assert caught.value.code == "E820" and "model.layers.1.mlp.up_proj" in caught.value.where


def test_a_healthy_model_is_left_alone() -> None:
    assert eager_stage(tiny_model("llama"), PROBE).further is None
