"""Loaded decoders: their session, and files of its KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgec.bundle.chat_template import Message
from edgec.runtime_py.adapters.use import UsedAdapter
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.sessions.prefix import Prefix
from edgec.runtime_py.sessions.saved_session import load_session, place_of, save_session
from edgec.runtime_py.sessions.session import Session, text_limits
from edgec.runtime_py.sessions.session_file import SessionPlace


class Remembering(Tokenized):
    """A model that may be a decoder, whose KV cache holds a text.

    Attributes:
        prefix: the system prompt that the bundle ships with its KV state, or None.
    """

    prefix: Prefix | None
    _loaded: object

    @property
    def session(self) -> Session:
        """The loaded decoder.

        Raises:
            InputError: E155, the model is not a decoder.
        """
        text_limits(self.bundle)
        assert isinstance(self._loaded, Session)
        return self._loaded

    @property
    def adapter(self) -> UsedAdapter | None:
        """The adapter that the decoder adds, or None; set one, its file or its name, as with ``Session.adapter``."""
        return self.session.adapter

    @adapter.setter
    def adapter(self, adapter: UsedAdapter | Path | str | None) -> None:
        self.session.adapter = adapter

    @property
    def _place(self) -> SessionPlace:
        return place_of(self.bundle.manifest, self.session.cache.adapter)

    @property
    def system_prompt(self) -> str | None:
        """The system message that the bundle ships with its KV state, or None."""
        return self.prefix.text if self.prefix is not None and self.prefix.form == "chat" else None

    def save_session(self, path: Path | str, messages: Sequence[Message] = ()) -> int:
        """Write the KV cache to a file, whole or not at all; a later ``load_session`` continues from there.

        Args:
            path: replaced when it exists.
            messages: the messages of a conversation, kept in the same file.

        Returns:
            Bytes written.

        Raises:
            InputError: E121 or E122, the file cannot be written; E155, the model is not a decoder.
        """
        return save_session(self.session, self._place, Path(path), messages)

    def load_session(self, path: Path | str) -> list[Message]:
        """Load a saved KV cache and return the messages saved with it.

        A conversation continues with ``chat = model.chat(); chat.messages = model.load_session(path)``.

        Raises:
            InputError: E192, the file is damaged; E193, it was saved from another model, recipe or tokenizer, or under
                another adapter; E155.
                The KV cache stays as it was.
        """
        return list(load_session(self.session, self._place, Path(path)))
