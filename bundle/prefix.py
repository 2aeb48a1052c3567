"""A system prompt in a bundle: its text, its tokens, and the files that hold its KV state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from edgec.bundle.chat_template import render_messages
from edgec.bundle.encoding import token_ids
from edgec.bundle.folder import Bundle
from edgec.bundle.limited_json import limited_bytes
from edgec.bundle.manifest import PrefixInfo
from edgec.errors import InputError

STATE, TEXT = "prefix/state.safetensors", "prefix/system_prompt.txt"
# Questions that begin differently: a tokenizer may join the end of the prompt with any of them.
_TAILS = ("The", " the", "1", "\n\nWhat", "é", "?", "請")
_MAX_TEXT_BYTES = 1 << 20
Files = dict[str, bytes | Path]


@dataclass(frozen=True)
class SystemPrompt:
    """The prompt that every conversation, or every text, begins with.

    Attributes:
        text: without the newlines at the end of its file.
        form: ``chat`` where the tokenizer has a chat template, else ``text``.
        tokens: ids that do not depend on what follows, as far as seven different questions show; where another
            question changes the last of them, those are computed again at run time.
    """

    text: str
    form: Literal["chat", "text"]
    tokens: tuple[int, ...]


def read_system_prompt(path: Path, tokenizer: Any) -> SystemPrompt:
    """Read a system prompt and find its tokens.

    Args:
        path: a UTF-8 text file.
        tokenizer: of transformers, or None for a model without one.

    Raises:
        InputError: E191, it cannot be read or used; E154, the chat template refuses a system message.
    """
    text = _text(path)
    if tokenizer is None:
        raise _unusable(path, "the model has no tokenizer, or is not a decoder")
    if not getattr(tokenizer, "chat_template", None):
        return SystemPrompt(text, "text", _common([token_ids(tokenizer, text + tail) for tail in _TAILS]))
    system = {"role": "system", "content": text}
    turns = [{"role": "user", "content": tail} for tail in _TAILS]
    with_system = [render_messages(tokenizer, [system, turn]) for turn in turns]
    if with_system[0] == render_messages(tokenizer, turns[:1]):
        raise _unusable(path, "the chat template of this model leaves system messages out")
    return SystemPrompt(text, "chat", _common([token_ids(tokenizer, each, special=False) for each in with_system]))


def prefix_info(prompt: SystemPrompt, state_bytes: int, fingerprint: str) -> PrefixInfo:
    """What the manifest records about a prefix."""
    return PrefixInfo(
        form=prompt.form,
        tokens=len(prompt.tokens),
        bytes=state_bytes,
        text=TEXT,
        state=STATE,
        fingerprint=fingerprint,
    )


def prefix_files(prompt: SystemPrompt, state: Path) -> Files:
    """A prefix's files by their path inside the bundle."""
    return {TEXT: prompt.text.encode(), STATE: state}


def prefix_text(bundle: Bundle) -> str | None:
    """The system prompt that a bundle ships, or None.

    Raises:
        InputError: E142, it is not UTF-8 text of at most 1 MiB.
    """
    info = bundle.manifest.prefix
    if info is None:
        return None
    try:
        return limited_bytes(bundle.path / info.text, _MAX_TEXT_BYTES).decode()
    except (OSError, ValueError) as cause:
        fix = "copy the bundle again, or export it again with --system-prompt"
        what = "The bundle's system prompt cannot be read."
        raise InputError(what, str(bundle.path / info.text), str(cause)[:200], fix, "E142") from cause


def _text(path: Path) -> str:
    try:
        # A file ends with a newline, a message should not.
        text = limited_bytes(path, _MAX_TEXT_BYTES).decode().rstrip("\r\n")
    except (OSError, ValueError) as cause:
        raise _unusable(path, str(cause)) from cause
    if not text.strip():
        raise _unusable(path, "it is empty")
    return text


def _common(sequences: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The tokens that all sequences begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False))
    return tuple(column[0] for column in columns)


def _unusable(path: Path, why: str) -> InputError:
    return InputError(
        "The system prompt cannot be used.",
        where=str(path),
        why=why,
        fix="give --system-prompt a UTF-8 text file, for a language model with a tokenizer",
        code="E191",
    )
