"""Plans: arithmetic checked by hand, verdicts at their limits, and "unavailable" where nothing is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.backends.forms import FORMS
from edgec.devices.prediction.app_limit import AppLimit
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.footprint import Widths, footprint, kv_bytes, parameter_bytes, read_bytes
from edgec.devices.prediction.forecast import Plan, default_widths, plan
from edgec.devices.prediction.memory_fit import Narrower, Verdict, judge
from edgec.devices.prediction.parameters import STATE_FORMS, Kind, Parameter, StateForm, macs_per_token
from edgec.devices.targets import Target, load_target
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import decoder_shape, parameters, read_config
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.widths import named_widths, override_widths, recipe_widths
from edgec.exporter.sources.decoders.spec import model_spec
from tests.example_counts import examples

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 320,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
LINEAR = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128)
NORMS = 5 * 64
VOCABULARY = 320 * 64
BILLION: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
}
FLOATS = Widths(32, 0, 32, 32, 32)
NARROWER = (
    Narrower(("--recipe", "8bit"), Widths(8, 0, 8, 8, 32), 8192),
    Narrower(("--recipe", "4bit"), Widths(kv_bits=16), 8192),
    Narrower(("--recipe", "4bit", "--context", "1024"), Widths(kv_bits=16), 1024),
)


def of_kind(listed: tuple[Parameter, ...], kind: Kind) -> int:
    return sum(p.count for p in listed if p.kind is kind)


def planned(config: dict[str, Any], target: str | Target = "oneplus-12-cpu", *args: Any, **kwargs: Any) -> Plan:
    return plan(decoder_shape(config), load_target(target) if isinstance(target, str) else target, *args, **kwargs)


def test_tied_parameters_are_counted_once() -> None:
    listed = parameters(TINY)
    assert of_kind(listed, Kind.LINEAR) == LINEAR
    assert of_kind(listed, Kind.OTHER) == NORMS
    assert of_kind(listed, Kind.LM_HEAD) == VOCABULARY
    assert of_kind(listed, Kind.EMBEDDING) == 0
    assert [p.name for p in listed if p.tied] == ["model.embed_tokens.weight"]


def test_untied_parameters_are_both_there() -> None:
    listed = parameters(TINY | {"tie_word_embeddings": False})
    assert of_kind(listed, Kind.LM_HEAD) == of_kind(listed, Kind.EMBEDDING) == VOCABULARY
    assert not any(p.tied for p in listed)


def test_macs_are_those_of_matrices() -> None:
    assert macs_per_token(parameters(TINY)) == LINEAR + VOCABULARY
    assert macs_per_token(parameters(TINY | {"tie_word_embeddings": False})) == LINEAR + VOCABULARY


def test_a_token_uses_the_chosen_experts_only() -> None:
    config = TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    listed = parameters(config)
    experts = sum(p.count for p in listed if p.active == 0.25)
    assert experts == 2 * 8 * 3 * 64 * 128
    assert macs_per_token(listed) == of_kind(listed, Kind.LINEAR) - experts * 3 // 4 + VOCABULARY


def test_all_experts_take_memory_and_the_chosen_ones_time() -> None:
    config = TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 64}
    all_, one = (planned({**config, "num_experts_per_tok": chosen}).footprint for chosen in (8, 1))
    assert all_.size_bytes == one.size_bytes and all_.peak_bytes == one.peak_bytes
    # By hand, per layer: 8 experts of 2 x 128 rows on 64 and 64 rows on 128; 4 bits and 16 of scale for each 32.
    experts = 2 * 8 * (256 * (64 * 4.5 / 8) + 64 * (128 * 4.5 / 8))
    assert all_.read_bytes - one.read_bytes == experts * 7 / 8


def test_what_recurrences_remember_is_the_same_at_any_context() -> None:
    kinds = ["conv", "full_attention", "conv"]
    config = TINY | {"model_type": "lfm2", "num_hidden_layers": 3, "layer_types": kinds, "conv_L_cache": 3}
    # By hand: each of 2 layers keeps 2 tokens of 64 channels, logs 15 more, in float32, and counts them with two int64.
    wanted = 2 * (4 * (2 + 15) * 64 + 16)
    short, long = (planned(config, context=context, prompt_tokens=16) for context in (64, 256))
    assert short.footprint.state_bytes == long.footprint.state_bytes == wanted
    grown = long.footprint.kv_bytes - short.footprint.kv_bytes
    # The widest layer reads 64 values and writes 256, to which LFM2 rounds its feed-forward width.
    assert long.footprint.peak_bytes.low - short.footprint.peak_bytes.low == grown + 4 * (128 - 64) * (64 + 256)
    assert {part.name: part.bytes for part in short.footprint.parts}["states of recurrences"] == wanted


def test_states_of_a_delta_rule_by_hand() -> None:
    kinds = ["linear_attention", "full_attention"]
    sizes = {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    widths = {"linear_key_head_dim": 16, "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4}
    states = decoder_shape(TINY | sizes | widths | {"model_type": "qwen3_5_text", "layer_types": kinds}).states
    assert states is not None
    channels = 2 * 2 * 16 + 4 * 24
    # The filter; then a matrix for each head, into which a token writes keys of 2 heads, 4 decays and 4 values.
    assert [(state.values, state.logged, state.row) for state in states] == [
        (3 * channels, channels, channels),
        (4 * 16 * 24, 2 * 16 + 4 + 4 * 24, 24),
    ]
    # Core ML: float16, rows of 24 padded to 32, and no log.
    assert states[1].bytes(STATE_FORMS["coreml"]) == 2 * 4 * 16 * 32


def test_states_are_held_as_the_backends_hold_them() -> None:
    for (backend, _), form in FORMS.items():
        if form.static and not form.unheld and not form.written:
            assert STATE_FORMS[backend] == StateForm(2 if form.half else 4, form.state_multiple)


def test_a_model_whose_states_are_unknown_says_so() -> None:
    shape = replace(decoder_shape(TINY), states=None)
    assert any("not included" in note and "remember" in note for note in plan(shape, load_target("iphone")).notes)
    assert all("remember" not in note for note in planned(TINY).notes)


def test_a_multimodal_config_is_planned_by_its_text_part() -> None:
    text = TINY | {"model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16}
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 32, "num_hidden_layers": 1}}
    assert sum(p.count for p in parameters(whole)) == sum(p.count for p in parameters(text))


@pytest.mark.shared_data
def test_parameters_of_a_stored_model() -> None:
    folder = Path(__file__).parents[4] / "shared" / "data" / "models" / "stories260K"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent")
    assert sum(p.count for p in parameters(read_config(folder))) == 260_032


def test_float_bytes_are_four_per_parameter() -> None:
    forecast = planned(TINY, "iphone-16-pro-cpu", FLOATS, prompt_tokens=16)
    # A tied table of the same bits is looked up in the matrix; of other bits it lies beside it.
    assert forecast.footprint.size_bytes.low == 4 * (LINEAR + NORMS + VOCABULARY)
    beside = planned(TINY, "iphone-16-pro-cpu", replace(FLOATS, embedding_bits=8), prompt_tokens=16).footprint
    assert beside.size_bytes.low == 4 * (LINEAR + NORMS + VOCABULARY) + VOCABULARY + 320 * 4
    assert forecast.parameters == LINEAR + NORMS + VOCABULARY


@pytest.mark.parametrize(("recipe", "bits"), [("lut2", 2), ("4bit", 4), ("sparse-lut4", 3), ("balanced2", 2)])
def test_look_up_tables_count_their_indices_and_tables(recipe: str, bits: int) -> None:
    widths = replace(named_widths(recipe, "coreml"), lm_head_bits=32, embedding_bits=32)
    assert str(widths.schemes[Kind.LINEAR]) in str(widths)
    tables, plain = (planned(TINY, "iphone-16-pro", w, prompt_tokens=16).footprint for w in (widths, FLOATS))
    saved = plain.size_bytes.low - tables.size_bytes.low
    # float16 tables, for a few rows of a tiny model's narrow matrices, take up to 3 bits a weight
    assert LINEAR * (32 - bits - 3) / 8 <= saved < LINEAR * (32 - bits) / 8


def test_the_balanced_set_takes_two_bits_with_own_kernels_and_four_with_standard_ones() -> None:
    widths = named_widths("balanced2", "xnnpack")
    assert (widths.weight_bits, widths.group_size) == (2, 0)
    standard = recipe_widths(for_backend(replace(load_recipe("balanced2"), kernels="standard"), "xnnpack"))
    assert (standard.weight_bits, standard.group_size) == (4, 0)
    assert standard.standard_kernels and not widths.standard_kernels


def test_float_activations_are_told_where_kernels_usually_quantise_them() -> None:
    recipe = load_recipe("4bit")
    assert recipe.weights is not None
    asked = replace(recipe, weights=replace(recipe.weights, activation_bits=0), on={})
    assert recipe_widths(for_backend(asked, "xnnpack")).float_inputs
    assert not recipe_widths(for_backend(asked, "coreml")).float_inputs
    assert not named_widths("4bit", "xnnpack").float_inputs


def test_other_bits_on_the_command_line_replace_tables() -> None:
    widths = override_widths(named_widths("lut4", "coreml"), weight_bits=8)
    assert widths.weight_bits == 8 and "look-up" not in str(widths)


def test_a_recipe_that_the_target_does_not_execute_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        named_widths("lut4", "xnnpack")
    assert caught.value.code == "E172"


def test_other_formats_hold_a_tied_embedding_once() -> None:
    forecast = planned(TINY, "iphone-16-pro", replace(FLOATS, kv_bits=16), prompt_tokens=16)
    assert forecast.footprint.size_bytes.low == 4 * (LINEAR + NORMS + VOCABULARY)


def weight_bytes(parameter: Parameter, bits: int, group_size: int, kernels: str) -> int:
    return parameter_bytes(parameter, Widths(bits, group_size), kernels)


def test_minimums_and_the_rules_of_a_recipe_are_counted() -> None:
    widths = named_widths("4bit", "xnnpack")
    assert "4-bit group 32 with minimums, *.v_proj.weight in 6-bit, *.down_proj.weight in 5-bit" in str(widths)
    # A row of 256 values: integers, 8 scales and 8 minimums of 6 bits, and two float16 steps for them.
    sizes = {"layers.0.q_proj.weight": 4, "layers.0.v_proj.weight": 6, "layers.0.down_proj.weight": 5}
    for name, bits in sizes.items():
        matrix = Parameter(name, (2, 256), Kind.LINEAR)
        assert parameter_bytes(matrix, widths, "edgec_linear") == 2 * (256 * bits // 8 + 12 + 4)
        other = override_widths(widths, weight_bits=8)
        assert parameter_bytes(matrix, other, "edgec_linear") == 2 * (256 + 8 * 2) and "proj" not in str(other)
    floats = replace(widths, rules=(("*.q_proj.weight", None),))
    assert parameter_bytes(Parameter("layers.0.q_proj.weight", (2, 256), Kind.LINEAR), floats, "edgec_linear") == 2048


@pytest.mark.long
def test_every_named_recipe_is_planned_where_it_is_executed() -> None:
    planned_with = {name: planned(BILLION, "host", named_widths(name, "xnnpack")) for name in ("3bit", "5bit")}
    sizes = {name: each.footprint.size_bytes.low for name, each in planned_with.items()}
    assert sizes["3bit"] < planned(BILLION, "host", named_widths("4bit", "xnnpack")).footprint.size_bytes.low
    assert sizes["5bit"] > planned(BILLION, "host", named_widths("4bit", "xnnpack")).footprint.size_bytes.low


def test_grouped_weights_carry_a_scale_per_group() -> None:
    matrix = Parameter("w", (96, 64), Kind.LINEAR)
    assert weight_bytes(matrix, 4, 32, "edgec_linear") == 96 * 64 // 2 + 96 * 2 * 2
    assert weight_bytes(matrix, 8, 0, "edgec_linear") == 96 * 64 + 96 * 4
    assert weight_bytes(matrix, 8, 32, "edgec_linear") == 96 * 64 + 96 * 2 * 2
    assert weight_bytes(matrix, 4, 32, "xnnpack") == weight_bytes(matrix, 4, 32, "coreml")
    assert weight_bytes(matrix, 4, 32, "coreml") == 96 * 64 // 2 + 96 * 2 * 2


@pytest.mark.parametrize("bits", [2, 3])
def test_few_bits_take_their_own_size(bits: int) -> None:
    matrix = Parameter("w", (96, 64), Kind.LINEAR)
    saved = 96 * 64 * (4 - bits) // 8
    assert weight_bytes(matrix, bits, 32, "edgec_linear") == weight_bytes(matrix, 4, 32, "edgec_linear") - saved


@pytest.mark.long
def test_three_bits_lie_between_two_and_four() -> None:
    plans = [
        planned(BILLION, "oneplus-12-cpu", named_widths(name, "xnnpack")) for name in ("balanced2", "3bit", "4bit")
    ]
    assert [p.footprint.read_bytes for p in plans] == sorted(p.footprint.read_bytes for p in plans)


def test_an_awkward_width_gets_what_kernels_read() -> None:
    """No group size divides 172: eight bits per channel."""
    assert weight_bytes(Parameter("w", (64, 172), Kind.LINEAR), 4, 32, "edgec_linear") == 64 * 172 + 64 * 4


def test_kv_bytes_by_hand() -> None:
    spec = model_spec(TINY)
    per_token = 2 * 2 * 2 * 16  # K and V, layers, heads, head width
    assert kv_bytes(spec, 32, 100) == per_token * 4 * 100
    assert kv_bytes(spec, 16, 100) == per_token * 2 * 100
    assert kv_bytes(spec, 8, 100) == 100 * 2 * 2 * 2 * (16 + 4)


def test_windows_and_donors_need_less_cache() -> None:
    spec = model_spec(TINY)
    first, second = spec.layers
    windowed = replace(spec, layers=(replace(first, window=16), second))
    per_layer = 2 * 2 * 16 * 4
    assert kv_bytes(windowed, 32, 200, prefill_chunk=8) == per_layer * (16 - 1 + 8) + per_layer * 200
    assert kv_bytes(windowed, 32, 10, prefill_chunk=8) == per_layer * 20
    shared = replace(spec, layers=(first, replace(second, kv_donor=0)))
    assert kv_bytes(shared, 32, 200) == per_layer * 200


@pytest.mark.long
def test_peak_counts_the_packed_copy_only_where_one_is_made() -> None:
    packed = planned(TINY, "iphone-16-pro-cpu", replace(FLOATS, kv_bits=16), prompt_tokens=16).footprint
    mapped = planned(TINY, "iphone-16-pro-cpu", Widths(kv_bits=16), prompt_tokens=16).footprint
    once = planned(TINY, "iphone-16-pro", Widths(kv_bits=16), prompt_tokens=16).footprint
    standard = planned(TINY, "iphone-16-pro-cpu", Widths(standard_kernels=True), prompt_tokens=16).footprint
    for repacked in (packed, standard):
        assert "packed copy of matrices" in {part.name for part in repacked.parts}
    assert "packed copy of matrices" not in {part.name for part in (*once.parts, *mapped.parts)}
    for forecast in (packed, mapped, once):
        assert forecast.size_bytes.low + forecast.kv_bytes < forecast.peak_bytes.low <= forecast.peak_bytes.high
        assert [part.bytes for part in forecast.parts] == sorted((part.bytes for part in forecast.parts), reverse=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("widths", "resident"), [(Widths(standard_kernels=True), 1_921e6), (Widths(16, 0, 16, 16, 16), 3_185e6)]
)
def test_peak_holds_published_resident_memory(widths: Widths, resident: float) -> None:
    """Llama 3.2 1B, 4-bit and bf16, on a OnePlus 12 with ExecuTorch: Meta's model card."""
    plan = planned(BILLION, "oneplus-12-cpu", widths, context=2048, prompt_tokens=64).footprint
    # ExecuTorch's own export stores the tied table once more.
    table = BILLION["vocab_size"] * BILLION["hidden_size"] * widths.embedding_bits / 8
    assert plan.peak_bytes.low <= resident <= plan.peak_bytes.high + table


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([(2, 4), (4, 8), (8, 16), (16, 32)]), st.sampled_from([0, 32, 64, 128]), st.booleans())
def test_fewer_bits_are_never_more_bytes(bits: tuple[int, int], group: int, xnnpack: bool) -> None:
    listed = _LISTED
    narrow, wide = (Widths(b, group, b, b, 16) for b in bits)
    backend, form = ("xnnpack", "pte") if xnnpack else ("coreml", "mlpackage")
    sizes = [
        footprint(listed, _SPEC, w, format=form, backend=backend, context=64, prefill_chunk=16).size_bytes.low
        for w in (narrow, wide)
    ]
    assert sizes[0] <= sizes[1]
    assert read_bytes(listed, narrow, backend) <= read_bytes(listed, wide, backend)


