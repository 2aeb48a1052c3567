"""The proposed units for reading the prompt and for decoding."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.devices.prediction.forecast import Plan, plan
from edgec.devices.prediction.unit_choice import unit_choice
from edgec.devices.targets import load_target
from edgec.exporter.dimensions.parameters import decoder_shape

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
SHAPE = decoder_shape(CONFIG)
UNITS = ("npu", "gpu", "cpu")


def _plans(phone: str, units: tuple[str, ...] = UNITS, prompt_tokens: int | None = None) -> dict[str, Plan]:
    return {unit: plan(SHAPE, load_target(f"{phone}-{unit}"), prompt_tokens=prompt_tokens) for unit in units}


@pytest.mark.parametrize("phone", ["iphone-17-pro", "galaxy-s24-ultra"])
def test_each_phase_gets_the_unit_of_its_highest_estimate(phone: str) -> None:
    prefill, decode = unit_choice(_plans(phone))
    for phase in (prefill, decode):
        mids = {speed.unit: speed.tokens_per_s.mid for speed in phase.speeds if speed.tokens_per_s}
        assert set(mids) == {"npu", "gpu", "cpu"}
        assert phase.unit == max(mids, key=lambda unit: mids[unit]) == phase.speeds[0].unit
    assert "bound by operations" in prefill.reason and "bound by bandwidth" in decode.reason
    assert "GB/s" in decode.reason and "estimated" in decode.reason


def test_the_proposal_does_not_depend_on_the_unit_that_was_asked_for() -> None:
    orders = (UNITS, UNITS[::-1], ("gpu", "cpu", "npu"))
    units = [[phase.unit for phase in unit_choice(_plans("galaxy-s24-ultra", order))] for order in orders]
    assert units[0] == units[1] == units[2]


def test_prefill_does_more_with_a_byte_than_decode() -> None:
    prefill, decode = unit_choice(_plans("iphone-17-pro", prompt_tokens=64))
    assert "64 tokens at once" in prefill.reason
    # Nearly 4.5 bits a weight: 2 operations for 0.56 to 1 bytes.
    one = float(decode.reason.split("bandwidth: ")[1].split()[0])
    many = float(prefill.reason.split("operations: ")[1].split()[0].replace(",", ""))
    assert 2 < one < 4 and many == pytest.approx(64 * one, rel=0.03)


def test_ranges_that_overlap_ask_for_a_measurement() -> None:
    _, decode = unit_choice(_plans("iphone-17-pro"))
    first, *others = [speed.tokens_per_s for speed in decode.speeds if speed.tokens_per_s]
    near = any(other.high > first.low for other in others)
    assert ("only a measurement can decide" in decode.reason) is near


def test_a_phone_of_unknown_bandwidth_gets_no_proposal() -> None:
    for phase in unit_choice({"cpu": plan(SHAPE, load_target("host"))}):
        assert phase.unit is None and "unknown" in phase.reason
