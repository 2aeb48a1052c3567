"""The notations of replies as values of ``facts.json``, from the table that Python reads, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from edgec.apps.embed.number_types import integers
from edgec.apps.embed.prompt_pieces import PromptPieces
from edgec.apps.embed.reply_facts import Heads, ReplyFacts
from edgec.bundle.notations import CallForm, Frame, ThinkingForm
from edgec.bundle.tools import Tool

_BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "json": ("opened",),
    "list": (),
    "named": ("between", "skipped"),
    "python": (),
    "gemma": ("quote",),
    "tagged": (),
}
"""What each kind of ``CallBody`` in an app's code is made with."""


def reply_values(facts: ReplyFacts) -> Mapping[str, Any]:
    """The section of ``ReplyFacts``."""
    held = facts.held
    return {
        "thinking": thinking_values(facts.thinking, facts.open_tokens, facts.close_tokens),
        "answerHeads": _heads(facts.heads),
        "tailTokens": facts.tail,
        "calls": call_values(facts.calls),
        "dropped": frame_marks(facts.frame),
        "hidden": _ranges(facts.hidden),
        "tools": tool_values(facts.tools),
        "constrainedChoices": dict(held.choices) if held is not None else {},
        "storedFiles": dict(held.digests) if held is not None else {},
        "switches": list(facts.switches),
        "keepsThought": facts.keeps_thought,
        "keepsOldThought": facts.keeps_old_thought,
        "plain": list(map(prompt_values, facts.plain)),
        "withTools": list(map(prompt_values, facts.with_tools)),
    }


def _heads(heads: Heads | None) -> Mapping[str, Any] | None:
    return None if heads is None else {"first": list(heads[0]), "afterThought": list(heads[1])}


def thinking_values(
    form: ThinkingForm | None, open_tokens: Sequence[int], close_tokens: Sequence[int]
) -> Mapping[str, Any] | None:
    """The notation of reasoning."""
    if form is None:
        return None
    tokens = {"openTokens": integers("open_tokens", open_tokens), "closeTokens": integers("close_tokens", close_tokens)}
    return {"open": form.open, "close": form.close, **tokens}


def call_values(form: CallForm | None) -> Mapping[str, Any] | None:
    """The notation of calls."""
    if form is None:
        return None
    writing = form.writing
    fields = {name: getattr(writing, name) for name in _BODIES[writing.kind]}
    return {
        **{name: getattr(form, name) for name in ("open", "close", "alone", "many", "before")},
        "body": {"kind": writing.kind, **fields},
    }


def frame_marks(frame: Frame) -> list[str]:
    """The headers of a message that belong to none of its parts."""
    return [mark for mark in (frame.lead, frame.answer, frame.note, frame.note_end) if mark]


def tool_values(tools: Sequence[Tool]) -> Mapping[str, list[str]]:
    """The names of the tools, each with the arguments that are texts by its schema."""
    return {tool.name: _texts(tool) for tool in tools}


def _texts(tool: Tool) -> list[str]:
    properties: Any = tool.parameters.get("properties", {})
    held = properties.items() if isinstance(properties, dict) else ()
    return [name for name, schema in held if isinstance(schema, dict) and schema.get("type") == "string"]


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges of those that follow each other."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return [(run[0], run[-1]) for run in runs]


def prompt_values(pieces: PromptPieces | None) -> Mapping[str, Any] | None:
    """The pieces of a prompt."""
    if pieces is None:
        return None
    joins = {" ".join(pair): text for pair, text in pieces.joins.items()}
    return {"joins": joins, "trimmed": sorted(pieces.trimmed), "quoted": pieces.quoted}
