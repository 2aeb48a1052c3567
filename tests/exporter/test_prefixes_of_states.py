"""A system prompt shipped with a model that has recurrent states: its words are those of a bundle without one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.folder import read_manifest
from edgec.runtime_py.chat import chat_tokens
from edgec.runtime_py.model import Model
from tests.conftest import SYSTEM_PROMPT as SYSTEM
from tests.engine.test_runner import run_runner
from tests.families import Family, save
from tests.runtime_py.tiny_decoder import VOCAB, tiny_tokenizer
from tests.state_families import STATE_FAMILIES

pytestmark = pytest.mark.long

QUESTIONS = ("Who are you?", "Lily had a red ball", "?")
NEW_TOKENS, CONTEXT = 24, 256
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}
# Convolutions beside attention, and nothing but a recurrence.
CASES = [
    ("lfm2", "float"),
    ("mamba2", "float"),
    pytest.param(("lfm2", "4bit"), marks=pytest.mark.slow),
    pytest.param(("mamba2", "4bit"), marks=pytest.mark.slow),
]


@dataclass(frozen=True)
class Pair:
    """The same model twice: with a prefix and without one."""

    with_prefix: Model
    plain: Model

    @property
    def prefix(self) -> int:
        """The prefix's tokens."""
        info = read_manifest(self.with_prefix.bundle.path).prefix
        assert info is not None
        return info.tokens


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name, recipe = request.param
    folder = tmp_path_factory.mktemp(f"{name}-{recipe}")
    (folder / "system.txt").write_text(SYSTEM + "\n")
    family = next(family for family in STATE_FAMILIES if family.name == name)
    model = save(Family(name, {**family.options, "vocab_size": VOCAB}), folder / name)
    tiny_tokenizer().save_pretrained(model)
    options: dict[str, Any] = {"recipe": recipe, "context": CONTEXT, "budgets": BUDGETS}
    shipped = edgec.export(model, out=folder / "with.edgec", system_prompt=folder / "system.txt", **options)
    return Pair(edgec.load(shipped), edgec.load(edgec.export(model, out=folder / "plain.edgec", **options)))


def conversation(model: Model, question: str) -> list[int]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return chat_tokens(model.tokenizer, messages)


def test_the_state_is_shipped_and_checked(pair: Pair) -> None:
    manifest = read_manifest(pair.with_prefix.bundle.path)
    same, at_once = manifest.parity[-2:]
    assert manifest.prefix is not None and any(state.layout == "recurrent" for state in manifest.states)
    assert (same.stage, same.max_abs) == ("prefix restored", 0.0) and at_once.gated and at_once.passed


def test_a_conversation_says_the_same_without_computing_it(pair: Pair) -> None:
    for question in QUESTIONS:
        # Another use of the session comes between.
        pair.with_prefix.session.prefill([9, 9, 9], 0)
        request = pair.with_prefix.request(max_new_tokens=NEW_TOKENS)
        said = pair.with_prefix.chat().say(question, request).generation
        wanted = pair.plain.chat(SYSTEM).say(question, request).generation
        assert said.cached_tokens >= pair.prefix > 50 and said.prompt_tokens == wanted.prompt_tokens
        assert said.tokens == wanted.tokens and len(said.tokens) > 4


def test_a_second_turn_says_the_same(pair: Pair) -> None:
    request = pair.plain.request(max_new_tokens=6)
    chats = pair.with_prefix.chat(), pair.plain.chat(SYSTEM)
    for question in QUESTIONS:
        said, wanted = (chat.say(question, request).generation.tokens for chat in chats)
        assert said == wanted


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kept", [0, 1, 60])
def test_a_text_that_leaves_the_prefix_early_is_computed_itself(pair: Pair, kept: int) -> None:
    """A recurrent state has no beginning to go back to: what begins otherwise is fed from its first token on."""
    text = [*conversation(pair.plain, "?")[:kept], *(5 + 7 * i % 200 for i in range(30))]
    said, wanted = (list(islice(model.tokens(text, max_new_tokens=9), 9)) for model in (pair.with_prefix, pair.plain))
    assert said == wanted


def test_the_runner_says_what_python_says_after_the_prefix(pair: Pair, tmp_path: Path) -> None:
    tokens = conversation(pair.with_prefix, QUESTIONS[0])
    said = pair.with_prefix.generate(tokens, max_new_tokens=NEW_TOKENS)
    assert said.cached_tokens >= pair.prefix
    line = f"generate {NEW_TOKENS} {' '.join(map(str, tokens))}\n"
    bundles = (pair.with_prefix.bundle.path, pair.plain.bundle.path)
    first, second = (run_runner("--bundle", path, "--packed", tmp_path, stdin=line)[1] for path in bundles)
    assert first["tokens"] == second["tokens"]
    assert first["tokens"][: len(said.tokens)] == list(said.tokens)
