"""Where a call of a tool begins and ends in a rendered conversation: what the model itself writes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.notations import CallForm


@dataclass(frozen=True)
class CallToFind:
    """A call by which a template shows how it writes calls and results; none of its texts is in a template."""

    name: str = "edgec_probe"
    key: str = "edgecKey"
    value: str = "edgecValue"
    id: str = "edgecPr0b"


PROBE: Final = CallToFind()


def probe_call() -> dict[str, Any]:
    """An assistant's message that is one call."""
    function = {"name": PROBE.name, "arguments": {PROBE.key: PROBE.value}}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": PROBE.id, "type": "function", "function": function}],
    }


def probe_result(content: str) -> dict[str, Any]:
    """The message with the result of that call."""
    return {"role": "tool", "content": content, "name": PROBE.name, "tool_call_id": PROBE.id}


def call_span(text: str, place: int, form: CallForm, head: str) -> tuple[int, int]:
    """Begin and end of the first call after ``place``; ``head`` is the conversation up to where the assistant answers.

    Raises:
        ValueError: the text has no such call.
    """
    value = text.index(PROBE.value, place)
    begin = text.rfind(form.open, place, value)
    if begin < 0:
        # The header of a call may be written before its opening marker.
        if not text.startswith(head):
            raise ValueError("the call does not begin where an answer does")
        begin = len(head)
    return begin, _end(text, begin, value, form)


def _end(text: str, begin: int, value: int, form: CallForm) -> int:
    """The end of a call: its closing marker, else the end of its JSON."""
    if form.close:
        return text.index(form.close, value) + len(form.close)
    place = text.rindex("{", begin, value)
    if form.writing.kind == "list":
        place = text.index("[", begin + len(form.open))
    elif form.writing.opened:
        place = begin
    return json.JSONDecoder().raw_decode(text, place)[1]
