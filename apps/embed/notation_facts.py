"""The notations of a chat template as the JSON text that edgec's text core reads (``edgec/text.h``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgec.apps.embed.reply_facts import ReplyFacts
from edgec.apps.embed.reply_values import frame_marks, tool_values
from edgec.bundle.notations import CallForm, CallWriting, ThinkingForm


def notation_facts(facts: ReplyFacts) -> str:
    """What tells reasoning, calls of tools and the answer apart, with the tools that may be called."""
    stated: dict[str, Any] = {"dropped": frame_marks(facts.frame)}
    if facts.thinking is not None:
        stated["thinking"] = _thinking(facts.thinking, facts.open_tokens, facts.close_tokens)
    if facts.calls is not None:
        stated["calls"] = _calls(facts.calls)
        stated["tools"] = tool_values(facts.tools)
    return json.dumps(stated)


def _thinking(form: ThinkingForm, open_tokens: Sequence[int], close_tokens: Sequence[int]) -> dict[str, Any]:
    tokens = {"open_tokens": list(open_tokens), "close_tokens": list(close_tokens)}
    return {"open": form.open, "close": form.close, **tokens}


def _calls(form: CallForm) -> dict[str, Any]:
    marks = {"open": form.open, "close": form.close, "before": form.before}
    return {**marks, "alone": form.alone, "many": form.many, "writing": _writing(form.writing)}


def _writing(writing: CallWriting) -> dict[str, str]:
    """The fields that say how a call is read; the key of its arguments matters to what writes one only."""
    return {name: text for name, text in asdict(writing).items() if name != "key"}