_LISTED, _SPEC = parameters(TINY), model_spec(TINY)


def test_the_verdict_at_its_edges() -> None:
    peak = Range(100, 150, 200, None)
    for limit, verdict in ((200, Verdict.FITS), (199, Verdict.TIGHT), (100, Verdict.TIGHT), (99, Verdict.DOES_NOT_FIT)):
        assert judge(peak, AppLimit(limit, limit, ""), None) is verdict
    assert judge(peak, AppLimit(99, 100, ""), None) is judge(peak, AppLimit(199, 250, ""), None) is Verdict.TIGHT
    assert judge(peak, None, None) is Verdict.UNKNOWN
    assert judge(peak, None, 99) is Verdict.DOES_NOT_FIT


@pytest.mark.long
def test_a_smaller_recipe_is_proposed_where_the_asked_one_does_not_fit() -> None:
    phone = load_target("iphone-12-mini-cpu")
    forecast = planned(BILLION, phone, Widths(16, 0, 16, 16, 32), context=8192, narrower=NARROWER)
    assert forecast.verdict is Verdict.DOES_NOT_FIT
    assert forecast.smaller is not None
    assert forecast.smaller.verdict is Verdict.FITS and forecast.smaller.asked is NARROWER[0]
    again = planned(BILLION, phone, forecast.smaller.asked.widths, context=forecast.smaller.asked.context)
    assert again.verdict is Verdict.FITS
    assert again.footprint.peak_bytes == forecast.smaller.peak_bytes


