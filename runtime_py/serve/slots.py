"""The sessions of a served bundle: which one a request gets, and what it need not compute again.

A request goes on in the session whose answer it continues. Else it gets the session that was used longest ago, and what
its prompt shares with the prompts of any session is copied there, also from one that is being written: keys and values
of whole chunks, which have the bits that computing them again would give. What was computed under one adapter, or under
none, is neither continued nor copied under another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.bundle.entry_points import StateInfo
from edgec.runtime_py.adapters.use import UsedAdapter
from edgec.runtime_py.model import Model
from edgec.runtime_py.sessions.cache_contents import used_bytes
from edgec.runtime_py.sessions.prefix import restore_prefix
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.snapshots import Snapshots


@dataclass(eq=False)
class Slot:
    """A session that serves one request at a time.

    Attributes:
        session: the session.
        snapshots: copies of the states that it cannot rewind.
        prompt: how many tokens the latest prompt had, as far as it was read.
        exact: leading tokens of prompts that were read in whole chunks or from the shipped prefix: the bits that any
            prompt with this beginning would give.
        busy: a request has it.
        used: when it was taken last, counted in requests; 0: never.
    """

    session: Session
    snapshots: Snapshots
    prompt: int = 0
    exact: int = 0
    busy: bool = False
    used: int = 0

    def continues(self, tokens: Sequence[int]) -> bool:
        """Whether a prompt goes on from what was written here.

        It begins with the latest prompt and a token of its answer; where a session cannot go back, with the prompt.
        """
        beyond = self.prompt + self.session.cache.whole
        return self.prompt > 0 and beyond <= min(self.session.cache.shared(tokens), len(tokens) - 1)

    def change(self, adapter: UsedAdapter | None) -> None:
        """Compute under another adapter from now on; the same one leaves everything as it is."""
        if digest_of(adapter) != self.session.cache.adapter:
            self.session.adapter = adapter
            self.prompt = self.exact = 0

    def whole_chunks(self, tokens: Sequence[int], chunk: int) -> int:
        """How many leading ``tokens`` it holds with the bits of any prompt, in whole chunks; fewer than all."""
        if not self.session.cache.whole:
            return 0
        return min(self.session.cache.shared(tokens), self.exact, len(tokens) - 1) // chunk * chunk


def digest_of(adapter: UsedAdapter | None) -> str:
    """What a KV cache is marked with: the adapter's digest; empty without one."""
    return adapter.digest if adapter is not None else ""


class Slots:
    """All sessions of a bundle. Its methods are called while no session changes, by one thread at a time."""

    def __init__(self, model: Model, most: int, chunk: int) -> None:
        """Begin with none.

        Args:
            model: a loaded decoder, whose own session is left alone.
            most: the most sessions; each is opened when it is needed first.
            chunk: how many tokens of a prompt are read in a call.
        """
        self._model, self._most, self._chunk = model, most, chunk
        self._states: Sequence[StateInfo] = model.bundle.manifest.states
        self._all: list[Slot] = []
        self._taken = 0

    @property
    def held_tokens(self) -> int:
        """How many positions the KV caches hold, of sessions that are used now and of others."""
        return sum(len(slot.session.cache.tokens) for slot in self._all)

    def take(self, tokens: Sequence[int], adapter: UsedAdapter | None = None) -> tuple[Slot, int]:
        """The session for a prompt, and how many leading tokens of it need not be computed; one must be free."""
        alike = [slot for slot in self._all if slot.session.cache.adapter == digest_of(adapter)]
        continued = [slot for slot in alike if not slot.busy and slot.continues(tokens)]
        slot = max(continued, key=lambda one: one.session.cache.shared(tokens), default=None)
        donor = max(alike, key=lambda one: one.whole_chunks(tokens, self._chunk), default=None)
        known = donor.whole_chunks(tokens, self._chunk) if donor else 0
        count = slot.snapshots.recall(tokens) if slot else 0
        if slot is None or count <= known:
            slot = self._free()
            slot.change(adapter)
            count = self._begun(slot, donor, tokens, known)
            slot.exact = max(count, len(tokens) // self._chunk * self._chunk)
        self._taken += 1
        slot.busy, slot.used, slot.prompt = True, self._taken, len(tokens)
        return slot, count

    def give_back(self, slot: Slot) -> None:
        """Let another request have a session."""
        held = len(slot.session.cache.tokens)
        slot.busy, slot.prompt, slot.exact = False, min(slot.prompt, held), min(slot.exact, held)

    def _free(self) -> Slot:
        """A new session while there may be more, else the free one that was used longest ago."""
        if len(self._all) < self._most:
            session = self._model.new_session().session
            self._all.append(Slot(session, Snapshots(session, self._states)))
            return self._all[-1]
        return min((slot for slot in self._all if not slot.busy), key=lambda one: one.used)

    def _begun(self, slot: Slot, donor: Slot | None, tokens: Sequence[int], known: int) -> int:
        """Make a session hold the first ``known`` tokens, or those of the shipped prefix if that is more."""
        prefix = None if slot.session.cache.adapter else self._model.prefix
        shipped = prefix.reusable(tokens) if prefix is not None else 0
        if shipped > known:
            return restore_prefix(slot.session, prefix, tokens)
        if donor is not None and known and slot.whole_chunks(tokens, self._chunk) < known:
            self._copy(donor, slot, known)
        return known

    def _copy(self, donor: Slot, slot: Slot, count: int) -> None:
        source, target = donor.session.arena, slot.session.arena
        assert source is not None and target is not None  # only sessions with reachable states are batched
        slot.session.cache.hold((), 0)
        for state in self._states:
            used_bytes(target, state, count)[:] = used_bytes(source, state, count)
        slot.session.cache.hold(donor.session.cache.tokens[:count], count)
