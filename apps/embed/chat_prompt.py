"""How an Android app, which has no Jinja engine, renders conversations: in pieces, or by the template's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgec.apps.embed.kotlin_text import boolean, string
from edgec.apps.embed.prompt_pieces import PromptPieces, Rendering, text_pieces
from edgec.apps.embed.reply_constants import KOTLIN, prompt_constant
from edgec.apps.embed.template_program import TemplateProgram, template_program
from edgec.bundle.chat_template import render_messages
from edgec.bundle.chat_template_worker import MARKS
from edgec.bundle.golden_texts import GOLDEN_DAY
from edgec.bundle.tokenizer_folder import has_template, open_tokenizer

# A constant of a class file has at most 65,535 bytes.
_CHUNK: Final = 8000


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


def kotlin_chat(chat: ChatPrompt) -> Mapping[str, str]:
    """The placeholders of Kotlin's `ChatPrompt`."""
    return {
        "chat_known": boolean(chat.known),
        "chat_pieces": prompt_constant(chat.pieces, KOTLIN),
        "chat_program": _program(chat.program),
    }


def _program(program: TemplateProgram | None) -> str:
    if program is None:
        return KOTLIN.nothing
    chunks = [program.tree[place : place + _CHUNK] for place in range(0, len(program.tree), _CHUNK)]
    rows = ",\n            ".join(map(string, chunks))
    variables = KOTLIN.rows({name: string(text) for name, text in program.variables.items()})
    tree = f'listOf({rows}).joinToString("")'
    return f"TemplateProgram(\n            {tree},\n            mapOf({variables}),\n        )"
