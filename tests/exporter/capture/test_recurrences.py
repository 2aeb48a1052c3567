"""Models with recurrences: captured as edgec's operators, and continued call by call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.position_mixing import refuse_mixed_positions
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.ir.program import Program
from edgec.ir.recurrence import RECURRENCES
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.families import Family, build, empty_model
from tests.state_families import QUICK, STATE_FAMILIES

# Transformers computes chunks of 64 in parallel form, edgec token by token: float32 sums in another order.
TOLERANCE = 5e-5
TOKENS, CONTEXT, CHUNK = 40, 64, 17


@dataclass(frozen=True)
class Own:
    """A model's own tensors: checkpoints of some families have other names."""

    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, model: Any) -> Own:
        named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
        return cls({name: value.detach() for name, value in named})

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]


@dataclass(frozen=True)
class Captured:
    family: Family
    config: Any
    program: Program
    wanted: Tensor


def _tokens() -> Tensor:
    return torch.randint(3, 128, (1, TOKENS), generator=torch.Generator().manual_seed(3))


@pytest.fixture(
    scope="module",
    params=[f if f.name in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in STATE_FAMILIES],
    ids=lambda family: family.name,
)
def captured(request: pytest.FixtureRequest) -> Captured:
    family: Family = request.param
    model: Any = build(family, "eager")
    with torch.no_grad():
        wanted = model(_tokens(), use_cache=False).logits[0]
    config = family.config()
    program = capture_decoder(
        build_skeleton(empty_model(config)), model_spec(plain_config(config)), Own.of(model), CONTEXT
    )
    return Captured(family, config, run_pass(program, RemoveNoops()), wanted)


def _difference(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).abs().max() / wanted.abs().max())


@pytest.mark.long
@pytest.mark.sweep(3)
@torch.no_grad()
def test_the_graph_means_what_the_model_does(captured: Captured) -> None:
    assert nodes_of(captured.program.graph, *RECURRENCES)
    assert captured.wanted.std() > 0.1, "a model whose logits are all alike proves nothing"
    got = captured.program.graph(_tokens(), torch.arange(TOKENS))
    assert _difference(got[0], captured.wanted) < TOLERANCE
    refuse_mixed_positions(captured.program)


@pytest.mark.long
@torch.no_grad()
def test_with_states_it_continues_call_by_call(captured: Captured) -> None:
    cache = KvCache(CONTEXT, CHUNK)
    program = run_pass(captured.program, cache)
    tokens, rows, at = _tokens(), [], 0
    for size in (17, 1, 1, 13, 1, 1, 1, 5):
        rows.append(program.graph(tokens[:, at : at + size], torch.arange(at, at + size))[0])
        at += size
    assert _difference(torch.cat(rows), captured.wanted) < TOLERANCE
    layers = model_spec(plain_config(captured.config)).layers
    held = [state for state in program.interface.states if state.layout == "recurrent"]
    assert {state.slots for state in held} == {1, cache.revocable}, "a log has a row for each token that may be dropped"
    cached = {state.layer for state in program.interface.states if state.layout != "recurrent"}
    assert cached == {layer.index for layer in layers if layer.kv_heads}


def test_where_nothing_can_hold_a_state_it_is_refused(captured: Captured) -> None:
    with pytest.raises(InputError) as refused:
        run_pass(captured.program, KvCache(CONTEXT, CHUNK, kernels="standard"))
    assert refused.value.code == "E528" and captured.family.name in refused.value.where
