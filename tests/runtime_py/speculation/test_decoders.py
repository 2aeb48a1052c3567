"""Whole decoders: rings, rounded caches and draft models of every kind leave the text as it is."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from edgec.passes.contract import run_pass
from edgec.passes.draft.draft_heads import DraftHeads
from edgec.passes.draft.early_exit import EarlyExit
from edgec.passes.draft.head_weights import HeadsFile
from edgec.passes.kv.kv_cache import KvCache
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.speculation.draft import Drafter, DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.speculation.heads import HeadDrafts as Heads
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.speculation.speculator import Speculator
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens
from tests.runtime_py.speculation.graph_stepper import GraphStepper
from tests.runtime_py.speculation.simulated import Always, Replay

CHUNK = 12
WINDOWED: dict[str, Any] = {"family": "mistral", "sliding_window": 8}
FULL: dict[str, Any] = {"family": "llama"}
SAMPLINGS = [Sampling(), Sampling(repetition_penalty=1.3), Sampling(temperature=0.9, top_p=0.9, seed=5)]
# The last 20 tokens again and again: the look-up finds something, right or wrong.
PROMPT = [*tokens(20), *tokens(10)]


def stepper(dtype: str, model: dict[str, Any], *passes: Any) -> GraphStepper:
    program = captured(**model)
    for one in passes:
        program = run_pass(program, one)
    return GraphStepper(run_pass(program, KvCache(CONTEXT, CHUNK, dtype)), CONTEXT, CHUNK, ROWS)


def compared(plain: GraphStepper, of: GraphStepper, drafters: list[Drafter], sampling: Sampling) -> Speculator:
    """Both ways to the end of the context."""
    wanted = list(stream_tokens(plain, PROMPT, Sampler(sampling)))
    one = Always(drafters, of, of.states)
    assert list(one.tokens(of, PROMPT, sampling)) == wanted
    assert len(wanted) == CONTEXT - len(PROMPT) + 1
    return one


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "int4"])
@pytest.mark.parametrize("model", [FULL, WINDOWED], ids=["full", "ring"])
def test_right_and_wrong_drafts_on_every_cache(sampling: Sampling, dtype: str, model: dict[str, Any]) -> None:
    of, plain = stepper(dtype, model), stepper(dtype, model)
    assert {state.layout for state in of.states} == {"ring" if model is WINDOWED else "full"}
    text = [*PROMPT, *stream_tokens(plain, PROMPT, Sampler(sampling))]
    one = compared(plain, of, [PromptLookup(), Replay(text, 5)], sampling)
    assert one.counts.calls < 20 and 0 < one.counts.accepted < one.counts.drafted


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("model", [FULL, WINDOWED], ids=["full", "ring"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_draft_model_on_every_cache(dtype: str, model: dict[str, Any], layers: int) -> None:
    """The first layer alone guesses badly, both layers are the model itself and guess right."""
    draft = stepper(dtype, model, EarlyExit(layers))
    drafter = DraftModel(draft, DraftLimits.of(draft.limits, draft.states))
    of = stepper(dtype, model)
    one = compared(stepper(dtype, model), of, [drafter], SAMPLINGS[0])
    assert one.counts.drafted > 0 and of.longest > 1
    if layers == 2:
        # The two models round their caches alike, so they disagree nowhere; the very first step has no measure yet.
        assert one.counts.acceptance == 1.0


def test_a_draft_model_in_a_second_text_keeps_what_it_knows() -> None:
    draft, of, plain = (stepper("float32", FULL) for _ in range(3))
    one = Always([DraftModel(draft, DraftLimits.of(draft.limits, draft.states))], of, of.states)
    for prompt in (PROMPT, [*PROMPT, 3, 4], tokens(12)):
        got = list(islice(one.tokens(of, prompt, Sampling(), 10, of.reusable(prompt)), 10))
        assert got == list(islice(stream_tokens(plain, prompt, Sampler(Sampling())), 10))


def test_a_draft_model_with_a_shorter_context_falls_silent() -> None:
    of, plain = stepper("float32", FULL), stepper("float32", FULL)
    draft = GraphStepper(run_pass(captured(**FULL), KvCache(40, CHUNK)), 40, CHUNK, ROWS)
    one = compared(plain, of, [DraftModel(draft, DraftLimits.of(draft.limits, draft.states))], Sampling())
    assert 0 < one.counts.accepted < 15
    assert max(len(draft.cache.tokens), draft.cache.high_water) <= 40


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("model", [FULL, WINDOWED], ids=["full", "ring"])
def test_heads_on_full_and_ring_caches(sampling: Sampling, model: dict[str, Any], tmp_path: Path) -> None:
    """Untrained heads, and a look-up beside them: wrong guesses cost nothing but time."""
    weight = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(0)) * 0.1
    save_file({"draft_heads": weight}, tmp_path / "heads.safetensors")
    of = stepper("float32", model, DraftHeads(HeadsFile(tmp_path / "heads.safetensors")))
    one = compared(stepper("float32", model), of, [PromptLookup(), Heads(of)], sampling)
    assert one.counts.drafted > 0


def test_heads_guess_the_tokens_of_their_own_rows(tmp_path: Path) -> None:
    """A head without weights repeats the model's own choice, one place too late: what it says is known."""
    save_file({"draft_heads": torch.zeros(2, 32, 32)}, tmp_path / "heads.safetensors")
    of = stepper("float32", FULL, DraftHeads(HeadsFile(tmp_path / "heads.safetensors")))
    logits = of.prefill(PROMPT, 0)
    best = int(logits.argmax())
    draft = Heads(of).propose([*PROMPT, best], 5)
    assert draft is not None and draft.tokens == (best, best)
    assert Heads(of).propose(PROMPT, 5) is None
