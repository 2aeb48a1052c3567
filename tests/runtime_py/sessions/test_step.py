"""One call for several sessions gives each the bits that its own calls give, whatever the others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import with_changes
from edgec.runtime_py.engines.engine import EngineSession
from edgec.runtime_py.engines.threads import set_threads
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.step import SessionCall, obstacle_to_steps, step
from tests.example_counts import examples
from tests.families import FAMILIES, Family, save
from tests.state_families import STATE_FAMILIES

pytestmark = pytest.mark.long

SESSIONS, CONTEXT, CHUNK = 4, 96, 64
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}
# Its router divides the chosen experts' weights by their sum.
EXPERTS = Family(
    "qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
)
BY_NAME = {family.name: family for family in (*FAMILIES, *STATE_FAMILIES, EXPERTS)}
# A family, its recipe, and its cache. Rings, full caches, soft caps and convolutions run in every CI.
QUICK = (("gemma3_text", "4bit", "int8"), ("lfm2", "4bit", "float16"))
SLOW = (
    *(("llama", "4bit", kind) for kind in ("float32", "int4")),
    *(("gemma2", "float", "float16"), ("qwen3", "8bit", "float32"), ("gemma3n_text", "4bit", "float16")),
    *(("mistral", "4bit", "int4"), ("gemma4_text", "4bit", "int8"), ("qwen3_moe", "4bit", "float16")),
    *((family.name, "4bit", "float16") for family in STATE_FAMILIES if family.name != "lfm2"),
)


def widened(family: Family) -> Family:
    """The family with heads that int4 caches and the kernels of few rows take."""
    return replace(family, options={**family.options, "head_dim": 32}) if family.name == "llama" else family


@pytest.fixture(
    scope="module", params=[*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)], ids="-".join
)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, recipe, cache = request.param
    folder = tmp_path_factory.mktemp(f"{name}-{recipe}-{cache}")
    model = save(widened(BY_NAME[name]), folder / name)
    short = with_changes(load_recipe(recipe), prefill_chunk=CHUNK, kv_dtype=cache, logit_rows=8)
    return edgec.export(model, recipe=short, out=folder / "x.edgec", context=CONTEXT, budgets=BUDGETS)


@dataclass(frozen=True)
class Part:
    """Tokens of one session: how many, which of their logits, and whether they begin a new sequence."""

    count: int
    rows: frozenset[int]
    anew: bool


PARTS = st.builds(
    Part,
    st.one_of(st.just(1), st.integers(1, 40)),
    st.frozensets(st.integers(0, 39), max_size=3),
    st.sampled_from([False, False, False, True]),
)
TICKS = st.lists(st.dictionaries(st.integers(0, SESSIONS - 1), PARTS, min_size=1), min_size=1, max_size=8)


def calls_of(
    tick: dict[int, Part], sessions: Sequence[Session], rng: np.random.Generator
) -> list[tuple[int, list[int], int, tuple[int, ...]]]:
    """The calls of a tick within the artifact's limits: session, tokens, start, rows."""
    calls, left, rows_left = [], CHUNK, 8
    for which, part in tick.items():
        held = len(sessions[which].cache.tokens)
        start = 0 if part.anew or held + part.count > CONTEXT else held
        count = min(part.count, left)
        rows = tuple(sorted(row for row in part.rows if row < count))[:rows_left]
        if count:
            calls.append((which, [int(token) for token in rng.integers(3, 100, count)], start, rows))
            left, rows_left = left - count, rows_left - len(rows)
    if not any(rows for *_, rows in calls):
        which, tokens, start, _ = calls[-1]
        calls[-1] = (which, tokens, start, (len(tokens) - 1,))
    return calls


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(threads=st.sampled_from([1, 2]), ticks=TICKS, seed=st.integers(0, 1000))
def test_together_is_alone_bit_for_bit(bundle: Path, threads: int, ticks: list[dict[int, Part]], seed: int) -> None:
    set_threads(threads)
    together, alone = ([Session(open_bundle(bundle)) for _ in range(SESSIONS)] for _ in range(2))
    rng = np.random.default_rng(seed)
    for tick in ticks:
        calls = calls_of(tick, together, rng)
        made = step([SessionCall(together[which], tokens, start, rows) for which, tokens, start, rows in calls])
        for (which, tokens, start, rows), logits in zip(calls, made, strict=True):
            wanted = alone[which].forward(tokens, start, rows or (0,))[: len(rows)]
            np.testing.assert_array_equal(logits, wanted)
    for one, other in zip(together, alone, strict=True):
        assert one.cache.tokens == other.cache.tokens
        assert one.arena is not None and other.arena is not None and (one.arena == other.arena).all()


def test_nothing_stands_in_the_way(bundle: Path) -> None:
    assert obstacle_to_steps(Session(bundle)) == ""


def test_a_call_that_does_not_fit_is_refused_before_anything_is_executed(bundle: Path) -> None:
    first, second = Session(bundle), Session(bundle)
    wrong = {
        "E150": SessionCall(second, [5], CONTEXT, (0,)),
        "E152": SessionCall(second, [5], 0, (1,)),
        "E153": SessionCall(second, [5], 7, (0,)),
    }
    for code, call in wrong.items():
        with pytest.raises(InputError) as refused:
            step([SessionCall(first, [5, 6], 0, (1,)), call])
        assert refused.value.code == code and not first.cache.tokens


def test_the_engine_refuses_what_it_is_not_made_for(bundle: Path) -> None:
    first, second = Session(bundle), Session(bundle)
    one, other = first.executor, second.executor
    assert isinstance(one, EngineSession) and isinstance(other, EngineSession)
    token, row = np.array([5]), np.array([0])
    none = np.array([], np.int64)
    wrong = (
        ([one, one], [(token, row, row)] * 2, "two runs"),
        ([one, other], [(token, row, none)] * 2, "no logits"),
        ([one], [(token, row, np.array([1]))], "rise"),
        ([one], [(np.array([5, 6]), np.array([0, 1]), np.array([1, 0]))], "rise"),
        ([one], [(none, none, none)], "no tokens"),
        ([one, other], [(np.full(40, 5), np.arange(40), row)] * 2, "takes 64 tokens"),
    )
    for sessions, inputs, why in wrong:
        with pytest.raises(InputError, match=why) as refused:
            one.model.step(sessions, inputs)
        assert refused.value.code == "E157"


def test_sessions_of_two_models_are_refused(bundle: Path, tiny_bundle: Path) -> None:
    with pytest.raises(InputError) as refused:
        step([SessionCall(Session(bundle), [5], 0, (0,)), SessionCall(Session(tiny_bundle), [5], 0, (0,))])
    assert refused.value.code == "E646"


def test_a_state_among_the_activations_and_other_engines_are_refused(tiny_bundle: Path) -> None:
    assert "among the activations" in obstacle_to_steps(Session(tiny_bundle, engine="edgec"))
    assert "edgec's engine" in obstacle_to_steps(Session(tiny_bundle, engine="executorch"))


@pytest.mark.slow
def test_operators_of_others_are_refused(tmp_path: Path) -> None:
    """ExecuTorch's own attention knows of one sequence."""
    model = save(BY_NAME["llama"], tmp_path / "llama")
    bundle = edgec.export(model, recipe="float", out=tmp_path / "x.edgec", context=CONTEXT, kernels="standard")
    assert "llama::" in obstacle_to_steps(Session(bundle))
