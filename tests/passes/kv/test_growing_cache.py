"""Caches that grow from call to call, against the graph with caches of its own; what the operator lacks is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_program
from edgec.ir.growing_cache import GrowingMethods
from edgec.ir.program import Program
from edgec.ir.static_methods import methods_step, named_results, run_static
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_pass
from edgec.passes.kv.growing_cache import GrowingCache, refuse_ungrouped
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, captured, tokens

pytestmark = pytest.mark.long


def cached(family: str, *further: Pass, sink: int = 0) -> Program:
    cache = KvCache(CONTEXT, CHUNK, sink_tokens=sink, rings=False)
    return applied(captured(family), (RemoveNoops(), LastLogits(1), *further, cache))


def growing(program: Program) -> GrowingMethods:
    held = [tensor for tensor in program.interface.inputs if tensor.name.startswith("past_key_values.")]
    shapes: dict[str, Any] = {tensor.name: (tensor.shape[1], tensor.shape[3]) for tensor in held}
    return GrowingMethods(partial(named_results, program), shapes, CHUNK)


@pytest.mark.parametrize(
    ("family", "further"),
    [
        ("gemma3_text", ()),
        pytest.param("gemma2", (), marks=pytest.mark.slow),
        pytest.param("qwen3", (), marks=pytest.mark.slow),
        pytest.param("llama", (SharedKv(1, "reuse"),), marks=pytest.mark.slow),
    ],
)
def test_the_logits_are_those_of_the_graph_with_caches(family: str, further: tuple[Pass, ...]) -> None:
    program = cached(family, *further)
    made = run_pass(program, GrowingCache(CONTEXT))
    names = [tensor.name for tensor in made.interface.inputs]
    assert names[:3] == ["input_ids", "attention_mask", "position_ids"]
    pairs = len(program.interface.states) // 2
    assert names[3:] == [f"past_key_values.{n}.{role}" for n in range(pairs) for role in ("key", "value")]
    outputs = [tensor.name for tensor in made.interface.outputs]
    assert outputs == ["logits", *(name.replace("past_key_values", "present") for name in names[3:])]
    wanted = run_program(program, tokens(), PLAN)
    assert float((run_static(growing(made), tokens(), PLAN) - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())


def test_a_text_may_go_on_from_an_earlier_position() -> None:
    step = methods_step(growing(run_pass(cached("llama"), GrowingCache(CONTEXT))))
    ids = tokens()

    def last(begin: int, end: int) -> torch.Tensor:
        return step(torch.tensor([ids[begin:end]]), torch.arange(begin, end), torch.tensor([end - begin - 1]))[0, 0]

    with torch.no_grad():
        last(0, 9)
        wanted = last(9, 12)
        last(9, 10)
        last(4, 9)
        again = last(9, 12)
    assert torch.allclose(again, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "further", "why"),
    [
        ("llama", (PrefillSkip(),), "ask for nothing"),
        pytest.param("gemma3_text", (), "keeps the first tokens", marks=pytest.mark.slow),
    ],
)
def test_what_the_operator_lacks_is_refused(family: str, further: tuple[Pass, ...], why: str) -> None:
    program = applied(cached(family, sink=2), further)
    with pytest.raises(InputError) as refused:
        run_pass(program, GrowingCache(CONTEXT))
    assert refused.value.code == "E855" and why in refused.value.why


def test_a_captured_program_without_such_attention_passes() -> None:
    refuse_ungrouped(captured("llama"))
