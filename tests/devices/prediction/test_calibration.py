"""The published speeds: complete, consistent with the chips, and without rows that were declared doubtful."""

from __future__ import annotations

import pytest

from edgec.devices.prediction.calibration import Observation, decoders, observations
from edgec.devices.prediction.workload import fastest_four_hz
from edgec.devices.targets import chips, phones


def test_rows_are_many_and_unique() -> None:
    rows = [row.row for row in observations()]
    assert len(rows) == len(set(rows)) == 380  # the number docs/plan.md states


def test_each_row_measures_something_and_names_its_source() -> None:
    for row in observations():
        assert row.prefill_tokens_per_s or row.decode_tokens_per_s
        assert row.source


def test_phones_have_the_same_chip_as_in_their_table() -> None:
    for row in observations():
        if row.workload.device in phones():
            assert phones()[row.workload.device]["chip"] == row.workload.chip


def test_bandwidth_agrees_with_the_chip_where_it_has_one() -> None:
    for row in observations():
        stated = chips()[row.workload.chip].get("bandwidth_bytes_per_s")
        assert stated is None or stated == pytest.approx(row.workload.bandwidth_bytes_per_s, rel=1e-3)


def test_no_laptop_cpu_is_in_the_cpu_rows() -> None:
    assert not [row.row for row in observations() if row.workload.unit == "cpu" and row.workload.laptop]


def test_implied_reading_stays_below_the_peak() -> None:
    """Decode cannot read its weights faster than the memory delivers them; a row that does is wrong."""
    for row in observations():
        if row.decode_tokens_per_s:
            read = row.decode_tokens_per_s * row.workload.weight_bytes
            assert read <= row.workload.bandwidth_bytes_per_s, row.row


def test_the_four_fastest_cores_are_counted() -> None:
    assert fastest_four_hz([(2, 4e9), (6, 3e9)]) == 14e9
    assert fastest_four_hz([(1, 3e9), (2, 2e9)]) == 7e9
    assert fastest_four_hz(None) is None


def row(number: str) -> Observation:
    return next(each for each in observations() if each.row == number)


def test_macs_laptops_and_boards_that_rows_name_are_targets() -> None:
    machines = [each for each in observations() if chips()[each.workload.chip]["kind"] != "phone"]
    assert len(machines) >= 40
    assert {each.workload.device for each in machines} <= set(phones())


def test_every_decoder_has_a_source_and_no_row_needs_another() -> None:
    assert {each.workload.model for each in observations()} == set(decoders())
    for name, shape in decoders().items():
        assert shape["source"], name
        assert 0 < int(shape["prompt_parameters"]) <= int(shape["matrix_parameters"]), name
        assert int(shape["attention_layers"]) <= int(shape["layers"]), name


def test_static_graphs_read_the_whole_cache() -> None:
    # Phi-3.5-mini on a Hexagon NPU, 4,096 slots: 32 layers, keys and values of 3,072 bytes each.
    assert row("141").workload.cache_bytes == 2 * 32 * 3072 * 4096


def test_attention_grows_with_the_prompt() -> None:
    # Qwen3-4B with MLX: 36 layers of 32 heads of 128, half of the prompt attended on average.
    short, long = row("376"), row("379")
    assert short.prompt_tokens == 2704
    assert short.workload.attention_operations == 4 * 36 * 4096 * 1352
    assert long.workload.attention_operations / short.workload.attention_operations == 10776 / 2704


def test_layers_that_only_read_a_cache_are_left_out_where_the_runtime_does() -> None:
    shape = decoders()["gemma-4-e2b"]
    litert, llama = row("33").workload, row("1013").workload
    assert (litert.runtime, llama.runtime, llama.model) == ("litert", "llama.cpp", "gemma-4-e2b")
    assert litert.prompt_parameters == float(shape["prompt_parameters"])
    assert llama.prompt_parameters == float(shape["matrix_parameters"])
