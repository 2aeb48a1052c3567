"""The published speeds: complete, consistent with the chips, and without rows that were declared doubtful."""

from __future__ import annotations

import pytest

from benchmarks.asked import unfitted
from edgec.devices.prediction.calibration import Observation, decoders, observations
from edgec.devices.prediction.workload import fastest_four_hz
from edgec.devices.targets import chips, phones


def test_rows_are_many_and_unique() -> None:
    rows = [row.row for row in observations()]
    assert len(rows) == len(set(rows)) == 503  # the number docs/plan.md states


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
    assert {each.workload.model for each in (*observations(), *unfitted())} == set(decoders())
    for name, shape in decoders().items():
        assert shape["source"], name
        assert 0 < int(shape["prompt_parameters"]) <= int(shape["matrix_parameters"]), name
        assert int(shape["attention_layers"]) <= int(shape["layers"]), name
        assert 0 < int(shape["head_parameters"]) < int(shape["matrix_parameters"]), name


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


def test_an_embedding_beside_the_lm_head_is_not_read() -> None:
    # Llama 3 8B of 8.03 billion parameters: 525 million are the embedding's, of which a token reads one row.
    work = row("11").workload
    assert work.parameters == 6_979_321_856 + 525_336_576
    assert work.weight_bytes / 4.14e9 == pytest.approx(work.parameters / 8.03e9)


def test_what_a_source_rounds_is_less_certain() -> None:
    whole, tenths = row("174"), row("363")
    assert (whole.decode_tokens_per_s, whole.decode_step) == (2.0, 1.0)
    assert tenths.decode_tokens_per_s == 143.7
    assert tenths.decode_step == pytest.approx(0.1)


def test_floats_are_told_by_their_bits_on_cpus_and_by_the_row_elsewhere() -> None:
    kinds = {number: row(number).workload.arithmetic for number in ("174", "180", "116", "121", "363")}
    assert kinds == {"174": "float", "180": "integer", "116": "float", "121": "integer", "363": "float"}


def test_plan_asked_for_the_bits_of_a_row_counts_nearly_its_bytes() -> None:
    # Q4_0 of Qwen3-1.7B: 18 bytes for 32 weights as in edgec's form, and an lm_head of 6.6 instead of 8 bits.
    asked = row("1043")
    assert asked.bits == 4 and asked.asked_bytes == pytest.approx(asked.workload.weight_bytes, rel=0.06)
