"""The cache against the uncached graph: layouts, dtypes, chunk shapes, rewinding, in every combination."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_eager, run_program
from edgec.exporter.parity.metrics import difference
from edgec.ir.attention import OPERATOR
from edgec.ir.call_plan import call_plan, feed
from edgec.ir.program import Effect, Program
from edgec.passes.contract import clone, nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, ROWS, captured, tiny_model, tokens

WINDOWED: dict[str, Any] = {"family": "mistral", "sliding_window": 8}
# float32 sums in another order; float16 keeps 11 bits of each key, int8 keeps 8 (and of the query, in ExecuTorch's
# kernels), int4 keeps 4: a random model's logits move by half.
TOLERANCE = {"float32": 1e-5, "float16": 5e-3, "int8": 0.12, "int4": 0.6}
KINDS = [
    (dtype, kernels)
    for dtype in TOLERANCE
    for kernels in ("edgec", "standard")
    if kernels == "edgec" or dtype in ("float32", "int8")
]


def cached(dtype: str, chunk: int = 12, sink: int = 0, kernels: str = "edgec", **model: Any) -> Program:
    return run_pass(captured(**model), KvCache(CONTEXT, chunk, dtype, sink, kernels))


@pytest.mark.sweep(4)
@pytest.mark.long
@pytest.mark.parametrize(("dtype", "kernels"), KINDS)
@pytest.mark.parametrize("model", [{"family": "llama"}, WINDOWED], ids=["full", "ring"])
def test_cached_equals_transformers(dtype: str, kernels: str, model: dict[str, Any]) -> None:
    program, plan = cached(dtype, kernels=kernels, **model), call_plan(40, 12, ROWS)
    reference = run_eager(tiny_model(**model), tokens(), plan)
    gap = difference(reference, run_program(program, tokens(), plan), 0.0)
    assert gap.max_relative < TOLERANCE[dtype]


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "kernels"), KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 12), min_size=4, max_size=12),
    undo=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_any_chunking_with_rewinds_gives_the_same_logits(
    dtype: str, kernels: str, sizes: list[int], undo: list[int]
) -> None:
    program = cached(dtype, kernels=kernels, **WINDOWED)
    ids, start, seen = tokens(CONTEXT), 0, []
    for wanted_size, back in zip(sizes, undo, strict=False):
        start = max(0, start - back)
        size = min(wanted_size, CONTEXT - start)
        if not size:
            break
        chunk = torch.tensor([ids[start : start + size]])
        step = program.graph(chunk, torch.arange(start, start + size), torch.tensor([size - 1]))
        start += size
        seen.append((start - 1, step[0, 0]))
    with torch.no_grad():
        whole = tiny_model(**WINDOWED)(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    wanted = torch.stack([whole[position] for position, _ in seen])
    assert difference(wanted, torch.stack([row for _, row in seen]), 0.0).max_relative < TOLERANCE[dtype]


@pytest.mark.long
@pytest.mark.parametrize("kernels", ["edgec", "standard"])
def test_a_new_sequence_needs_no_reset(kernels: str) -> None:
    program, plan = cached("float32", kernels=kernels, **WINDOWED), call_plan(30, 12, ROWS)
    first = run_program(program, tokens(30), plan)
    run_program(program, list(reversed(tokens(40))), call_plan(40, 12, ROWS))
    again = run_program(program, tokens(30), plan)
    # What is masked adds 0; torch's sums still depend on the alignment of memory.
    assert float((first - again).abs().max()) < 1e-5


@pytest.mark.long
@pytest.mark.parametrize("kernels", ["edgec", "standard"])
def test_sink_tokens_stay_visible_beyond_the_window(kernels: str) -> None:
    with_sinks = cached("float32", sink=2, kernels=kernels, **WINDOWED)
    changed = [5, 6, *tokens()[2:]]
    plan = call_plan(40, 12, ROWS)
    plain = cached("float32", kernels=kernels, **WINDOWED)
    # Two layers of window 8 reach back 14 tokens: without sinks the first two cannot reach the last positions.
    moved = run_program(with_sinks, tokens(), plan)[-1] - run_program(with_sinks, changed, plan)[-1]
    still = run_program(plain, tokens(), plan)[-1] - run_program(plain, changed, plan)[-1]
    # What is masked adds 0; torch's sums still depend on the alignment of memory (2.4e-6 seen on logits of about 1).
    assert float(still.abs().max()) < 1e-5 < float(moved.abs().max())
    assert KvCache(CONTEXT, 12, sink_tokens=2).effect is Effect.SEMANTIC


@pytest.mark.parametrize(
    ("kernels", "companions"),
    [("edgec", ["_grid"]), ("standard", ["_scale", "_zero_point"])],
    ids=["edgec", "standard"],
)
def test_states_are_described(kernels: str, companions: list[str]) -> None:
    states = cached("int8", kernels=kernels, **WINDOWED).interface.states
    assert {state.role for state in states} == {
        f"{of}{suffix}" for of in ("key", "value") for suffix in ("", *companions)
    }
    assert {(state.layout, state.slots, state.window) for state in states} == {("ring", 8 - 1 + 12, 8)}


@pytest.mark.long
def test_int8_takes_less_than_half_of_float32() -> None:
    sizes = {
        dtype: sum(getattr(program.graph, s.buffer).nbytes for s in program.interface.states)
        for dtype in ("float32", "int8")
        for program in [cached(dtype, family="llama")]
    }
    assert sizes["int8"] < sizes["float32"] / 2


def test_layers_that_read_the_same_keys_share_one_cache() -> None:
    program = captured("llama")
    graph = clone(program.graph)
    first, second = nodes_of(graph, OPERATOR)
    second.args = (second.args[0], *first.args[1:3], *second.args[3:])
    graph.recompile()
    shared = Program(graph, program.interface, program.spec)
    result = run_pass(shared, KvCache(CONTEXT, 12))
    assert {state.layer for state in result.interface.states} == {0}
    plan = call_plan(40, 12, ROWS)
    assert torch.allclose(run_program(shared, tokens(), plan), run_program(result, tokens(), plan), atol=1e-4)


def test_attention_without_causal_order_is_refused() -> None:
    program = captured("llama")
    graph = clone(program.graph)
    node = nodes_of(graph, OPERATOR)[0]
    node.update_arg(7, False)
    with pytest.raises(InputError) as refused:
        run_pass(Program(graph, program.interface, program.spec), KvCache(CONTEXT, 12))
    assert refused.value.code == "E181" and "not causal" in refused.value.why


def test_the_plan_covers_every_token_once() -> None:
    plan = call_plan(37, 12, ROWS)
    assert sum(call.size for call in plan) == 37
    assert {1, 4, 12} <= {call.size for call in plan}
    collected = feed(lambda ids, positions, rows: positions[rows].float().reshape(1, -1, 1), list(range(37)), plan)
    assert collected.flatten().tolist()[-1] == 36


@pytest.mark.long
@pytest.mark.parametrize("family", ["diffllama", pytest.param("hrm_text", marks=pytest.mark.slow)])
def test_two_attentions_of_one_layer_have_a_cache_each(family: str) -> None:
    program, plan = captured(family), call_plan(40, 12, ROWS)
    attentions = len(nodes_of(program.graph, OPERATOR))
    result = run_pass(program, KvCache(CONTEXT, 12))
    names = [state.buffer for state in result.interface.states]
    assert len(set(names)) == len(names) == 2 * attentions > 2 * len({s.layer for s in result.interface.states})
    wanted = run_program(program, tokens(), plan)
    # Float32 sums in another order.
    assert difference(wanted, run_program(result, tokens(), plan), 0.0).max_relative < 1e-4