@pytest.mark.long
def test_the_least_bad_recipe_is_proposed_where_none_fits() -> None:
    phone = replace(load_target("iphone-12-mini-cpu"), memory_bytes=300_000_000, app_limit_bytes=200_000_000)
    forecast = planned(BILLION, phone, context=4096, narrower=NARROWER)
    assert forecast.smaller is not None and forecast.smaller.asked is NARROWER[2]
    assert forecast.smaller.verdict is Verdict.DOES_NOT_FIT
    assert forecast.smaller.peak_bytes.high < forecast.footprint.peak_bytes.high


@pytest.mark.long
def test_nothing_is_proposed_where_it_fits_or_nothing_is_known() -> None:
    assert planned(BILLION, "iphone-13-pro-cpu", context=2048, narrower=NARROWER).smaller is None
    forecast = planned(BILLION, "host", context=2048, narrower=NARROWER)
    assert forecast.verdict is Verdict.UNKNOWN
    assert forecast.smaller is None


@pytest.mark.long
@pytest.mark.parametrize("field", ["weight_bits", "embedding_bits", "lm_head_bits"])
def test_bits_the_format_cannot_hold_are_refused(field: str) -> None:
    with pytest.raises(InputError, match="cannot hold") as caught:
        planned(BILLION, "galaxy-s25-ultra", override_widths(Widths(), **{field: 2}))
    assert caught.value.code == "E183"
    assert "4, 8, 16" in caught.value.fix


