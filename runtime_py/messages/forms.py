"""What reads and constrains the text between a call's markers, for each way of writing in the table of notations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from edgec.bundle.notations import CallForm, CallWriting
from edgec.bundle.tools import Tool
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.messages.bodies.gemma_calls import GemmaCall
from edgec.runtime_py.messages.bodies.json_calls import JsonCall, JsonList, NamedJson
from edgec.runtime_py.messages.bodies.python_calls import PythonCalls
from edgec.runtime_py.messages.bodies.tagged_calls import TaggedCall
from edgec.runtime_py.messages.sheet import Sheet


class CallBody(Protocol):
    """What stands between the markers of a call."""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of what may stand there; where that is a list, of ``many`` calls or of one."""

    def read(self, text: str) -> list[ToolCall]:
        """The calls of a text. Raises ValueError."""


_BODIES: Final[Mapping[str, Callable[[CallWriting], CallBody]]] = {
    "json": lambda writing: JsonCall(writing.key, writing.opened),
    "list": lambda writing: JsonList(),
    "named": lambda writing: NamedJson(writing.between, writing.skipped),
    "python": lambda writing: PythonCalls(),
    "gemma": lambda writing: GemmaCall(writing.quote),
    "tagged": lambda writing: TaggedCall(),
}


def body_of(form: CallForm) -> CallBody:
    """What reads and constrains the calls of a notation."""
    return _BODIES[form.writing.kind](form.writing)
