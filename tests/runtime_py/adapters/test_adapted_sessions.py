"""Adapters while a bundle runs: numbers against torch and PEFT, several sessions, what a KV cache is good for then."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
import torch
from torch import Tensor

import edgec
from edgec.bundle.adapter_targets import targets_of
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError, ToolError
from edgec.exporter.parity.ladder import ROUNDED_LOWERING, Stage, lowering_rung
from edgec.runtime_py.adapters.adapter_file import read_adapter
from edgec.runtime_py.adapters.make import make_adapter
from edgec.runtime_py.engines.threads import set_threads
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.step import SessionCall, step
from tests.runtime_py.adapters.loras import (
    ATTENTION,
    EVERY,
    RECIPE,
    changed,
    logits_of,
    pairs,
    rounded_llama,
    session_logits,
    write_lora,
)
from tests.runtime_py.tiny_decoder import VOCAB

TOKENS = [1, *(7 * i % 89 + 5 for i in range(47))]


@pytest.fixture(scope="module")
def adapters(four_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two adapters: rank 4 on queries and values; rank 6 with rsLoRA on all linear layers and the lm_head."""
    folder = tmp_path_factory.mktemp("adapters")
    small = write_lora(folder / "small", pairs(ATTENTION, 4, seed=1))
    large = write_lora(folder / "large", large_pairs(), r=6, lora_alpha=5, use_rslora=True)
    paths = (folder / "small.adapter", folder / "large.adapter")
    for lora, path in zip((small, large), paths, strict=True):
        make_adapter(four_bits, lora, path)
    return paths


def large_pairs() -> dict[str, tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(9)
    head = (torch.randn(6, 32, generator=generator) * 0.2, torch.randn(VOCAB, 6, generator=generator) * 0.2)
    return pairs(EVERY, 6, seed=2) | {"lm_head": head}


def passes(reference: Tensor, executed: Tensor) -> bool:
    """Whether two executions of the same arithmetic lie within the ladder's budget for lowering."""
    return lowering_rung(Stage("torch", reference), Stage("artifact", executed), ROUNDED_LOWERING, rounded=True).passed


@pytest.mark.long
def test_outputs_equal_torchs_within_the_lowering_budget(
    four_bits: Path, tiny_folder: Path, adapters: tuple[Path, Path]
) -> None:
    model, session = rounded_llama(tiny_folder), Session(four_bits)
    plain = logits_of(model, TOKENS)
    assert passes(plain, session_logits(session, TOKENS)), "the base model in torch is not the bundle's"
    cases = ((adapters[0], pairs(ATTENTION, 4, seed=1), 16 / 4), (adapters[1], large_pairs(), 5 / 6**0.5))
    for path, changes, scale in cases:
        session.adapter = path
        with changed(model, changes, scale):
            expected = logits_of(model, TOKENS)
        assert passes(expected, session_logits(session, TOKENS))
        assert not passes(plain, expected), "the adapter changes too little to be tested"
    session.adapter = None
    assert passes(plain, session_logits(session, TOKENS))


def test_outputs_equal_pefts(four_bits: Path, tiny_folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    for seed, options in enumerate(
        (
            {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "v_proj"]},
            {
                **{"r": 8, "lora_alpha": 4, "use_rslora": True, "target_modules": "all-linear"},
                **{"rank_pattern": {"down_proj": 3}, "alpha_pattern": {"layers.1.self_attn.q_proj": 9}},
            },
        )
    ):
        torch.manual_seed(seed)
        wanted = peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights="gaussian", **options)
        model = peft.get_peft_model(rounded_llama(tiny_folder), wanted).eval()
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(tmp_path / f"peft-{seed}")
        session = Session(four_bits)
        session.adapter = make_adapter(four_bits, tmp_path / f"peft-{seed}", tmp_path / f"{seed}.adapter").adapter
        assert passes(logits_of(model, TOKENS), session_logits(session, TOKENS))
        assert not passes(logits_of(rounded_llama(tiny_folder), TOKENS), session_logits(session, TOKENS))


