"""How an Android app, which has no Jinja engine, renders conversations: in pieces, or by the template's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.apps.embed.prompt_pieces import PromptPieces, Rendering, text_pieces
from edgec.apps.embed.reply_values import prompt_values
from edgec.apps.embed.template_program import TemplateProgram, template_program
from edgec.bundle.chat_template import render_messages
from edgec.bundle.chat_template_worker import MARKS
from edgec.bundle.golden_texts import GOLDEN_DAY
from edgec.bundle.tokenizer_folder import has_template, open_tokenizer


@dataclass(frozen=True)
class ChatPrompt:
    """What renders conversations of text: pieces where the template is made of them, else a program, else nothing."""

    pieces: PromptPieces | None = None
    program: TemplateProgram | None = None

    @property
    def known(self) -> bool:
        """Whether an app renders conversations."""
        return self.pieces is not None or self.program is not None


def chat_prompt(tokenizer_folder: Path, *, in_parts: bool = False) -> ChatPrompt:
    """What renders the conversations of a bundle's tokenizer.

    Args:
        tokenizer_folder: of the bundle.
        in_parts: contents are lists of parts, as for models with vision; a program would lose the texts.
    """
    if not has_template(tokenizer_folder):
        return ChatPrompt()
    tokenizer = open_tokenizer(tokenizer_folder)
    pieces = text_pieces(*renderings(tokenizer))
    if in_parts:
        return ChatPrompt(pieces)
    return ChatPrompt(pieces, template_program(tokenizer.get_chat_template(), tokenizer.special_tokens_map))


def renderings(tokenizer: Any, **options: Any) -> tuple[Rendering, Rendering]:
    """How a template writes messages, with marks for dates, and with those of a day."""

    def at(clock: str) -> Rendering:
        return lambda messages, answer: render_messages(tokenizer, messages, answer, options=options, clock=clock)

    return at(MARKS), at(GOLDEN_DAY)


def chat_values(chat: ChatPrompt) -> Mapping[str, Any]:
    """The section of Kotlin's `ChatPrompt`."""
    program = chat.program
    return {
        "known": chat.known,
        "pieces": prompt_values(chat.pieces),
        "program": None if program is None else {"tree": program.tree, "variables": dict(program.variables)},
    }
