"""Messages of ``edgec run``: the answer on stdout, reasoning on stderr, each call as one line of JSON on stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from edgec.bundle.tools import tools_in
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.messages.message_format import ChatOptions
from edgec.runtime_py.messages.reader import CALL, REASONING, Piece
from edgec.runtime_py.messages.reply import Reply


def chat_options_of(tools: Path | None, thinking_budget: int | None) -> ChatOptions:
    """What a command asks of answers beside the options of a request.

    Raises:
        InputError: E629, the file cannot be read; E620, E621, it does not hold tools.
    """
    return Conversation.chat_options(None if tools is None else tools_in(tools), thinking_budget=thinking_budget)


class PrintedMessage:
    """Prints the pieces of one message."""

    def __init__(self) -> None:
        self._open = ""

    def __call__(self, piece: Piece) -> None:
        """Print a piece."""
        if piece.kind == CALL:
            self.end()
            for call in piece.calls:
                held = {"id": call.id, "name": call.name, "arguments": call.arguments}
                print(json.dumps({"tool_call": held}, ensure_ascii=False), flush=True)
            return
        if self._open and self._open != piece.kind:
            self.end()
        self._open = piece.kind
        print(piece.text, end="", file=sys.stderr if piece.kind == REASONING else sys.stdout, flush=True)

    def end(self) -> None:
        """End the line that is open."""
        if self._open:
            print(file=sys.stderr if self._open == REASONING else sys.stdout, flush=True)
        self._open = ""


def answered(
    chat: Conversation, line: str, request: GenerationRequest, chat_options: ChatOptions, show: PrintedMessage | None
) -> Reply | None:
    """Answer a line: a message, or the result of the first call that waits for one; None while others wait."""
    waiting = chat.waiting
    if waiting:
        chat.add_result(waiting[0], line)
    if len(waiting) > 1:
        return None
    reply = chat.answer(None if waiting else line, request, chat_options, show, all_pieces=True)
    if show is not None:
        show.end()
    return reply
