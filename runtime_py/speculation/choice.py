"""The drafters for a user's choice: ``auto``, ``off``, ``ngram``, ``heads``, a predictor or a bundle."""

from __future__ import annotations

import hashlib
import json
import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.predictor import DRAFT, EAGLE3, MTP
from edgec.bundle.tokenizer_json import read_tokenizer_json
from edgec.errors import InputError
from edgec.runtime_py.engines.open_artifact import open_artifact
from edgec.runtime_py.sessions.cache_contents import shortest_log
from edgec.runtime_py.sessions.session import Session, opened
from edgec.runtime_py.sessions.snapshots import Snapshots
from edgec.runtime_py.speculation.draft import Drafter, DraftLimits
from edgec.runtime_py.speculation.draft_model import DraftModel
from edgec.runtime_py.speculation.heads import HeadDrafts
from edgec.runtime_py.speculation.predictor import PredictorDrafts
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.speculation.speculator import Speculator

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle
    from edgec.bundle.manifest import Manifest

OFF: Final = "off"
_NAMES: Final = ("auto", OFF, "ngram", "heads", MTP, EAGLE3)
HEADS_OUTPUT: Final = "draft_logits"


def speculator_for(session: Session, choice: str | Path | Bundle) -> Speculator | None:
    """Make the speculator of a choice for a loaded model, or return None for ``off``.

    Args:
        session: the model that verifies.
        choice: ``off``; ``ngram``, prompt look-up; ``heads``, ``mtp`` or ``eagle3``, what is inside the artifact;
            ``auto``, all that need nothing besides the bundle; a bundle, or its path: a draft model together with
            prompt look-up.

    Raises:
        InputError: E194 the draft model has another vocabulary, E195 the artifact has no heads, E198 there is no such
            choice, and no such bundle; E13x, E155, E157 as for any bundle.
    """
    if choice == OFF:
        return None
    limits = DraftLimits.of(session.limits, session.bundle.manifest.states)
    return Speculator(_drafters(session, choice), limits)


def _drafters(session: Session, choice: str | Path | Bundle) -> list[Drafter]:
    lookup, manifest = PromptLookup(), session.bundle.manifest
    if choice == "ngram":
        return [lookup]
    if choice == "auto":
        heads: list[Drafter] = [HeadDrafts(session)] if has_heads(manifest) else []
        return [lookup, *heads, *([_predictor(session)] if manifest.predictor else [])]
    if choice == "heads":
        _require(has_heads(manifest), session.bundle, f"its artifact has no output {HEADS_OUTPUT}")
        return [HeadDrafts(session)]
    if choice in (MTP, EAGLE3):
        there = manifest.predictor is not None and manifest.predictor.name == choice
        _require(there, session.bundle, f"its artifact has no method {DRAFT} of this kind")
        return [_predictor(session)]
    return [lookup, _draft_model(session, choice)]


def has_heads(manifest: Manifest) -> bool:
    """Whether an artifact also gives draft logits."""
    return any(output.name == HEADS_OUTPUT for method in manifest.methods for output in method.outputs)


def _require(there: bool, bundle: Bundle, why: str) -> None:
    if not there:
        raise InputError(
            "The bundle has no draft heads.",
            where=str(bundle.path),
            why=why,
            fix="export it with trained heads or the checkpoint's predictor, or speculate with auto or ngram",
            code="E195",
        )


def _predictor(session: Session) -> PredictorDrafts:
    predictor = session.bundle.manifest.predictor
    assert predictor is not None
    return PredictorDrafts(session, open_artifact(session.bundle, session.engine, DRAFT), predictor.name)


def _draft_model(session: Session, choice: str | Path | Bundle) -> DraftModel:
    choice = bundle_folder(choice) if isinstance(choice, str | Path) else choice
    if isinstance(choice, Path) and not os.path.lexists(os.fspath(choice).replace("\0", "")):
        raise _no_such(str(choice))
    bundle = opened(choice)
    check_same_vocabulary(session.bundle, bundle)
    draft, states = Session(bundle, engine=session.engine), bundle.manifest.states
    snapshots = None if shortest_log(states) is None else Snapshots(draft, states, most=1)
    return DraftModel(draft, DraftLimits.of(draft.limits, states), snapshots=snapshots)


def _no_such(choice: str) -> InputError:
    near = get_close_matches(choice, _NAMES, n=1, cutoff=0.5)
    return InputError(
        f"There is no speculation method called {choice!r}.",
        where="--speculate",
        why="it is neither a known name nor the path of a bundle",
        fix=f"did you mean {near[0]}?" if near else f"use {', '.join(_NAMES)} or the path of a bundle",
        code="E198",
    )


def vocabulary_fingerprint(bundle: Bundle) -> str | None:
    """The sha256 over the bundle's tokens and their ids; None for a bundle without a tokenizer.

    Two files that write the same vocabulary in another order have the same fingerprint.

    Raises:
        InputError: E158, its tokenizer.json cannot be used.
    """
    file = bundle.tokenizer_dir / "tokenizer.json" if bundle.tokenizer_dir else None
    if file is None or not file.is_file():
        return None
    ids = read_tokenizer_json(file).ids
    return hashlib.sha256(json.dumps(sorted(ids.items())).encode()).hexdigest()


def check_same_vocabulary(target: Bundle, draft: Bundle) -> None:
    """Refuse a draft model whose token ids mean something else.

    Raises:
        InputError: E194.
    """
    sizes = (target.manifest.model.vocab_size, draft.manifest.model.vocab_size)
    if sizes[0] != sizes[1]:
        raise _other(draft, f"it has {sizes[1]} tokens, the model {sizes[0]}")
    if vocabulary_fingerprint(target) != vocabulary_fingerprint(draft):
        raise _other(draft, "the same ids stand for other tokens")


def _other(draft: Bundle, why: str) -> InputError:
    return InputError(
        "The draft model has another vocabulary.",
        where=str(draft.path),
        why=why,
        fix="draft with a smaller model of the same family, or with the first layers of the same model",
        code="E194",
    )
