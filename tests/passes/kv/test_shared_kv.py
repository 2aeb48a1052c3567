"""Shared keys and values against transformers' own layers made to share, and what vanishes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface

from edgec.errors import InputError
from edgec.exporter.parity.execution import run_eager, run_program
from edgec.exporter.parity.metrics import difference
from edgec.ir.attention import OPERATOR, AttentionCall, reference_attention
from edgec.ir.attributes import attribute
from edgec.ir.call_plan import call_plan
from edgec.ir.kv_donors import shared_spec
from edgec.ir.program import Effect, Program
from edgec.passes.contract import clone, nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv, readers
from edgec.passes.kv.sharing.rotation import rotations
from tests.families import FAMILIES, build
from tests.passes.deep_decoders import CHUNK, CONTEXT, MODELS, ROWS, captured, decoder, fused, tokens

DONORS = {"llama": {2: 1, 3: 1}, "qwen3": {2: 1, 3: 1}, "phi3": {2: 1, 3: 1}, "gemma3": {2: 0, 3: 1}}
NATIVE = {family.name: family for family in FAMILIES if any(donor is not None for donor in family.donors)}


@contextmanager
def sharing(donors: dict[int, int]) -> Iterator[str]:
    """An attention implementation for transformers in which some layers read the keys and values of others."""
    held: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(module: Any, q: Tensor, k: Tensor, v: Tensor, *_: Any, **options: Any) -> tuple[Tensor, None]:
        held[module.layer_idx] = (k, v)
        k, v = held[donors.get(module.layer_idx, module.layer_idx)]
        window, positions = options.get("sliding_window") or 0, torch.arange(q.shape[2])
        return reference_attention(q, k, v, positions, None, 0, options["scaling"], True, window, 0.0, None), None

    from edgec.exporter.capture.attention import register

    register()
    AttentionInterface.register("edgec_test_sharing", attend)
    yield "edgec_test_sharing"


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", DONORS)
def test_equals_transformers_with_shared_layers(name: str) -> None:
    program, plan = run_pass(decoder(name), SharedKv(2)), call_plan(40, CHUNK, ROWS)
    with sharing(DONORS[name]) as attention:
        model: Any = build(MODELS[name], "edgec")
        model.config._attn_implementation = attention
        reference = run_eager(model, tokens(), plan)
    unshared = run_program(decoder(name), tokens(), plan)
    # float32 sums in another order, four layers deep.
    assert difference(reference, run_program(program, tokens(), plan), 0.0).max_relative < 1e-5
    assert difference(reference, unshared, 0.0).max_relative > 1e-2


@pytest.mark.long
@pytest.mark.parametrize("name", DONORS)
def test_the_spec_names_the_donors(name: str) -> None:
    program, before = run_pass(decoder(name), SharedKv(2)), decoder(name).spec
    assert program.spec is not None and before is not None
    assert {layer.index: layer.kv_donor for layer in program.spec.layers if layer.kv_donor is not None} == DONORS[name]
    assert program.spec == shared_spec(before, 2)
    assert program.history[-1].effect is Effect.SEMANTIC


@pytest.mark.parametrize("name", ["qwen3", "gemma3"])
def test_projections_and_norms_of_keys_vanish(name: str) -> None:
    program = run_pass(decoder(name), SharedKv(2))
    held = {key for key, _ in program.graph.named_parameters()}
    gone = {key for key, _ in decoder(name).graph.named_parameters()} - held
    suffixes = ("k_proj.weight", "v_proj.weight", "k_norm.weight")
    assert gone == {f"decoder.model.layers.{layer}.self_attn.{suffix}" for layer in (2, 3) for suffix in suffixes}


def test_a_fused_projection_keeps_its_queries() -> None:
    program = run_pass(decoder("phi3"), SharedKv(2))
    sizes = {k: tuple(p.shape) for k, p in program.graph.named_parameters() if "qkv_proj" in k}
    # 4 query and 2 + 2 key and value heads of 16.
    assert [sizes[key][0] for key in sorted(sizes)] == [128, 128, 64, 64]
    whole = dict(decoder("phi3").graph.named_parameters())
    for key, cut in program.graph.named_parameters():
        assert cut.data_ptr() == whole[key].data_ptr()


@pytest.mark.long
@pytest.mark.parametrize("prepared", [False, True], ids=["captured", "fused"])
def test_caches_of_sharing_layers_vanish(prepared: bool) -> None:
    program = fused(decoder("gemma3")) if prepared else decoder("gemma3")
    alone, shared = (run_pass(each, KvCache(CONTEXT, CHUNK)) for each in (program, run_pass(program, SharedKv(2))))
    assert {state.layer for state in shared.interface.states} == {0, 1}
    held = [sum(getattr(p.graph, s.buffer).nbytes for s in p.interface.states) for p in (alone, shared)]
    assert held[1] * 2 == held[0]
    plan = call_plan(40, CHUNK, ROWS)
    uncached = run_program(run_pass(program, SharedKv(2)), tokens(), plan)
    assert difference(uncached, run_program(shared, tokens(), plan), 0.0).max_relative < 1e-5


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "gemma3n_text" else []) for name in NATIVE]
)
def test_a_model_that_shares_already_stays_as_it_is(name: str) -> None:
    program = captured(NATIVE[name])
    donors = {layer: donor for layer, donor in enumerate(NATIVE[name].donors) if donor is not None}
    assert readers(program.graph) == donors
    for boundary in (2, 5 / 8):
        result = run_pass(program, SharedKv(boundary))
        assert result.history[-1].effect is Effect.EXACT and result.spec == program.spec
        assert result.history[-1].nodes_after == result.history[-1].nodes_before


def test_it_can_run_twice() -> None:
    once = run_pass(decoder("llama"), SharedKv(2))
    twice = run_pass(once, SharedKv(2))
    assert twice.history[-1].effect is Effect.EXACT and twice.spec == once.spec
    assert twice.history[-1].nodes_after == once.history[-1].nodes_after


def _rotations(program: Program) -> dict[int, frozenset[str]]:
    calls = [AttentionCall.of(node) for node in nodes_of(program.graph, OPERATOR)]
    return rotations(program.graph, {call.layer: call.k for call in calls})


@pytest.mark.long
@pytest.mark.parametrize("prepared", [False, True], ids=["captured", "fused"])
def test_rotations_tell_layers_apart(prepared: bool) -> None:
    by_model = {name: _rotations(fused(decoder(name)) if prepared else decoder(name)) for name in MODELS}
    assert len(set(by_model["llama"].values())) == 1 and all(by_model["llama"].values())
    gemma, smol = by_model["gemma3"], by_model["smollm3"]
    assert gemma[0] == gemma[2] != gemma[1] == gemma[3]
    assert smol[0] == smol[2] and smol[1] == smol[3] == frozenset()


def test_rotations_are_compared_by_content() -> None:
    program = decoder("llama")
    graph = clone(program.graph)
    key = AttentionCall.of(nodes_of(graph, OPERATOR)[2]).k
    frequencies = next(node for node in graph.graph.nodes if "inv_freq" in str(node.target))
    equal, other = (attribute(graph, str(frequencies.target)).detach().clone() for _ in range(2))
    other[1] *= 2
    digests = []
    for name, value in (("equal", equal), ("other", other)):
        graph.register_buffer(name, value)
        frequencies.target = name
        digests.append(rotations(graph, {2: key})[2])
    assert digests[0] == _rotations(program)[2] != digests[1]


@pytest.mark.long
def test_layers_without_rotation_want_donors_without() -> None:
    program = run_pass(decoder("smollm3"), SharedKv(2))
    assert readers(program.graph) == {2: 0, 3: 1}
    with pytest.raises(InputError) as refused:
        run_pass(decoder("smollm3"), SharedKv(1))
    assert refused.value.code == "E185" and "layer 1" in refused.value.where


def test_what_cannot_be_shared_is_refused() -> None:
    program = decoder("llama")
    cached, module = run_pass(program, KvCache(CONTEXT, CHUNK)), replace(program, spec=None)
    cases = [
        (program, SharedKv(mode="project?"), "E187"),
        (program, SharedKv(4), "E186"),
        (cached, SharedKv(2), "E188"),
    ]
    for each, rewrite, code in [*cases, (module, SharedKv(2), "E188")]:
        with pytest.raises(InputError) as refused:
            run_pass(each, rewrite)
        assert refused.value.code == code