@pytest.mark.long
@pytest.mark.parametrize("lengths", [{"context": 131073}, {"context": -1}, {"context": 64, "prompt_tokens": 65}])
def test_lengths_out_of_range_are_refused(lengths: dict[str, int]) -> None:
    with pytest.raises(InputError) as caught:
        planned(BILLION, "iphone-17-pro", **lengths)
    assert caught.value.code == "E184"


def test_a_non_decoder_model_is_refused() -> None:
    with pytest.raises(InputError):
        planned({"model_type": "vit"})


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_config(tmp_path)
    assert caught.value.code == "E111"


@pytest.mark.long
def test_json_is_plain_and_unknown_is_null() -> None:
    data = json.loads(json.dumps(planned(BILLION, "host", default_widths(load_target("host"))).to_json()))
    assert data["speeds"]["decode_tokens_per_s"] is None
    assert data["target"]["memory_bytes"] is None
    assert data["verdict"] == "unknown"
    assert data["footprint"]["peak_bytes"]["confidence"] is None


def test_a_recipe_gives_its_widths() -> None:
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.resolve.widths import override_widths, recipe_widths

    float_widths = recipe_widths(load_recipe("float"))
    assert (float_widths.weight_bits, float_widths.kv_bits) == (32, 32)
    four = recipe_widths(load_recipe("4bit-small"))
    assert (four.weight_bits, four.group_size, four.kv_bits) == (4, 32, 8)
    assert override_widths(four, kv_bits=16, weight_bits=None).kv_bits == 16
