"""Selecting rows early gives the same logits as in front of the lm_head, with fewer multiplications."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.metrics import difference
from edgec.ir.call_plan import call_plan
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.ir.reexport import reexport
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.example_counts import examples
from tests.families import FAMILIES, Family
from tests.passes.deep_decoders import CHUNK, CONTEXT, LAYERS, MODELS, ROWS, captured, decoder, fused, tokens
from tests.passes.prefill_macs import prefill_macs

aten = torch.ops.aten
PLAN = call_plan(40, CHUNK, ROWS)
# The same operations on fewer rows: a matrix product may sum in another order (measured: 5e-7 of the largest logit).
TOLERANCE = 1e-5


@lru_cache(maxsize=32)
def cached(name: str, boundary: int = 0, kernels: str = "edgec", dtype: str = "float32") -> Program:
    program = run_pass(decoder(name), SharedKv(boundary)) if boundary else decoder(name)
    return run_pass(fused(program) if kernels == "edgec" else program, KvCache(CONTEXT, CHUNK, dtype, kernels=kernels))


@lru_cache(maxsize=32)
def skipping(name: str, boundary: int = 0, kernels: str = "edgec", dtype: str = "float32") -> Program:
    return run_pass(cached(name, boundary, kernels, dtype), PrefillSkip())


def gap(before: Program, after: Program) -> float:
    return difference(run_program(before, tokens(), PLAN), run_program(after, tokens(), PLAN), 0.0).max_relative


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kernels", ["edgec", "standard"])
@pytest.mark.parametrize("boundary", [0, 2])
@pytest.mark.parametrize(
    "name", ["llama", "gemma3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("qwen3", "phi3"))]
)
def test_prefill_decode_and_verification_stay_the_same(name: str, boundary: int, kernels: str) -> None:
    assert gap(cached(name, boundary, kernels), skipping(name, boundary, kernels)) < TOLERANCE


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
def test_rounded_caches_stay_the_same(dtype: str) -> None:
    assert gap(cached("gemma3", 2, dtype=dtype), skipping("gemma3", 2, dtype=dtype)) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.name == "gemma3n_text" else [])
        for f in FAMILIES
        if any(f.donors)
    ],
)
def test_models_that_share_by_nature(family: Family) -> None:
    before = run_pass(fused(captured(family)), KvCache(CONTEXT, CHUNK))
    after = run_pass(before, PrefillSkip())
    assert gap(before, after) < TOLERANCE
    assert sum(prefill_macs(after, CHUNK, 1).values()) < 0.75 * sum(prefill_macs(before, CHUNK, 1).values())


@pytest.mark.long
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), name=st.sampled_from(["llama", "gemma3"]), boundary=st.sampled_from([0, 2, 3]))
def test_any_rows_of_any_chunks(data: st.DataObject, name: str, boundary: int) -> None:
    before, after = cached(name, boundary), skipping(name, boundary)
    ids, start = tokens(CONTEXT), 0
    for _ in range(data.draw(st.integers(1, 6))):
        size = min(data.draw(st.integers(1, CHUNK)), CONTEXT - start)
        rows = torch.tensor(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=ROWS)))
        call = torch.tensor([ids[start : start + size]]), torch.arange(start, start + size), rows
        wanted, got = (program.graph(*call)[0] for program in (before, after))
        assert float((wanted - got).abs().max()) <= TOLERANCE * float(wanted.abs().max())
        # Undone tokens, as after a rejected draft.
        start = max(0, start + size - data.draw(st.integers(0, 2)))


@pytest.mark.long
@pytest.mark.parametrize("first", [Quantize(), PrefillSkip()], ids=["quantised first", "hoisted first"])
@pytest.mark.parametrize("boundary", [0, 2])
def test_quantised_layers_keep_their_form_and_their_numbers(boundary: int, first: Quantize | PrefillSkip) -> None:
    second = PrefillSkip() if isinstance(first, Quantize) else Quantize()
    plain = run_pass(cached("qwen3", boundary), Quantize())
    both = run_pass(run_pass(cached("qwen3", boundary), first), second)
    # A sum in another order may push an activation over a rounding step of its 8 bits.
    assert gap(plain, both) < 1e-2
    *layers, _ = zip(*(_operands(both, aten.linear.default, index) for index in (0, 1)), strict=True)
    assert {operand.target for pair in layers for operand in pair} == {DEQUANTIZE}


def _by_name(program: Program) -> dict[str, int]:
    return {name: value.numel() for name, value in program.graph.named_parameters()}


@pytest.mark.long
@pytest.mark.parametrize("boundary", [0, 1, 2, 3])
def test_layers_behind_the_last_writer_run_for_the_wanted_rows(boundary: int) -> None:
    program, weights = cached("qwen3", boundary), _by_name(decoder("qwen3"))
    last = (boundary or LAYERS) - 1
    size = {n: w for n, w in weights.items() if ".layers." in n and "proj" in n}
    full = sum(w for n, w in size.items() if _layer(n) < last or (_layer(n) == last and ".self_attn.k_proj" in n))
    full += sum(w for n, w in size.items() if _layer(n) == last and ".self_attn.v_proj" in n)
    shared = sum(w for n, w in size.items() if _layer(n) > last and (".k_proj" in n or ".v_proj" in n))
    few = sum(size.values()) - full - shared
    for count, rows in ((CHUNK, 1), (CHUNK, ROWS), (1, 1)):
        assert prefill_macs(program, count, rows)["linear"] == count * (full + few)
        assert prefill_macs(skipping("qwen3", boundary), count, rows)["linear"] == count * full + rows * few


def _layer(name: str) -> int:
    return int(name.partition(".layers.")[2].partition(".")[0])


def _operands(program: Program, target: object, index: int) -> list[Any]:
    """One argument of every call of an operator."""
    return [node.args[index] for node in nodes_of(program.graph, target)]


def test_attention_of_wanted_rows_still_sees_all_that_was_written() -> None:
    program = skipping("gemma3", 2)
    whole = [*_operands(program, CACHE_WRITE, 1), *_operands(program, CACHED_ATTENTION, 2)]
    assert {node.target for node in whole} == {"positions"}
    selected = [node.target is aten.index_select.default for node in _operands(program, CACHED_ATTENTION, 1)]
    assert selected == [False, True, True, True]


def test_standard_kernels_keep_their_queries() -> None:
    program = skipping("llama", 2, "standard")
    kernels = nodes_of(program.graph, torch.ops.llama.custom_sdpa.default)
    assert [node for node in _operands(program, aten.index_select.default, 0) if node in kernels] == kernels[-1:]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", MODELS)
def test_it_can_run_twice(name: str) -> None:
    again = run_pass(skipping(name), PrefillSkip())
    assert [n.target for n in again.graph.graph.nodes] == [n.target for n in skipping(name).graph.graph.nodes]


@pytest.mark.long
def test_the_graph_can_be_traced_again() -> None:
    program = skipping("gemma3", 2)
    exported = reexport(program.graph, program.interface)
    shapes = [node.meta["val"].shape for node in exported.graph.nodes if node.target is CACHED_ATTENTION]
    symbols = [str(shape[1]) for shape in shapes]
    assert symbols[0] != symbols[1] == symbols[2] == symbols[3]


@pytest.mark.long
def test_without_a_selection_it_is_refused() -> None:
    from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
    from edgec.exporter.sources.decoders.spec import model_spec
    from tests.families import build, empty_model
    from tests.passes.decoders import StateDict

    family = MODELS["llama"]
    skeleton = build_skeleton(empty_model(family.config()))
    weights = StateDict(build(family, "eager"))
    plain = capture_decoder(skeleton, model_spec(family.config().to_dict()), weights, CONTEXT)
    with pytest.raises(InputError) as refused:
        run_pass(plain, PrefillSkip())
    assert refused.value.code == "E189"


@pytest.mark.slow
def test_the_artifact_computes_what_the_graph_says(tmp_path: Path) -> None:
    from edgec.backends.cpu.lower import lower
    from edgec.exporter.parity.execution import run_artifact

    program = run_pass(skipping("gemma3", 2), FoldConstants())
    (tmp_path / "model.pte").write_bytes(lower(program).artifact)
    executed = run_artifact(tmp_path / "model.pte", tokens(), PLAN)
    # The ladder's own budget for float artifacts: XNNPACK approximates square roots and exponentials.
    assert difference(run_program(program, tokens(), PLAN), executed, 0.0).max_relative < 1e-3
