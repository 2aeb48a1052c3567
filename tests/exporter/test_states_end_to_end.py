"""Models with recurrences through the whole of ``edgec.export``: words, sessions, and where they cannot go."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.devices.prediction.parameters import STATE_FORMS
from edgec.errors import InputError
from edgec.exporter.capture import recurrences
from edgec.exporter.dimensions.parameters import decoder_shape, read_config
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.saved_session import load_session, place_of, save_session
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.snapshots import Snapshots
from edgec.runtime_py.speculation.draft import DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.verify.emulated import EmulatedRunner
from tests.engine.test_kernels import CAN_EMULATE
from tests.exporter.test_families_end_to_end import greedy, greedy_in_bundle
from tests.families import Family, save
from tests.runtime_py.speculation.simulated import Always, Replay
from tests.state_families import STATE_FAMILIES

pytestmark = pytest.mark.long

# Each takes about half a minute; this one has convolutions and attention.
QUICK = "lfm2"
# Shorter than a filter; half a chunk; more than a chunk of 128.
PROMPTS = (2, 24, 150)


def prompt_of(length: int) -> list[int]:
    tokens: list[int] = torch.randint(3, 128, (length,), generator=torch.Generator().manual_seed(length)).tolist()
    return tokens


@pytest.fixture(
    scope="module",
    params=[f if f.name == QUICK else pytest.param(f, marks=pytest.mark.slow) for f in STATE_FAMILIES],
    ids=lambda family: family.name,
)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A family's model folder and its float bundle."""
    family: Family = request.param
    folder = save(family, tmp_path_factory.mktemp(family.name) / family.name)
    return folder, edgec.export(folder, recipe="float", out=folder.parent / "x.edgec", context=256)


def test_the_artifact_says_what_transformers_says_sequence_after_sequence(exported: tuple[Path, Path]) -> None:
    folder, bundle = exported
    session = Session(bundle)
    for length in PROMPTS:
        assert greedy_in_bundle(session, prompt_of(length)) == greedy(folder, prompt_of(length))


def test_a_sequence_drops_the_last_tokens_of_a_call_and_never_more(exported: tuple[Path, Path]) -> None:
    session, tokens = Session(exported[1]), prompt_of(24)
    wanted = session.prefill(tokens, 0)
    for start in (8, 25):
        with pytest.raises(InputError) as refused:
            session.forward(tokens[:1], start, (0,))
        assert refused.value.code == "E153"
    assert session.reusable([*tokens, 7]) == 24 and session.reusable(tokens) == 23
    assert session.reusable([*tokens[:20], 7, 8]) == 20 and session.reusable([*tokens[:5], 7, 8]) == 0
    session.forward([7, 8, 9], 24, (0,))
    assert not session.cache.continues_at(24), "the first token of a call stays"
    assert (session.prefill(tokens, 0) == wanted).all()


def test_calls_that_are_taken_back_leave_no_trace(exported: tuple[Path, Path]) -> None:
    """Whatever was fed, dropped and fed again, the logits have the bits of tokens fed one by one."""
    first, second, tokens = Session(exported[1]), Session(exported[1]), prompt_of(60)
    wanted = [first.forward(tokens[i : i + 1], i, (0,))[0] for i in range(60)]
    start = 0
    for count, kept in ((3, 3), (5, 1), (16, 9), (1, 1), (2, 2), (9, 5), (16, 1), (16, 16)):
        wrong = [*tokens[start : start + kept], *[5] * (count - kept)]
        got = second.forward(wrong, start, range(count))
        assert (got[:kept] == np.stack(wanted[start : start + kept])).all()
        start += kept


@pytest.mark.parametrize("prompt", [9, 40])
def test_drafts_right_and_wrong_leave_the_text_as_it_is(exported: tuple[Path, Path], prompt: int) -> None:
    session, tokens = Session(exported[1]), prompt_of(prompt)
    text = list(islice(stream_tokens(session, tokens, Sampler(Sampling())), 60))
    # Every fourth token of the draft that replays the text is wrong.
    replay = Replay([*tokens, *(token if i % 4 else 3 for i, token in enumerate(text))], 9)
    one = Always([PromptLookup(), replay], session, open_bundle(exported[1]).manifest.states)
    assert list(islice(one.tokens(session, tokens, Sampling()), 60)) == text
    assert 0 < one.counts.accepted < one.counts.drafted