def test_the_bits_are_the_same_in_calls_of_any_length_and_on_any_threads(
    four_bits: Path, adapters: tuple[Path, Path]
) -> None:
    session = Session(four_bits)
    session.adapter = adapters[1]
    whole = session_logits(session, TOKENS)
    for at_once in (1, 3, 7):
        assert torch.equal(session_logits(session, TOKENS, at_once), whole)
    set_threads(2)
    assert torch.equal(session_logits(session, TOKENS), whole)


def test_sessions_with_different_adapters_run_at_once(four_bits: Path, adapters: tuple[Path, Path]) -> None:
    """Three threads, each with its own session of one loaded artifact, answer as each does alone."""
    sessions = [Session(four_bits) for _ in range(3)]
    for session, adapter in zip(sessions, (None, *adapters), strict=True):
        session.adapter = adapter
    assert len({id(session._executor.model) for session in sessions}) == 1  # type: ignore[attr-defined]
    alone = [session_logits(session, TOKENS) for session in sessions]
    assert not torch.equal(alone[0], alone[1]) and not torch.equal(alone[1], alone[2])
    together: list[list[Tensor]] = [[], [], []]

    def answer(index: int) -> None:
        for _ in range(5):
            together[index].append(session_logits(sessions[index], TOKENS, at_once=5))

    threads = [threading.Thread(target=answer, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(made) == 5 and all(torch.equal(one, alone[i]) for one in made) for i, made in enumerate(together))


def test_sessions_share_a_call_under_one_adapter_alone(four_bits: Path, adapters: tuple[Path, Path]) -> None:
    *sessions, other = [Session(four_bits) for _ in range(4)]
    for session, adapter in zip(sessions, (adapters[1], adapters[1], adapters[0]), strict=True):
        session.adapter = adapter
    other.adapter = adapters[1]
    alone = session_logits(other, TOKENS[:8], at_once=8)
    calls = [SessionCall(session, TOKENS[:8], 0, range(8)) for session in sessions]
    for logits in step(calls[:2]):
        assert np.array_equal(logits, alone.numpy())
    with pytest.raises(InputError, match="E646") as error:
        step(calls[1:])
    assert error.value.why == "they have different adapters"


def test_switching_empties_the_cache_and_loads_nothing(
    four_bits: Path, adapters: tuple[Path, Path], record_property: Callable[[str, object], None]
) -> None:
    model = edgec.load(four_bits)
    loaded = model.session._executor.model  # type: ignore[attr-defined]
    opened = [read_adapter(path) for path in adapters]
    answers: dict[object, tuple[int, ...]] = {}
    for turn in range(3):
        for adapter in (None, *opened):
            begun = perf_counter()
            model.adapter = adapter
            record_property("switch_ms", (perf_counter() - begun) * 1e3)
            assert model.session.cache.tokens == [] and model.adapter is adapter
            made = model.generate(TOKENS, max_new_tokens=8, resume=True)
            assert made.cached_tokens == 0
            assert answers.setdefault(adapter, made.tokens) == made.tokens, turn
    assert model.session._executor.model is loaded  # type: ignore[attr-defined]
    assert len(set(answers.values())) == 3


def test_the_same_adapter_again_keeps_the_cache(four_bits: Path, adapters: tuple[Path, Path], tmp_path: Path) -> None:
    session = Session(four_bits)
    session.adapter = adapters[0]
    session.prefill(TOKENS, 0)
    session.adapter = shutil.copy(adapters[0], tmp_path / "copy")
    assert session.cache.tokens == TOKENS
    with pytest.raises(InputError, match="E695"):
        session.adapter = tmp_path / "absent"
    assert session.cache.tokens == TOKENS and session.adapter is not None


def test_a_new_session_has_the_adapter_and_a_closed_ones_leaves_nothing_behind(
    four_bits: Path, adapters: tuple[Path, Path]
) -> None:
    plain = session_logits(Session(four_bits), TOKENS)
    model = edgec.load(four_bits)
    model.adapter = adapters[0]
    other = model.new_session()
    assert other.adapter is model.adapter and other.session is not model.session
    adapted = session_logits(model.session, TOKENS)
    assert torch.equal(session_logits(other.session, TOKENS), adapted) and not torch.equal(adapted, plain)
    del other
    # The engine keeps a closed session for the next one.
    assert torch.equal(session_logits(Session(four_bits), TOKENS), plain)


def test_a_saved_session_is_restored_under_its_own_adapter_only(
    four_bits: Path, adapters: tuple[Path, Path], tmp_path: Path
) -> None:
    model = edgec.load(four_bits)
    saved = {}
    for name, adapter in (("none", None), ("small", adapters[0]), ("large", adapters[1])):
        model.adapter = adapter
        model.session.prefill(TOKENS, 0)
        saved[adapter] = tmp_path / name
        model.save_session(saved[adapter])
    for adapter in saved:
        model.adapter = adapter
        for other, path in saved.items():
            if other is adapter:
                model.load_session(path)
                assert model.session.cache.tokens == TOKENS
            else:
                with pytest.raises(InputError, match="E193") as caught:
                    model.load_session(path)
                assert "adapter" in caught.value.why


def test_a_shipped_prefix_is_not_used_under_an_adapter(
    tiny_folder: Path, four_bits: Path, adapters: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(RECIPE)
    (tmp_path / "system.txt").write_text("Be kind. " * 6)
    bundle = edgec.export(
        tiny_folder, recipe=str(tmp_path / "own.toml"), out=tmp_path / "p.edgec", system_prompt=tmp_path / "system.txt"
    )
    model = edgec.load(bundle)
    assert model.prefix is not None
    prompt = [*model.prefix.contents.tokens, 5, 6, 7]
    assert model.generate(prompt, max_new_tokens=2).cached_tokens > 0
    assert targets_of(open_bundle(bundle)) == targets_of(open_bundle(four_bits))
    model.adapter = adapters[0]  # The artifact is the same, byte for byte.
    for resume in (False, True):
        model.adapter = None
        model.adapter = adapters[0]
        assert model.generate(prompt, max_new_tokens=2, resume=resume).cached_tokens == 0
    model.adapter = None
    assert model.generate(prompt, max_new_tokens=2).cached_tokens > 0


def test_an_adapter_of_another_bundle_is_refused(
    tiny_bundle: Path, four_bits: Path, adapters: tuple[Path, Path]
) -> None:
    session = Session(tiny_bundle)
    for adapter in (adapters[0], read_adapter(adapters[0])):
        with pytest.raises(InputError, match="E696"):
            session.adapter = adapter


def test_only_edgecs_engine_adds_adapters(
    four_bits: Path, adapters: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(four_bits)

    class Other:
        pass

    monkeypatch.setattr(session, "_executor", Other())
    with pytest.raises(ToolError, match="E697"):
        session.adapter = adapters[0]
    assert session.adapter is None and session.cache.adapter == ""


def test_a_text_is_not_continued_after_a_switch_in_its_middle(four_bits: Path, adapters: tuple[Path, Path]) -> None:
    model = edgec.load(four_bits)
    tokens = model.tokens(TOKENS, max_new_tokens=8)
    next(tokens)
    model.adapter = adapters[0]
    with pytest.raises(InputError, match="E153"):
        list(tokens)


def test_drafts_under_an_adapter_do_not_change_the_text(four_bits: Path, adapters: tuple[Path, Path]) -> None:
    model = edgec.load(four_bits)
    model.adapter = adapters[1]
    plain = model.generate(TOKENS, max_new_tokens=24).tokens
    drafted = model.generate(TOKENS * 2, max_new_tokens=24, speculate="ngram")
    assert drafted.tokens == model.generate(TOKENS * 2, max_new_tokens=24).tokens
    assert plain == model.generate(TOKENS, max_new_tokens=24, speculate="ngram").tokens


def test_the_artifact_is_not_changed_by_making_or_using_adapters(four_bits: Path, adapters: tuple[Path, Path]) -> None:
    assert open_bundle(four_bits, check_files=True).files_checked
    assert np.isfinite(Session(four_bits).prefill(TOKENS, 0)).all()
