"""Models with recurrences through the whole of ``edgec.export``: words, sessions, and where they cannot go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.runtime_py.sessions.saved_session import load_session, place_of, save_session
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.speculation.choice import speculator_for
from edgec.runtime_py.verify.emulated import EmulatedRunner
from tests.devices.runner.test_kernels import CAN_EMULATE
from tests.exporter.test_families_end_to_end import greedy, greedy_in_bundle
from tests.families import Family, save
from tests.state_families import STATE_FAMILIES

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


def test_a_sequence_continues_at_its_end_or_anew_and_never_goes_back(exported: tuple[Path, Path]) -> None:
    session, tokens = Session(exported[1]), prompt_of(24)
    wanted = session.prefill(tokens, 0)
    for start in (23, 25):
        with pytest.raises(InputError) as refused:
            session.forward(tokens[:1], start, (0,))
        assert refused.value.code == "E153"
    assert session.reusable([*tokens, 7]) == 24 and session.reusable(tokens) == 0
    assert session.reusable([*tokens[:20], 7, 8, 9, 10, 11, 12]) == 0
    session.forward([7], 24, (0,))
    assert (session.prefill(tokens, 0) == wanted).all()


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


def test_guesses_that_cannot_be_taken_back_are_refused(exported: tuple[Path, Path]) -> None:
    session = Session(exported[1])
    assert speculator_for(session, "auto") is None
    with pytest.raises(InputError) as refused:
        speculator_for(session, "ngram")
    assert refused.value.code == "E199"


def test_memory_of_states_does_not_grow_with_the_context(exported: tuple[Path, Path]) -> None:
    states = [state for state in open_bundle(exported[1]).manifest.states if state.layout == "recurrent"]
    assert states and all(state.slots == 1 and 256 not in state.shape for state in states)


@pytest.mark.slow
@pytest.mark.skipif(not CAN_EMULATE, reason="no cross compiler or qemu")
@pytest.mark.parametrize("name", ["lfm2", "qwen3_5_text", "mamba2", "mamba", "recurrent_gemma"])
def test_the_phones_runner_computes_what_this_machine_does(name: str, tmp_path: Path) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == name), tmp_path / name)
    # Random weights: 4 bits flip most tokens. The lowering is gated all the same.
    budgets = {"kl_mean": 50.0, "top1_agreement": 0.0}
    bundle = edgec.export(folder, target="android-cpu", out=tmp_path / "x.edgec", context=256, budgets=budgets)
    tokens, session = prompt_of(20), Session(bundle)
    wanted = [session.prefill(tokens[:16], 0), *(session.prefill(tokens[i : i + 1], i) for i in range(16, 20))]
    got = EmulatedRunner(open_bundle(bundle)).replay(tokens, 16)
    # Both round the same tokens to 8 bits; one that lies between two integers may become the other one.
    assert abs(got - np.stack(wanted)).max() < 0.05 * abs(np.stack(wanted)).max()


@pytest.mark.parametrize(
    ("target", "format"),
    [("iphone", None), ("iphone", "pte"), ("snapdragon-8-elite", None), ("android-gpu", None), ("host", "onnx")],
)
def test_targets_without_a_place_for_states_are_refused_before_any_work(
    target: str, format: str | None, tmp_path: Path
) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == QUICK), tmp_path / QUICK)
    with pytest.raises(InputError) as refused:
        edgec.export(folder, target=target, format=format, out=tmp_path / "x.edgec")
    assert refused.value.code == "E528" and "conv" in refused.value.where


def test_standard_kernels_are_refused(tmp_path: Path) -> None:
    folder = save(next(f for f in STATE_FAMILIES if f.name == QUICK), tmp_path / QUICK)
    with pytest.raises(InputError) as refused:
        edgec.export(folder, recipe="float", kernels="standard", out=tmp_path / "x.edgec")
    assert refused.value.code == "E528" and "standard kernels" in refused.value.why
