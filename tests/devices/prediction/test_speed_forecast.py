"""Speeds that `edgec plan` states: ranges, what they grow with, and the notes where they are unknown or limited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.forecast import Plan, plan, speed_task
from edgec.devices.prediction.speed_forecast import Task, planned_workload
from edgec.devices.targets import Target, load_target
from edgec.exporter.dimensions.parameters import decoder_shape
from tests.devices.prediction.test_plan import BILLION

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
ONEPLUS = load_target("oneplus-12")
TINY = BILLION | {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 320}


def task_of(config: dict[str, Any], name: str) -> Task:
    decoder, made = decoder_shape(config), planned(config, name)
    lengths = (made.prompt_tokens, made.call_tokens, made.context)
    return speed_task(decoder.spec, decoder.parameters, load_target(name), made.widths, made.footprint, lengths)


def planned(config: dict[str, Any], target: str | Target, **lengths: Any) -> Plan:
    return plan(decoder_shape(config), load_target(target) if isinstance(target, str) else target, **lengths)


@pytest.mark.long
def test_speeds_are_estimated_ranges() -> None:
    estimated = planned(BILLION, "iphone-17-pro").speeds
    for estimate in (estimated.prefill_tokens_per_s, estimated.ttft_ms, estimated.decode_tokens_per_s):
        assert estimate is not None
        assert (estimate.how, estimate.confidence) == ("estimated", 0.8)
        assert 0 < estimate.low < estimate.mid < estimate.high
    assert estimated.ttft_ms is not None
    assert estimated.prefill_tokens_per_s is not None
    assert estimated.ttft_ms.mid == pytest.approx(1000 * 512 / estimated.prefill_tokens_per_s.mid)


def speeds(target: str, **lengths: int) -> tuple[float, float, float]:
    estimated = planned(BILLION, target, **lengths).speeds
    assert estimated.decode_tokens_per_s and estimated.prefill_tokens_per_s and estimated.ttft_ms
    return estimated.prefill_tokens_per_s.mid, estimated.ttft_ms.mid, estimated.decode_tokens_per_s.mid


@pytest.mark.long
@pytest.mark.parametrize("target", ["iphone-17-pro-cpu", "raspberry-pi-5"])
def test_a_longer_prompt_is_read_and_decoded_slower(target: str) -> None:
    short, long = (speeds(target, prompt_tokens=n) for n in (128, 4096))
    # Keys and values of 4096 tokens beside 1.2 billion parameters of 4 to 8 bits; attention grows with the prompt.
    assert long[2] < 0.9 * short[2]
    assert long[0] < 0.9 * short[0]
    assert long[1] > 32 * 1.1 * short[1]


@pytest.mark.long
def test_static_shapes_cost_by_the_context_and_not_by_the_prompt() -> None:
    short, long = (speeds("iphone-17-pro", prompt_tokens=n, context=4096) for n in (128, 4096))
    assert (short[0], short[2]) == (long[0], long[2])
    assert long[1] == pytest.approx(32 * short[1])
    small = speeds("iphone-17-pro", prompt_tokens=128, context=512)
    assert small[0] > short[0] and small[2] > short[2]


@pytest.mark.long
def test_a_driver_that_limits_a_unit_is_named() -> None:
    notes = " ".join(planned(BILLION, "snapdragon-x-elite-laptop").notes)
    assert "the driver limits this chip's npu" in notes
    assert "of the memory's 136 GB/s" in notes
    for free in ("oneplus-13", "snapdragon-x2-elite-laptop-gpu"):
        assert "driver" not in " ".join(planned(BILLION, free).notes)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mac-m4-max-40-core", "snapdragon-x-elite-laptop", "raspberry-pi-5"])
def test_laptops_and_boards_get_estimates(name: str) -> None:
    assert all(speed > 0 for speed in speeds(name))


@pytest.mark.long
@pytest.mark.parametrize("name", ["host", "iphone-18-pro"])
def test_unknown_bandwidth_means_unavailable_speeds(name: str) -> None:
    forecast = planned(BILLION, name)
    assert forecast.speeds.decode_tokens_per_s is None
    assert forecast.speeds.ttft_ms is None
    assert any("bandwidth is unknown" in note for note in forecast.notes)


def test_a_model_far_smaller_than_any_measured_gets_no_speed() -> None:
    forecast = planned(TINY, "oneplus-12-cpu", prompt_tokens=16)
    assert forecast.speeds.decode_tokens_per_s is None
    assert any("decode speed is unavailable" in note for note in forecast.notes)


@pytest.mark.long
def test_unknown_clocks_and_instructions_are_said() -> None:
    blank = replace(load_target("oneplus-12-cpu"), core_clocks_hz=None, instruction_set=None)
    notes = " ".join(planned(BILLION, blank).notes)
    assert "core clocks unknown" in notes
    assert "instruction set unknown" in notes


@pytest.mark.long
@pytest.mark.parametrize("quantity", ["prefill_tokens_per_s", "decode_tokens_per_s"])
def test_own_kernels_are_a_runtime_of_their_own_with_a_wider_range(quantity: str) -> None:
    """No phone was measured with them: what is known of XNNPACK there no longer narrows the range."""
    plans = [planned(BILLION, "oneplus-12-cpu", widths=Widths(standard_kernels=s)) for s in (False, True)]
    own, standard = (getattr(p.speeds, quantity) for p in plans)
    assert own.high / own.low > standard.high / standard.low
    assert any("not been measured on a phone yet" in note for note in plans[0].notes)
    assert not any("not been measured on a phone yet" in note for note in plans[1].notes)


@pytest.mark.long
def test_no_speed_is_made_up_for_activations_in_float() -> None:
    """All that was measured on CPUs had 8-bit activations; sizes do not depend on them."""
    usual, floats = (planned(BILLION, "oneplus-12-cpu", widths=Widths(float_inputs=f)) for f in (False, True))
    assert floats.footprint == usual.footprint and "activations in float" in str(floats.widths)
    assert floats.speeds.decode_tokens_per_s is None and floats.speeds.ttft_ms is None
    assert "8-bit activations" in " ".join(floats.notes)


@pytest.mark.long
def test_fewer_bits_are_decoded_faster() -> None:
    """Of a model whose linear layers are most of its bytes, half of them are left out from 4 to 2 bits."""
    four, two = (planned(BILLION, "oneplus-12-cpu", widths=Widths(bits, 64)).speeds for bits in (4, 2))
    assert four.decode_tokens_per_s and two.decode_tokens_per_s
    assert two.decode_tokens_per_s.mid > 1.2 * four.decode_tokens_per_s.mid


@pytest.mark.long
def test_a_prompt_in_floats_is_slower_and_less_certain_than_one_in_integers() -> None:
    floats = Widths(16, 0, 16, 16, 32)
    slow, quick = (plan(decoder_shape(BILLION), load_target("oneplus-13-cpu"), w) for w in (floats, Widths()))
    of_floats, of_integers = (each.speeds.prefill_tokens_per_s for each in (slow, quick))
    assert of_floats and of_integers and of_floats.mid < 0.5 * of_integers.mid
    assert of_floats.high / of_floats.low > 1.5 * of_integers.high / of_integers.low
    assert any("measured on one phone alone" in note for note in slow.notes)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pixel-6a-gpu", "pixel-10-gpu", "galaxy-s24-exynos-gpu", "cmf-phone-2-pro-gpu"])
def test_a_gpu_of_which_no_kind_was_measured_has_no_speed(name: str) -> None:
    forecast = planned(BILLION, name)
    assert forecast.speeds.decode_tokens_per_s is None and forecast.speeds.prefill_tokens_per_s is None
    assert [note for note in forecast.notes if "unavailable: no gpu of this vendor" in note] == [forecast.notes[-1]]


@pytest.mark.long
def test_a_memory_of_two_kinds_widens_the_range() -> None:
    fitted = load_target("cmf-phone-2-pro")
    known = replace(fitted, bandwidth_low_bytes_per_s=None)
    wide, narrow = (planned(BILLION, each).speeds.decode_tokens_per_s for each in (fitted, known))
    assert wide and narrow
    assert wide.low < narrow.low and wide.mid < narrow.mid and wide.high == narrow.high
    assert any("34.1 to 51.2 GB/s" in note for note in planned(BILLION, fitted).notes)


@pytest.mark.long
def test_an_apple_gpu_is_what_runs_there_and_not_core_ml() -> None:
    work = planned_workload(task_of(BILLION, "mac-m4-gpu"), load_target("mac-m4-gpu"))
    assert work is not None and (work.runtime, work.tokens_at_once) == ("mlx", 512)
    short, long = (speeds("mac-m4-gpu", prompt_tokens=512, context=context) for context in (1024, 4096))
    assert short == long  # the cache so far, whatever its room
    assert any("those of MLX" in note for note in planned(BILLION, "mac-m4-gpu").notes)


@pytest.mark.long
def test_vulkan_reads_the_whole_cache() -> None:
    short, long = (speeds("oneplus-12-gpu", prompt_tokens=256, context=context) for context in (512, 4096))
    assert short[0] > long[0] and short[2] > long[2]


@pytest.mark.slow
def test_a_decoder_of_nearly_the_measured_shape_is_taken_for_it() -> None:
    """Qwen3-0.6B by its config, and with a hundredth more in its layers; not with a tenth more."""
    config = json.loads((ARCHITECTURES / "qwen3-0.6b.json").read_text())
    taken = [
        getattr(planned_workload(task_of(config | {"intermediate_size": width}, "oneplus-12"), ONEPLUS), "model", "")
        for width in (3072, 3136, 3584)
    ]
    assert taken == ["qwen3-0.6b", "qwen3-0.6b", "the planned model"]


@pytest.mark.long
def test_no_newer_chip_of_a_line_reads_a_prompt_slower_for_unknown_facts() -> None:
    ipad, iphone = (speeds(name)[0] for name in ("ipad-pro-m4-cpu", "iphone-13-pro-cpu"))
    assert ipad > iphone


@pytest.mark.long
def test_why_a_newer_npu_of_a_line_may_be_slower_is_said() -> None:
    """A Galaxy S25 Ultra's NPU was measured, an S26 Ultra's was not: its chip's on a board, and other phones'."""
    newer, older = (planned(BILLION, name) for name in ("galaxy-s26-ultra-npu", "galaxy-s25-ultra-npu"))
    said = [next(note for note in each.notes if "rests on" in note) for each in (newer, older)]
    assert "none of this phone, 29 of its chip's npu" in said[0] and "1 of this phone" in said[1]
    ends = [each.speeds.decode_tokens_per_s for each in (newer, older)]
    assert ends[0] and ends[1] and ends[0].high > ends[1].mid and ends[0].mid > ends[1].low


@pytest.mark.long
def test_ends_that_are_not_known_are_said() -> None:
    assert any("no bound ends the range of prefill" in note for note in planned(BILLION, "iphone-17-pro-cpu").notes)
    assert not any("no bound ends" in note for note in planned(BILLION, "oneplus-12-cpu").notes)
