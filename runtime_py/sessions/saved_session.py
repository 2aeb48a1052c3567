"""A session saved to a file and restored from it, in this process or another, on this machine or another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from edgec.bundle.chat_template import Message
from edgec.bundle.entry_points import Limits
from edgec.bundle.manifest import Manifest
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.sessions.cache_contents import Arena, CacheContents, reachable
from edgec.runtime_py.sessions.origin import origin_of
from edgec.runtime_py.sessions.session_file import (
    Contents,
    SessionFile,
    SessionPlace,
    open_session_file,
    write_session_file,
)


class Restorable(Protocol):
    """A decoder whose KV cache can be copied out and in: a Session, or a fake in a test."""

    @property
    def limits(self) -> Limits:
        """The context, tokens per call and rows of logits per call."""

    @property
    def cache(self) -> CacheContents:
        """The tokens that the KV cache holds."""

    @property
    def arena(self) -> Arena | None:
        """The bytes of all states, writable; None where the runtime keeps them out of reach."""

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens and return the last one's logits, float32 [vocabulary]."""


def place_of(manifest: Manifest, adapter: str = "") -> SessionPlace:
    """The origin and layout that a saved state must have to be restored under this bundle and an adapter's digest."""
    limits = manifest.writing_limits
    assert limits is not None  # a decoder
    states = tuple(manifest.states) if reachable(manifest.states) else ()
    return SessionPlace(origin_of(manifest, adapter), states, limits.context, manifest.model.vocab_size)


def save_session(session: Restorable, place: SessionPlace, path: Path, messages: Sequence[Message] = ()) -> int:
    """Write the KV cache to a file: token ids and the used slots.

    Args:
        session: the decoder, which is not changed.
        place: the model that it runs.
        path: replaced when it exists, whole or not at all.
        messages: a conversation to keep in the same file.

    Returns:
        Bytes written. Where states are out of reach only the tokens are kept, to be computed again.

    Raises:
        InputError: E121 or E122.
    """
    contents = Contents(tuple(session.cache.tokens), session.cache.high_water, tuple(messages))
    return write_session_file(path, place, contents, session.arena if place.states else None)


def load_session(session: Restorable, place: SessionPlace, path: Path) -> tuple[Message, ...]:
    """Put a saved sequence into the KV cache and return the conversation saved with it.

    Raises:
        InputError: E192 damaged, E193 of another model, recipe or tokenizer; the session stays as it was.
    """
    file = open_session_file(path, place)
    file.check()
    restore(session, file, len(file.contents.tokens))
    return file.contents.messages


def restore(session: Restorable, file: SessionFile, length: int) -> None:
    """Make the KV cache hold the first ``length`` tokens of a file: copied, or computed where that is impossible."""
    tokens = file.contents.tokens[:length]
    session.cache.hold((), 0)
    if session.arena is not None and file.states:
        file.read_into(session.arena, length)
        session.cache.hold(tokens, file.contents.high_water)
    elif tokens:
        session.prefill(tokens, 0)