def test_a_recurrent_draft_model_leaves_the_text_as_it_is(exported: tuple[Path, Path]) -> None:
    """The model drafts for itself, so that all drafts are right until a wrong one is put in front of them."""
    session, tokens, states = Session(exported[1]), prompt_of(20), open_bundle(exported[1]).manifest.states
    wanted = list(islice(stream_tokens(session, tokens, Sampler(Sampling())), 40))
    draft = Session(exported[1])
    drafter = DraftModel(draft, DraftLimits.of(draft.limits, states), snapshots=Snapshots(draft, states, most=1))
    one = Always([drafter, PromptLookup()], session, states)
    assert list(islice(one.tokens(session, tokens, Sampling()), 40)) == wanted
    assert one.counts.accepted > 20


def test_a_conversation_that_leaves_out_an_answer_goes_on_from_the_prompt(exported: tuple[Path, Path]) -> None:
    bundle, tokens = open_bundle(exported[1]), prompt_of(40)
    session, fresh = Session(bundle), Session(bundle)
    snapshots, turn = Snapshots(session, bundle.manifest.states), [*tokens, *prompt_of(30)]
    session.prefill(tokens, 0)
    snapshots.keep()
    list(islice(stream_tokens(session, [*tokens, 9], Sampler(Sampling()), 40), 40))
    assert session.reusable(turn) == 0 and snapshots.recall(turn) == 40
    assert (session.prefill(turn[40:], 40) == fresh.prefill(turn[40:], fed(fresh, tokens))).all()


def fed(session: Session, tokens: list[int]) -> int:
    session.prefill(tokens, 0)
    return len(tokens)


def test_sessions_beside_each_other_keep_their_own_states(exported: tuple[Path, Path]) -> None:
    first, second, tokens = Session(exported[1]), Session(exported[1]), prompt_of(24)
    wanted = first.prefill(tokens, 0), first.forward([5], 24, (0,))
    got = first.prefill(tokens, 0), second.prefill(prompt_of(30), 0), first.forward([5], 24, (0,))
    assert (got[0] == wanted[0]).all() and (got[2] == wanted[1]).all()


def test_a_saved_session_continues_with_the_same_bits(exported: tuple[Path, Path], tmp_path: Path) -> None:
    bundle, tokens = open_bundle(exported[1]), prompt_of(24)
    first, place = Session(bundle), place_of(bundle.manifest)
    first.prefill(tokens, 0)
    save_session(first, place, tmp_path / "x.session")
    wanted = first.forward([5], 24, (0,))
    other = Session(bundle)
    other.prefill(prompt_of(30), 0)
    load_session(other, place, tmp_path / "x.session")
    assert (other.forward([5], 24, (0,)) == wanted).all()


def test_memory_of_states_does_not_grow_with_the_context(exported: tuple[Path, Path]) -> None:
    states = [state for state in open_bundle(exported[1]).manifest.states if state.layout == "recurrent"]
    assert states and all(state.slots in (1, 15) and 256 not in state.shape for state in states)


def test_the_plan_counts_what_the_states_take(exported: tuple[Path, Path]) -> None:
    planned = decoder_shape(read_config(exported[0])).states
    states = [state for state in open_bundle(exported[1]).manifest.states if state.layout == "recurrent"]
    assert planned and sum(state.bytes(STATE_FORMS["xnnpack"]) for state in planned) == sum(
        state.bytes for state in states
    )


