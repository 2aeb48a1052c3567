"""Whatever is combined (recurrences, experts, drafts, sessions, files, snapshots, few bits), the words are the same.

A script of turns runs on two sessions of one artifact; each turn keeps a part of its text and goes on otherwise. What
it says must be what a session says that is fed the whole text from its first token on, one token at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgec
from edgec.bundle.folder import Bundle, open_bundle
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import with_changes
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.sessions.saved_session import load_session, place_of, save_session
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.snapshots import Snapshots
from edgec.runtime_py.speculation.draft import Drafter, DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from tests.example_counts import examples
from tests.families import save
from tests.runtime_py.speculation.simulated import Always, Replay
from tests.state_families import EXPERT_FAMILIES, QUICK, STATE_FAMILIES

# Calls of at most 16 tokens have the bits of their tokens alone (docs/speculation.md), so that words must be equal.
CHUNK, CONTEXT, LONGEST = 16, 192, 120
BUDGETS = {"kl_mean": 50.0, "top1_agreement": 0.0}


@dataclass(frozen=True)
class Turn:
    """What one turn does.

    Attributes:
        session: which of the two.
        kept, new: how much of its text stays, and the tokens that follow.
        drafts: who guesses.
        memory: where the beginning comes from: the session as it is, a snapshot, or a file.
        count: tokens to say.
    """

    session: int
    kept: int
    new: list[int]
    drafts: str
    memory: str
    count: int


TURNS = st.builds(
    Turn,
    st.integers(0, 1),
    st.integers(0, LONGEST),
    st.lists(st.integers(3, 127), min_size=1, max_size=20),
    st.sampled_from(["nobody", "ngram", "replay", "model"]),
    st.sampled_from(["session", "snapshot", "file"]),
    st.integers(1, 14),
)


class Stage:
    """Two sessions with their snapshots, a draft model, and a session that says what is right."""

    def __init__(self, bundle: Bundle, folder: Path) -> None:
        self.states, self.place, self.file = bundle.manifest.states, place_of(bundle.manifest), folder / "x.session"
        self.sessions = [Session(bundle) for _ in range(2)]
        self.snapshots = [Snapshots(session, self.states) for session in self.sessions]
        self.draft, self.plain = Session(bundle), Session(bundle)

    def right(self, text: list[int], count: int) -> list[int]:
        for position, token in enumerate(text):
            logits = self.plain.forward([token], position, (0,))[0]
        words: list[int] = []
        while True:
            words.append(int(logits.argmax()))
            if len(words) == count:
                return words
            logits = self.plain.forward(words[-1:], len(text) + len(words) - 1, (0,))[0]

    def said(self, turn: Turn, text: list[int], right: list[int]) -> list[int]:
        session, snapshots = self.sessions[turn.session], self.snapshots[turn.session]
        stream = self._stream(turn, session, text, self._held(turn, session, snapshots, text), right)
        words = list(islice(stream, 1))
        snapshots.keep()
        words += islice(stream, turn.count - 1)
        # The clock that makes drafts pay is this turn's own.
        vars(session).pop("forward", None)
        return words

    def _held(self, turn: Turn, session: Session, snapshots: Snapshots, text: list[int]) -> int:
        if turn.memory == "snapshot":
            return snapshots.recall(text)
        if turn.memory == "file":
            save_session(session, self.place, self.file)
            session.prefill([5, 6, 7], 0)
            load_session(session, self.place, self.file)
        return session.reusable(text)

    def _stream(self, turn: Turn, session: Session, text: list[int], held: int, right: list[int]) -> Iterator[int]:
        if turn.drafts == "nobody":
            return stream_tokens(session, text, Sampler(Sampling()), held)
        speculator = Always([self._drafter(turn, text, right)], session, self.states)
        return speculator.tokens(session, text, Sampling(), turn.count, held)

    def _drafter(self, turn: Turn, text: list[int], right: list[int]) -> Drafter:
        if turn.drafts == "ngram":
            return PromptLookup()
        if turn.drafts == "replay":
            return Replay([*text, *right], 3)
        limits = DraftLimits.of(self.draft.limits, self.states)
        return DraftModel(self.draft, limits, snapshots=Snapshots(self.draft, self.states, most=1))


FAMILIES = [*(family for family in STATE_FAMILIES if family.name in QUICK), *EXPERT_FAMILIES]
CASES = [pytest.param((f, recipe), id=f"{f.name}-{recipe}") for f in FAMILIES for recipe in ("float", "4bit")]


@pytest.fixture(scope="module", params=CASES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    family, recipe = request.param
    folder = tmp_path_factory.mktemp(f"{family.name}-{recipe}")
    model = save(family, folder / family.name)
    short = with_changes(load_recipe(recipe), prefill_chunk=CHUNK)
    out = edgec.export(model, recipe=short, out=folder / "x.edgec", context=CONTEXT, budgets=BUDGETS)
    bundle = open_bundle(out)
    assert has_experts(bundle) == (family in EXPERT_FAMILIES)
    return Stage(bundle, folder)


def has_experts(bundle: Bundle) -> bool:
    """Whether a token reads a part of a matrix, besides its row of the embedding."""
    ledger = bundle.manifest.ledger
    assert ledger is not None
    return any(0 < row.active < 1 and "embed" not in row.name for row in ledger.rows)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(TURNS, min_size=1, max_size=6))
def test_the_words_are_those_of_plain_greedy_decoding(stage: Stage, turns: list[Turn]) -> None:
    texts: list[list[int]] = [[], []]
    for turn in turns:
        text = [*texts[turn.session][: turn.kept], *turn.new][:LONGEST]
        right = stage.right(text, turn.count)
        assert stage.said(turn, text, right) == right
        texts[turn.session] = [*text, *right]
