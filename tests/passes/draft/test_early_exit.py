from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.program import Effect, Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import effect_on, run_pass
from edgec.passes.draft.early_exit import EarlyExit, hidden_states
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from tests.families import FAMILIES, FULL, SLIDING, Family, build, empty_model
from tests.passes.decoders import StateDict

CONTEXT, ROWS, LENGTH = 64, 4, 24
MIXED = {"layer_types": [SLIDING, FULL, SLIDING, FULL], "num_hidden_layers": 4, "sliding_window": 8}
MODELS = {
    "llama": Family("llama", {"num_hidden_layers": 4, "tie_word_embeddings": True}),
    "gemma2": Family("gemma2", {**MIXED, "query_pre_attn_scalar": 16, "final_logit_softcapping": 5.0}),
    "gemma3": Family("gemma3_text", {**MIXED, "query_pre_attn_scalar": 16}),
    # Attention and MLP read the same norm and are added together.
    "cohere": Family("cohere", {"num_hidden_layers": 4}),
    "smollm3": Family("smollm3", {"num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 1], "use_sliding_window": False}),
}
QUICK = ("llama", "gemma3")


@lru_cache(maxsize=6)
def captured(family: str) -> Program:
    """The family's program after remove_noops and last_logits."""
    return _captured(MODELS[family])


def _captured(family: Family) -> Program:
    skeleton = build_skeleton(empty_model(family.config()))
    weights = StateDict(build(family, "eager"))
    program = capture_decoder(skeleton, model_spec(family.config().to_dict()), weights, CONTEXT)
    return run_pass(run_pass(program, RemoveNoops()), LastLogits(rows=ROWS))


def ids() -> torch.Tensor:
    return torch.randint(0, 128, (1, LENGTH), generator=torch.Generator().manual_seed(1))


def logits(program: Program) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = program.graph(ids(), torch.arange(LENGTH), torch.arange(LENGTH - ROWS, LENGTH))[0]
        return result


def shortened(family: str, layers: int) -> torch.Tensor:
    """Transformers' own model with the same weights and only its first layers."""
    model = build(MODELS[family], "eager")
    model.model.layers = model.model.layers[:layers]  # type: ignore[union-attr, index]
    model.config.num_hidden_layers = layers  # type: ignore[union-attr]
    with torch.no_grad():
        result: torch.Tensor = model(ids(), use_cache=False).logits[0, -ROWS:]
        return result


@pytest.mark.long
@pytest.mark.parametrize(
    "family", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_first_layers_are_the_shorter_model(family: str, layers: int) -> None:
    program = run_pass(captured(family), EarlyExit(layers))
    assert program.spec is not None and len(program.spec.layers) == layers
    # Another order of summation in float32: about 1e-6 at logits of order 1.
    torch.testing.assert_close(logits(program), shortened(family, layers), atol=2e-5, rtol=1e-4)


@pytest.mark.long
def test_what_is_left_out_is_freed() -> None:
    change = run_pass(captured("llama"), EarlyExit(2)).history[-1]
    assert change.bytes_after < change.bytes_before and change.nodes_after < change.nodes_before
    assert change.effect is Effect.SEMANTIC


@pytest.mark.long
def test_a_cache_goes_on_top() -> None:
    cached = run_pass(run_pass(captured("gemma3"), EarlyExit(2)), KvCache(CONTEXT, 16))
    assert {state.layer for state in cached.interface.states} == {0, 1}
    assert {state.layout for state in cached.interface.states} == {"ring", "full"}


@pytest.mark.long
def test_all_layers_are_the_model_itself() -> None:
    whole = captured("llama")
    assert effect_on(EarlyExit(4), whole) is Effect.EXACT
    torch.testing.assert_close(logits(run_pass(whole, EarlyExit(4))), logits(whole), rtol=0, atol=0)


@pytest.mark.parametrize("layers", [0, 5])
def test_impossible_counts_are_refused(layers: int) -> None:
    with pytest.raises(InputError, match="E196") as error:
        run_pass(captured("llama"), EarlyExit(layers))
    assert "1 to 4" in error.value.fix


@pytest.mark.long
def test_one_layer_says_too_little_about_where_it_ends() -> None:
    with pytest.raises(InputError, match="E196"):
        run_pass(_captured(Family("llama", {"num_hidden_layers": 1})), EarlyExit(1))


@pytest.mark.slow
def test_layers_that_hand_on_more_than_one_value_are_refused() -> None:
    """Gemma 3n's later layers read each token's own embeddings and several hidden streams."""
    gemma3n = next(family for family in FAMILIES if family.name == "gemma3n_text")
    with pytest.raises(InputError, match="E196"):
        run_pass(_captured(gemma3n), EarlyExit(2))


@pytest.mark.long
def test_hidden_states_are_as_wide_as_the_model() -> None:
    hidden = hidden_states(captured("smollm3").graph)
    assert [node.meta["val"].shape[-1] for node in hidden] == [64] * 5