@pytest.mark.slow
@pytest.mark.skipif(not CAN_EMULATE, reason="no cross compiler or qemu")
@pytest.mark.parametrize("name", ["lfm2", "qwen3_5_text", "mamba2", "mamba", "recurrent_gemma", "rwkv"])
def test_the_phones_runner_computes_what_this_machine_does(name: str, tmp_path: Path) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == name), tmp_path / name)
    # Random weights: 4 bits flip most tokens. The lowering is gated all the same.
    budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
    bundle = edgec.export(folder, target="android-cpu", out=tmp_path / "x.edgec", context=256, budgets=budgets)
    tokens, session = prompt_of(20), Session(bundle)
    wanted = [session.prefill(tokens[:16], 0), *(session.prefill(tokens[i : i + 1], i) for i in range(16, 20))]
    got = EmulatedRunner.of_bundle(open_bundle(bundle)).replay(tokens, 16)
    # Both round the same tokens to 8 bits; one that lies between two integers may become the other one.
    assert abs(got - np.stack(wanted)).max() < 0.05 * abs(np.stack(wanted)).max()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["mamba2", "mamba", "recurrent_gemma", "falcon_h1", "granitemoehybrid"])
def test_states_that_the_models_code_tells_of_are_refused_before_tracing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == name), tmp_path / name)
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    with pytest.raises(InputError) as refused:
        edgec.export(folder, target="snapdragon-8-elite", out=tmp_path / "x.edgec")
    assert refused.value.code == "E528"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["qwen3_next", "recurrent_gemma", "minimax", "xlstm"])
def test_a_recurrence_under_an_unknown_name_is_refused_before_tracing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a transformers in which the function has another name."""
    folder = save(next(f for f in STATE_FAMILIES if f.name == name), tmp_path / name)
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    for table in ("_FUNCTIONS", "_METHODS", "_FORWARDS"):
        monkeypatch.setattr(f"edgec.exporter.capture.recurrences.{table}", {})
    with pytest.raises(InputError) as refused:
        edgec.export(folder, out=tmp_path / "x.edgec")
    assert refused.value.code == "E529" and name in refused.value.where


def test_a_short_convolution_that_nothing_knows_is_refused_before_tracing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a transformers that computes it by another function, without padding in the convolution itself."""

    def filtered(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, **_: object) -> torch.Tensor:
        padded = torch.cat([x.new_zeros(*x.shape[:2], weight.shape[1] - 1), x], 2)
        return torch.nn.functional.conv1d(padded, weight.unsqueeze(1), bias, groups=x.shape[1])

    folder = save(next(f for f in STATE_FAMILIES if f.name == "lfm2"), tmp_path / "lfm2")
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    monkeypatch.delitem(recurrences._FUNCTIONS, "causal_conv1d_fn")
    monkeypatch.setattr("transformers.models.lfm2.modeling_lfm2.causal_conv1d_fn", filtered)
    with pytest.raises(InputError) as refused:
        edgec.export(folder, out=tmp_path / "x.edgec")
    assert refused.value.code == "E529" and "conv" in refused.value.where and "of the 2" in refused.value.why


def test_gates_that_float32_cannot_hold_are_refused(tmp_path: Path) -> None:
    known = next(f for f in STATE_FAMILIES if f.name == "xlstm")
    folder = save(replace(known, options={**known.options, "gate_soft_cap": 100.0}), tmp_path / "xlstm")
    with pytest.raises(InputError) as refused:
        edgec.export(folder, out=tmp_path / "x.edgec")
    assert refused.value.code == "E109" and "gate_soft_cap is 100" in refused.value.why


def test_experts_are_refused_before_tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(Family("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}), tmp_path / "olmoe")
    monkeypatch.setattr("torch.export.export", lambda *_, **__: pytest.fail("it was traced"))
    with pytest.raises(InputError) as refused:
        edgec.export(folder, target="iphone", out=tmp_path / "x.edgec")
    assert refused.value.code == "E527"


def test_standard_kernels_are_refused(tmp_path: Path) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == QUICK), tmp_path / QUICK)
    with pytest.raises(InputError) as refused:
        edgec.export(folder, recipe="float", kernels="standard", out=tmp_path / "x.edgec")
    assert refused.value.code == "E528" and "standard kernels" in refused.value.why
