"""Shipped prefixes, saved sessions, several sequences on one model: with a bundle made by ``edgec.export``."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import edgec
from edgec.bundle.folder import read_manifest
from edgec.bundle.prefix import STATE, TEXT
from edgec.cli.app import app
from edgec.errors import InputError
from edgec.runtime_py.model import Model
from tests.conftest import SYSTEM_PROMPT as SYSTEM

QUESTION = "Who are you?"
# More than one chunk where the recipe's is 128, and not a whole number of them.
LONG = [3 + i % 300 for i in range(150)]


@pytest.fixture(scope="module")
def model(prefix_bundle: Path) -> Model:
    return edgec.load(prefix_bundle)


@pytest.fixture(scope="module")
def plain(tiny_bundle: Path) -> Model:
    return edgec.load(tiny_bundle)


def test_the_bundle_ships_the_used_slots_and_says_how_they_were_checked(prefix_bundle: Path, plain: Model) -> None:
    manifest = read_manifest(prefix_bundle)
    prefix, states = manifest.prefix, manifest.states
    assert prefix is not None and manifest.limits is not None and prefix.form == "chat"
    per_token = sum(state.bytes for state in states) // manifest.limits.context
    assert 0 < prefix.bytes - prefix.tokens * (per_token + 8) < 4096, "states and token ids, and a header"
    assert (prefix_bundle / TEXT).read_text() == SYSTEM
    same, at_once = manifest.parity[-2:]
    assert (same.stage, same.reference, same.max_abs) == ("prefix restored", "computed prefix", 0.0)
    assert at_once.reference == "whole prompt" and at_once.gated and at_once.passed
    assert read_manifest(plain.bundle.path).prefix is None
    shown = CliRunner().invoke(app, ["inspect", str(prefix_bundle)])
    assert f"{prefix.tokens} tokens (chat), KV state" in shown.stdout


def test_a_conversation_with_the_same_system_message_answers_alike_without_computing_it(
    model: Model, plain: Model
) -> None:
    request = model.request(max_new_tokens=12)
    model.session.prefill([9, 9, 9], 0)
    with_prefix = model.chat(SYSTEM).say(QUESTION, request).generation
    without = plain.chat(SYSTEM).say(QUESTION, request).generation
    prefix = read_manifest(model.bundle.path).prefix
    assert prefix is not None and with_prefix.cached_tokens >= prefix.tokens and without.cached_tokens == 0
    assert with_prefix.tokens == without.tokens and with_prefix.prompt_tokens == without.prompt_tokens


def test_the_shipped_system_message_is_the_default_one(model: Model) -> None:
    assert model.system_prompt == SYSTEM
    assert model.chat().messages == model.chat(SYSTEM).messages and model.chat("").messages == []
    templated = model.generate(QUESTION, template=True, max_new_tokens=3)
    assert templated.cached_tokens > 0
    assert templated.tokens == model.chat(SYSTEM).say(QUESTION, model.request(max_new_tokens=3)).generation.tokens


def test_raw_tokens_that_begin_so_are_restored_too_and_others_are_not(model: Model, plain: Model) -> None:
    assert model.prefix is not None
    for prompt, cached in (([*model.prefix.file.contents.tokens, *LONG[:9]], True), (LONG, False)):
        out = model.generate(prompt, max_new_tokens=8)
        assert (out.cached_tokens > 0) is cached
        assert out.tokens == plain.generate(prompt, max_new_tokens=8).tokens


def test_a_saved_session_goes_on_in_another_process_alike(plain: Model, tmp_path: Path) -> None:
    logits = plain.session.prefill(LONG, 0)
    plain.save_session(tmp_path / "s", [{"role": "user", "content": "Hi"}])
    other = plain.new_session()
    assert other.load_session(tmp_path / "s") == [{"role": "user", "content": "Hi"}]
    assert other.session.cache.tokens == LONG
    again = other.session.forward([int(logits.argmax())], len(LONG), [0])
    assert np.array_equal(again, plain.session.forward([int(logits.argmax())], len(LONG), [0]))


def test_a_session_of_another_recipe_is_refused(plain: Model, tmp_path: Path) -> None:
    plain.session.prefill(LONG, 0)
    plain.save_session(tmp_path / "s")
    changed = plain.bundle.manifest.model_copy(update={"recipe": {"name": "other"}})
    foreign = Model(replace(plain.bundle, manifest=changed))
    with pytest.raises(InputError, match="E193") as refused:
        foreign.load_session(tmp_path / "s")
    assert refused.value.why == "these differ: recipe"


def test_two_sessions_switched_between_tokens_answer_as_each_alone(plain: Model) -> None:
    first, second = plain.new_session(), plain.new_session()
    prompts = [LONG[:60], [1, *LONG[30:140]]]
    alone = [list(plain.generate(prompt, max_new_tokens=24).tokens) for prompt in prompts]
    turns = list(zip_longest(first.tokens(prompts[0], max_new_tokens=24), second.tokens(prompts[1], max_new_tokens=24)))
    assert [token for token, _ in turns if token is not None] == alone[0]
    assert [token for _, token in turns if token is not None] == alone[1]
    assert all(len(tokens) > 4 for tokens in alone)


def test_a_second_session_has_its_own_state_and_nothing_else(plain: Model) -> None:
    # A tokenizer is read when it is first asked for, here or by an earlier test.
    assert plain.tokenizer is not None
    other = plain.new_session()
    mine, theirs = plain.session.arena, other.session.arena
    states = plain.bundle.manifest.states
    assert mine is not None and theirs is not None
    assert not np.shares_memory(mine, theirs)
    assert theirs.nbytes == sum(state.bytes for state in states)
    assert other.tokenizer is plain.tokenizer and other.bundle is plain.bundle


def test_a_conversation_is_kept_in_a_file_and_continued(prefix_bundle: Path, tmp_path: Path) -> None:
    runner, file = CliRunner(), tmp_path / "talk"
    ask = ["run", str(prefix_bundle), "--json", "--max-new-tokens", "4", "--session", str(file), "-p"]
    first = runner.invoke(app, [*ask, "Hello"])
    second = runner.invoke(app, [*ask, "Go on"])
    assert (first.exit_code, second.exit_code) == (0, 0), second.output
    model = edgec.load(prefix_bundle)
    messages = model.load_session(file)
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant"]
    chat = model.chat()
    for text in ("Hello", "Go on"):
        reply = chat.say(text, model.request(max_new_tokens=4))
    assert messages == chat.messages
    assert json.loads(second.stdout)["tokens"] == list(reply.generation.tokens)
    assert json.loads(second.stdout)["cached_tokens"] > json.loads(first.stdout)["prompt_tokens"]
    other_system = runner.invoke(app, [*ask, "Hi", "--system", "Be brief."])
    assert isinstance(other_system.exception, InputError) and other_system.exception.code == "E156"


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_a_damaged_prefix_is_refused(prefix_bundle: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(prefix_bundle, tmp_path / "b.edgec")
    state = tmp_path / "b.edgec" / STATE
    content = bytearray(state.read_bytes())
    content[-5] ^= 1
    state.write_bytes(content if damage == "flip" else content[:-7])
    with pytest.raises(InputError, match="E135"):
        edgec.load(tmp_path / "b.edgec")


def test_a_system_prompt_longer_than_the_context_is_refused_before_any_work(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("once upon a time " * 400)
    with pytest.raises(InputError, match="E150"):
        edgec.export(tiny_folder, recipe="float", out=tmp_path / "x.edgec", system_prompt=tmp_path / "s.txt")
    assert os.listdir(tmp_path) == ["s.txt"]
