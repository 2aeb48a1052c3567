"""The bundle's prefix: a system prompt whose KV state was computed at export and is copied in, not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from edgec.bundle.prefix import prefix_text
from edgec.errors import InputError
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.sessions.saved_session import Restorable, place_of, restore
from edgec.runtime_py.sessions.session_file import SessionFile, open_session_file
from edgec.runtime_py.sessions.snapshots import Snapshots

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


@dataclass(frozen=True)
class Prefix:
    """A system prompt with its KV state.

    Attributes:
        text: the system prompt.
        form: ``chat`` (a conversation's system message) or ``text`` (the beginning of a prompt).
        file: tokens and state.
        contents: the contents of a KV cache once the state is restored.
    """

    text: str
    form: str
    file: SessionFile
    contents: CacheContents

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the prefix holds; 0 where it has no KV state."""
        return self.contents.reusable(tokens) if self.file.states else 0


def open_prefix(bundle: Bundle) -> Prefix | None:
    """Open the prefix of a bundle, or return None; only its header and tokens are read here.

    Raises:
        InputError: E142 its text or E192 its state is damaged, E193 made for another model, recipe or tokenizer.
    """
    info, text = bundle.manifest.prefix, prefix_text(bundle)
    if info is None or text is None:
        return None
    file = open_session_file(bundle.path / info.state, place_of(bundle.manifest))
    if file.fingerprint != info.fingerprint:
        raise _other_tokens(file)
    if not bundle.files_checked:
        file.check()
    contents = CacheContents(file.states)
    contents.hold(file.contents.tokens, file.contents.high_water)
    return Prefix(text, info.form, file, contents)


def restore_prefix(session: Restorable, prefix: Prefix | None, tokens: Sequence[int]) -> int:
    """Restore the part of the prefix that ``tokens`` begin with into the KV cache; returns its length in tokens."""
    count = prefix.reusable(tokens) if _is_usable(prefix, session) and session.arena is not None else 0
    held = session.cache.tokens[:count] == list(tokens[:count]) and session.cache.continues_at(count)
    if prefix is not None and count and not held:
        restore(session, prefix.file, count)
    return count


def recall_prefix(session: Restorable, prefix: Prefix | None, snapshots: Snapshots, tokens: Sequence[int]) -> int:
    """How many leading ``tokens`` the KV cache holds, after going back to a snapshot or the prefix if that is more."""
    held = snapshots.recall(tokens)
    if not _is_usable(prefix, session) or prefix.reusable(tokens) <= held:
        return held
    return max(restore_prefix(session, prefix, tokens), held)


def _is_usable(prefix: Prefix | None, session: Restorable) -> TypeGuard[Prefix]:
    """Whether there is a prefix and its state was computed as the session computes: under the same adapter, or none."""
    return prefix is not None and prefix.contents.adapter == session.cache.adapter


def _other_tokens(file: SessionFile) -> InputError:
    return InputError(
        "The saved KV state belongs to something else.",
        where=str(file.path),
        why="these differ: tokens; its fingerprint is not the one in the manifest",
        fix="copy the bundle again, or export again",
        code="E193",
    )
