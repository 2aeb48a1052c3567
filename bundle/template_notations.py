"""The notations that one tokenizer's chat template shows, and their markers as tokens of its vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from edgec.bundle.encoding import decode_tokens, token_ids
from edgec.bundle.notations import GENERIC_CALLS, SWITCHES, CallForm, Frame, ThinkingForm, call_form, thinking_form

# White space that `rstrip` takes from a prompt's end, at most so many tokens of it.
_SPACE: Final = 8


class TemplateNotations:
    """The notations of one chat template.

    Attributes:
        template: its text; several templates of one tokenizer are one text here.
        thinking: that of reasoning; None where the template has none.
        calls: that of calls; where the template takes no tools, or in a notation that edgec cannot read, the generic
            one or None.
    """

    def __init__(self, tokenizer: Any, *, generic: bool = False) -> None:
        """Read the chat template of a tokenizer of transformers; ``generic``: tools may be described in a message."""
        self._tokenizer = tokenizer
        held = getattr(tokenizer, "chat_template", None) or ""
        self.template: str = held if isinstance(held, str) else "\n".join(held.values())
        self.thinking: ThinkingForm | None = thinking_form(self.template)
        self.calls: CallForm | None = call_form(self.template) or (GENERIC_CALLS if generic else None)

    @property
    def switches(self) -> list[str]:
        """The template's variables that switch reasoning on and off."""
        return [name for name in SWITCHES if re.search(rf"\b{name}\b", self.template)]

    @cached_property
    def special(self) -> Mapping[str, int]:
        """The special tokens by their text."""
        held = self._tokenizer.added_tokens_decoder
        return {str(token.content): int(index) for index, token in held.items() if token.special}

    @cached_property
    def hidden(self) -> frozenset[int]:
        """The special tokens that no marker holds, which a message's text leaves out."""
        marks = self._marks
        return frozenset(index for text, index in self.special.items() if text not in marks)

    @property
    def tail(self) -> int:
        """So many tokens of a prompt's end show whether it has opened or closed the reasoning."""
        form = self.thinking
        return len(form.open) + len(form.close) + _SPACE if form else 0

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids to text, with the markers of the notations and without other special tokens."""
        shown = [token for token in tokens if token not in self.hidden]
        return decode_tokens(self._tokenizer, shown, special=True)

    def spelled(self, text: str) -> tuple[int, ...] | None:
        """A marker as tokens; None where no tokens write it."""
        for ahead in ("", "\n", "a"):
            before = token_ids(self._tokenizer, ahead, special=False) if ahead else []
            ids = token_ids(self._tokenizer, ahead + text, special=False)[len(before) :]
            if self.decode(ids) == text:
                return tuple(ids)
        return None

    @property
    def _marks(self) -> str:
        """All markers of the notations, one after the other."""
        calls, thinking = self.calls, self.thinking
        texts = [calls.open, calls.close, calls.before, *_inner_marks(calls)] if calls else []
        texts += [thinking.open, thinking.close] if thinking else []
        return "\n".join(texts + [_headers(form.frame) for form in (calls, thinking) if form is not None])


def _inner_marks(form: CallForm) -> list[str]:
    """Markers inside a call."""
    return [form.writing.between, form.writing.skipped, form.writing.quote]


def _headers(frame: Frame) -> str:
    return f"{frame.lead}\n{frame.answer}\n{frame.note}\n{frame.note_end}"
