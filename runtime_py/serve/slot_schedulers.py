"""Where answers are written: on one session in turns, or on several whose calls of the model are shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from edgec.bundle.entry_points import Limits
from edgec.errors import InputError
from edgec.runtime_py.adapters.use import UsedAdapter
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.decoding.stepper import Logits, Stepper, prefill_in_chunks
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.scheduler import BatchedStepper, Closed, Scheduler
from edgec.runtime_py.serve.slots import Slots
from edgec.runtime_py.serve.wanted_answer import WantedAnswer
from edgec.runtime_py.sessions.placed_rows import RowsSession
from edgec.runtime_py.sessions.step import obstacle_to_steps
from edgec.runtime_py.structured.patience import Check


class SlotScheduler(Protocol):
    """Sessions of a bundle, each of which serves one answer at a time.

    Attributes:
        sessions: how many answers are written at once.
        why: why only one at a time; empty where there may be several.
    """

    sessions: int
    why: str

    def slot(
        self, wanted: WantedAnswer, check: Check, adapter: UsedAdapter | None = None
    ) -> AbstractContextManager[tuple[Stepper, PromptCache]]:
        """A session for an answer under an adapter, and what of its prompt it holds.

        Before each call of the model ``check`` is asked, which raises where nobody wants the answer any more.
        """

    @property
    def held_tokens(self) -> int:
        """How many positions the KV caches of all sessions hold."""

    def close(self) -> None:
        """Compute nothing any more."""


class WatchedStepper:
    """A decoder that asks before each call whether the answer is still wanted."""

    def __init__(self, stepper: Stepper, check: Check) -> None:
        """Ask ``check``, which raises where it is not."""
        self._stepper, self._check = stepper, check

    @property
    def limits(self) -> Limits:
        """The context, tokens per call and rows of logits per call of the decoder."""
        return self._stepper.limits

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Check whether the request still stands, then feed ``tokens`` and return the logits of ``rows``."""
        self._check()
        return self._stepper.forward(tokens, start, rows)

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens, with a check before each chunk, and return the last one's logits [vocabulary]."""
        if isinstance(self._stepper, RowsSession):  # its parts are its own choice, and each call of it asks
            return self._stepper.prefill(tokens, start)
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self._stepper.reusable(tokens)


class OneSlot:
    """One session, the model's own: answers are written one after the other."""

    sessions = 1

    def __init__(self, model: Model, why: str) -> None:
        """Write on ``model``."""
        self._model, self._prompt_cache, self.why = model, model.prompt_cache(), why

    @contextmanager
    def slot(
        self, wanted: WantedAnswer, check: Check, adapter: UsedAdapter | None = None
    ) -> Iterator[tuple[Stepper, PromptCache]]:
        """The session, with all that it holds; under another adapter than before, nothing."""
        if adapter is not self._model.adapter:
            self._model.adapter = adapter
        given = self._prompt_cache if wanted.media is None else self._model.prompt_cache(given=wanted.media)
        yield WatchedStepper(self._model.session, check), given

    @property
    def held_tokens(self) -> int:
        """How many positions the session's KV cache holds."""
        return len(self._model.session.cache.tokens)

    def close(self) -> None:
        """Nothing runs beside the answer's own thread."""


class BatchedSlots:
    """Several sessions of edgec's engine: each call of the model computes the next tokens of all."""

    why = ""

    def __init__(self, model: Model, sessions: int, chunk: int) -> None:
        """Open no session yet.

        Args:
            model: a loaded bundle that `obstacle_to_steps` has nothing against.
            sessions: how many answers are written at once.
            chunk: tokens of a prompt that are read in one call, at most half of what the bundle takes.
        """
        limits = model.session.limits
        self.sessions = sessions
        self._chunk = max(1, min(chunk, limits.prefill_chunk // 2))
        self._slots, self.scheduler = Slots(model, sessions, self._chunk), Scheduler(limits, self._chunk)

    @contextmanager
    def slot(
        self, wanted: WantedAnswer, check: Check, adapter: UsedAdapter | None = None
    ) -> Iterator[tuple[Stepper, PromptCache]]:
        """A free session, with what it or another one under the same adapter holds of the prompt."""
        slot, count = self.scheduler.between(lambda: self._slots.take(wanted.prompt, adapter))
        stepper = BatchedStepper(slot.session, self.scheduler, self._chunk, check)
        try:
            yield stepper, PromptCache(lambda _: count, slot.snapshots.keep)
        finally:
            stepper.close()
            with suppress(Closed):
                self.scheduler.between(lambda: self._slots.give_back(slot))

    @property
    def held_tokens(self) -> int:
        """How many positions the KV caches of all sessions hold."""
        return self._slots.held_tokens

    def close(self) -> None:
        """Stop the scheduler."""
        self.scheduler.close()


def slot_scheduler(model: Model, limits: ServeLimits) -> SlotScheduler:
    """As many sessions as the limits allow where the bundle's can be computed together, else one.

    Raises:
        InputError: E645, not even one session fits into the memory that was given.
    """
    sessions = sessions_within(limits, sum(state.bytes for state in model.bundle.manifest.states))
    if sessions == 1:
        return OneSlot(model, "only one session was asked for, or fits into its memory")
    why = obstacle_to_steps(model.session)
    return OneSlot(model, why) if why else BatchedSlots(model, sessions, limits.chunk_tokens)


def sessions_within(limits: ServeLimits, state_bytes: int) -> int:
    """How many sessions there may be, each of which keeps a state of so many bytes.

    Raises:
        InputError: E645, not even one.
    """
    room = limits.memory_bytes
    fitting = limits.sessions if room is None or state_bytes == 0 else room // state_bytes
    if fitting < 1:
        raise InputError(
            "Not even one session fits into the memory that it may take.",
            where="--memory-mb",
            why=f"a session's state takes {state_bytes / (1 << 20):,.1f} MiB",
            fix="allow more, or export with a shorter --context or a cache of fewer bits",
            code="E645",
        )
    return min(limits.sessions, fitting)
