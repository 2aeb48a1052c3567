"""Calls and reasoning reach templates that have no place of their own for them, and stay as they are for all others."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from edgec.bundle.template_messages import as_taken

ARGUMENTS = {"city": 'O\'Hare "A"\n', "days": 3, "exact": True, "near": ["a", None], "at": {"x": -1.5}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
NOW = {"id": "abcdefghj", "type": "function", "function": {"name": "now", "arguments": {}}}
HARMONY = "tools <|channel|> <|call|> message.tool_calls"
LIST = "tools <|tool_list_start|> {{ message['content'] }}"


def said(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **fields}


def test_reasoning_and_a_text_before_a_call_become_one_where_both_are_refused() -> None:
    note, thought = said(content="Let me see.", tool_calls=[CALL]), {"reasoning_content": "Hm."}
    (message,) = as_taken(HARMONY, [note | thought])
    assert message == said(tool_calls=[CALL], reasoning_content="Hm.\n\nLet me see.")
    for alone in (note, said(tool_calls=[CALL], **thought), said(content="No.", **thought)):
        assert as_taken(HARMONY, [alone]) == [alone]
    assert as_taken("tools <tool_call> </tool_call>", [note | thought]) == [note | thought]


def test_calls_stand_in_the_content_where_the_template_reads_nothing_else() -> None:
    talk = [{"role": "user", "content": "?"}, said(content="Look.", tool_calls=[CALL, NOW])]
    user, message = as_taken(LIST, talk)
    assert user == talk[0] and "tool_calls" not in message
    begun, _, rest = message["content"].removeprefix("<|tool_call_start|>").partition("<|tool_call_end|>")
    assert message["content"].startswith("<|tool_call_start|>[weather(") and rest == "Look."
    first, second = ast.parse(begun, mode="eval").body.elts
    assert {each.arg: ast.literal_eval(each.value) for each in first.keywords} == ARGUMENTS
    assert ast.unparse(second) == "now()"
    assert "tool_calls" in talk[1], "what was given stays as it was"


@pytest.mark.parametrize("template", [f"{LIST} message.tool_calls", "tools <tool_call> </tool_call>", "plain"])
def test_calls_stay_where_they_are(template: str) -> None:
    talk = [said(tool_calls=[CALL]), said(content="Yes.")]
    assert as_taken(template, talk) == talk


def test_contents_in_parts_stay_as_they_are() -> None:
    talk = [said(content=[{"type": "text", "text": "Look."}], tool_calls=[CALL])]
    assert as_taken(LIST, talk) == talk
