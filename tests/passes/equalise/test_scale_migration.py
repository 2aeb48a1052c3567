from __future__ import annotations

import pytest
import torch

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.equalise.rotate import Rotate
from edgec.passes.equalise.scale_migration import MOVED, ScaleMigration
from edgec.passes.equalise.structure.scale_places import places
from edgec.passes.graph.calibration import Calibration
from tests.passes.prepared_decoders import NAMES, TOLERANCE, calibration, logits, uneven

# Layers of the tiny families: 3, each with two norms, a product and values; one last norm unless its reader is tied.
PLACES = {"llama": 12, "qwen2": 13, "qwen3": 12, "gemma3_text": 12, "phi3": 13}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["awq", "smooth"])
def test_moving_scales_is_exact(name: str, method: str) -> None:
    before = uneven(name)
    assert len(places(before.graph)) == PLACES[name]
    after = run_pass(before, ScaleMigration(method, WeightScheme(2, 32), calibration()))
    assert torch.allclose(logits(after), logits(before), atol=TOLERANCE)
    changed = "decoder.model.layers.1.mlp.down_proj.weight"
    assert not torch.equal(attribute(after.graph, changed), attribute(before.graph, changed))
    assert after.graph.meta[MOVED] == (method,)


@pytest.mark.long
def test_both_methods_and_a_rotation_compose() -> None:
    before = uneven("qwen3")
    after = run_pass(run_pass(before, Rotate()), ScaleMigration("smooth", calibration=calibration()))
    after = run_pass(after, ScaleMigration("awq", calibration=calibration()))
    assert torch.allclose(logits(after), logits(before), atol=TOLERANCE)


def test_awq_protects_the_channels_that_are_large() -> None:
    before = uneven("phi3")
    norm = "decoder.model.layers.0.input_layernorm.weight"
    with torch.no_grad():
        attribute(before.graph, norm)[5] = 60.0
    wanted, scheme = logits(before), WeightScheme(4, 32, activation_bits=0)
    after = run_pass(before, ScaleMigration("awq", scheme, calibration()))
    rounding = Quantize(default=scheme, algorithm="rtn")
    errors = [float((logits(run_pass(program, rounding)) - wanted).norm()) for program in (before, after)]
    assert errors[1] < 0.8 * errors[0]


def test_a_second_time_moves_nothing() -> None:
    once = run_pass(uneven("llama"), ScaleMigration("smooth", calibration=calibration()))
    twice = run_pass(once, ScaleMigration("smooth", calibration=calibration()))
    assert torch.equal(logits(twice), logits(once))


def test_text_is_needed() -> None:
    with pytest.raises(InputError) as caught:
        run_pass(uneven("llama"), ScaleMigration("awq", calibration=Calibration()))
    assert caught.value.code == "E521"


def test_a_model_without_a_place_is_refused() -> None:
    from edgec.exporter.capture.module import capture_module

    program = capture_module(torch.nn.Linear(8, 8), (torch.zeros(1, 8),))
    with pytest.raises(InputError) as caught:
        run_pass(program, ScaleMigration("awq", calibration=Calibration(calls=[[torch.zeros(1, 8)]])))
    assert caught.value.code == "E522"
