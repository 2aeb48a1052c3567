"""One call of the model for several sessions: layers read their weights once for the tokens of all.

Each session's logits have the bits that its own ``forward`` would give, so answers do not depend on what else is
computed. Only edgec's engine does this, and not for every program (`obstacle_to_steps` says for which and tries it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgec.errors import EdgecError, InputError
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.engines.engine import EngineSession
from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.sessions.session import Session

# Tokens of the trial's prompts, where limits allow: attention computes the first row by row, the second in tiles.
_FEW, _MANY = 5, 24
# Then so many tokens one by one: an operator that treats one row otherwise may agree in three calls of four.
_STEPS = 12


@dataclass(frozen=True)
class SessionCall:
    """The tokens of one session in a call of several: the arguments of ``Session.forward``; ``rows`` may be empty."""

    session: Session
    tokens: Sequence[int]
    start: int
    rows: Sequence[int]

    def check(self) -> None:
        """Refuse what ``Session.forward`` refuses: InputError E150, E152, E153."""
        self.session.check(self.tokens, self.start, self.rows or (0,))

    @property
    def inputs(self) -> tuple[Array, Array, Array]:
        """Tokens [S], positions [S] and rows [K], int64."""
        positions = np.arange(self.start, self.start + len(self.tokens))
        return np.array(self.tokens, np.int64), positions, np.array(self.rows, np.int64)


def step(calls: Sequence[SessionCall]) -> list[Logits]:
    """Feed tokens of several sessions of one model in one call.

    Args:
        calls: of different sessions; together at most ``limits.prefill_chunk`` tokens and 1 to ``limits.logit_rows``
            rows.

    Returns:
        The logits of each call's rows, float32 [rows, vocabulary].

    Raises:
        InputError: E150, E152, E153 as ``Session.forward``, before anything is executed; E646, these sessions cannot be
            computed together; E157, the engine failed: the sessions then hold no more than what preceded the call.
    """
    for call in calls:
        call.check()
    executors = [call.session.executor for call in calls]
    engines = [each for each in executors if isinstance(each, EngineSession)]
    if len(engines) < len(calls) or len({id(each.model) for each in engines}) != 1:
        raise _apart("they are not sessions of one model of edgec's engine")
    if len({call.session.cache.adapter for call in calls}) != 1:
        raise _apart("they have different adapters")
    for call in calls:
        call.session.cache.begin(call.start, len(call.tokens))
    logits = engines[0].model.step(engines, [call.inputs for call in calls])[0][0]
    for call in calls:
        call.session.cache.write(call.start, call.tokens)
    ends = np.cumsum([len(call.rows) for call in calls])
    return [each.astype(np.float32, copy=False) for each in np.split(logits, ends[:-1])]


def obstacle_to_steps(session: Session) -> str:
    """Why a bundle's sessions cannot be computed together; empty where they can, which was tried.

    Two new sessions are computed alone and together, and their logits compared bit by bit: a program that mixes rows
    in a way that nobody thought of is found here and not in an answer.
    """
    if type(session) is not Session or not isinstance(session.executor, EngineSession):
        return "only decoders of text in edgec's engine can"
    limits = session.limits
    many = min(_MANY, limits.prefill_chunk - _FEW, limits.context - _STEPS)
    if many < 1 or limits.context < _FEW + _STEPS:
        return "its context or its calls are too short to try it"
    try:
        same = _trial(session, many)
    except EdgecError as error:
        return error.why or error.what
    return "" if same else "together they do not give the bits that each gives alone"


def _trial(session: Session, many: int) -> bool:
    """Whether two sessions give the same logits together: for their prompts, and for each token after them."""
    assert isinstance(session.executor, EngineSession)
    model, vocabulary = session.executor.model, session.bundle.manifest.model.vocab_size or _FEW
    alone, together = ([model.session() for _ in range(2)] for _ in range(2))
    starts = np.zeros(2, np.int64)
    for counts in ((_FEW, many), *[(1, 1)] * _STEPS):
        inputs = [_trial_inputs(int(at), count, vocabulary) for at, count in zip(starts, counts, strict=True)]
        wanted = [one.run([tokens[None], *more])[0][0] for one, (tokens, *more) in zip(alone, inputs, strict=True)]
        if not np.array_equal(model.step(together, inputs)[0][0], np.concatenate(wanted)):
            return False
        starts += counts
    return True


def _trial_inputs(start: int, count: int, vocabulary: int) -> tuple[Array, Array, Array]:
    positions = np.arange(start, start + count)
    return positions * 7 % vocabulary, positions, np.array([count - 1])


def _apart(why: str) -> InputError:
    return InputError(
        "These sessions cannot be computed in one call.",
        where="step",
        why=why,
        fix="call each session's own forward",
        code="E646",
    )
