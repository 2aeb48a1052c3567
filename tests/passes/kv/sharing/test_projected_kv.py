"""Keys and values projected from the boundary's hidden state, against transformers' own layers fed that way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_eager, run_program
from edgec.exporter.parity.metrics import difference
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Effect
from edgec.passes.contract import run_pass
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.kv.sharing.projected_kv import hidden_states
from edgec.passes.prefill.prefill_skip import PrefillSkip
from tests.families import build
from tests.passes.deep_decoders import CHUNK, CONTEXT, MODELS, ROWS, decoder, fused, tokens

KEPT = 2
PROJECT = SharedKv(KEPT, "project")


def fed_from_the_boundary(model: nn.Module) -> None:
    """Make transformers' k_proj and v_proj after the boundary read its hidden state, normed by their own layer."""
    held: list[Tensor] = []
    layers: Any = model.model.layers  # type: ignore[union-attr]

    def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        held[:] = [inputs[0]]

    layers[KEPT].input_layernorm.register_forward_pre_hook(keep)
    for layer in layers[KEPT + 1 :]:
        norm = layer.input_layernorm
        for projection in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.register_forward_pre_hook(lambda _, inputs, norm=norm: (norm(held[0]),))


@pytest.mark.sweep(3)
@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
@pytest.mark.parametrize("prepared", [False, True], ids=["captured", "fused"])
def test_equals_transformers_fed_from_the_boundary(name: str, prepared: bool) -> None:
    before, plan = decoder(name), call_plan(40, CHUNK, ROWS)
    program = run_pass(fused(before) if prepared else before, PROJECT)
    model: Any = build(MODELS[name], "eager")
    fed_from_the_boundary(model)
    reference = run_eager(model, tokens(), plan)
    # float32 sums in another order, four layers deep.
    assert difference(reference, run_program(program, tokens(), plan), 0.0).max_relative < 1e-5
    assert difference(reference, run_program(before, tokens(), plan), 0.0).max_relative > 1e-3
    assert program.history[-1].effect is Effect.SEMANTIC


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "phi3", "qwen3", "gemma3"])
def test_a_prompt_needs_no_layer_after_the_boundary(name: str) -> None:
    """With caches and prefill_skip the numbers stay, and only keys and values are computed for every token."""
    projected = run_pass(decoder(name), PROJECT)
    skipped = run_pass(run_pass(projected, KvCache(CONTEXT, CHUNK)), PrefillSkip())
    plan = call_plan(40, CHUNK, ROWS)
    # exact passes: float32 sums in another order
    expected = run_program(projected, tokens(), plan)
    assert difference(expected, run_program(skipped, tokens(), plan), 0.0).max_relative < 1e-5
    assert {state.layer for state in skipped.interface.states} == {0, 1, 2, 3}, "every layer keeps a cache"


@pytest.mark.long
def test_it_can_run_twice() -> None:
    once = run_pass(decoder("qwen3"), PROJECT)
    twice = run_pass(once, PROJECT)
    plan = call_plan(20, CHUNK, ROWS)
    assert torch.equal(run_program(once, tokens(), plan), run_program(twice, tokens(), plan))
    assert twice.history[-1].nodes_after == once.history[-1].nodes_after


@pytest.mark.long
def test_all_layers_behind_read_one_hidden_state() -> None:
    sources = hidden_states(run_pass(decoder("llama"), PROJECT).graph)
    assert sources[KEPT] is sources[KEPT + 1] and sources[KEPT] is not sources[KEPT - 1]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        run_pass(decoder("llama"), SharedKv(KEPT, "average"))
    assert refused.value.code == "E187" and "project" in refused.value.fix
