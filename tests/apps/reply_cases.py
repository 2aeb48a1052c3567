"""Messages of every notation, whole and broken and cut in all places, and how Python reads them: the judge of apps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from edgec.apps.embed.reply_values import call_values, frame_marks, thinking_values, tool_values
from edgec.bundle.notations import CALL_FORMS, PLAIN, THINKING_FORMS, CallForm, ThinkingForm
from edgec.bundle.tools import tools_of
from edgec.runtime_py.messages.message_format import MessageFormat
from edgec.runtime_py.messages.reader import MessageReader
from edgec.runtime_py.messages.refusals import MalformedCall
from edgec.runtime_py.messages.rule import Markers, MessageRule
from edgec.runtime_py.structured.rule import Vector
from tests.runtime_py.generation.test_calls import WRITTEN
from tests.runtime_py.messages.talk import NOW, WEATHER, marks_of, tokenizer

TOOLS = tools_of([WEATHER, NOW, {"function": {"name": "a.b", "parameters": {"properties": {"x": {"type": "string"}}}}}])
_THINKING = {"harmony": "harmony", "gemma4": "gemma4", "mistral-named": "magistral", "llama3": "seed"}
_BY_NAME = {form.name: form for form in THINKING_FORMS}
# A notation of reasoning and one of calls, as templates have them together; either may be absent.
NOTATIONS: list[tuple[ThinkingForm | None, CallForm | None]] = [
    *((_BY_NAME[_THINKING.get(form.name, "think")], form) for form in CALL_FORMS),
    *((None, form) for form in CALL_FORMS[2:3]),
    *((form, None) for form in THINKING_FORMS),
    (None, None),
]
_WHY = "It is <b>raining</b>,\n\nI \u00e9 think."
# What a model might write between the markers, whichever they are; the last ones are nested to the limit, and beyond.
_DEEP = [f'{{"name": "now", "arguments": {{"x": {"[" * depth}{inside}{"]" * depth}}}}}' for depth, inside in (
    (199, ""), (200, ""), (199, "1"), (198, "1"))]  # fmt: skip
_ODD = json.loads((Path(__file__).parent / "odd_calls.json").read_text())
BODIES = [*(body for bodies in _ODD.values() for body in bodies), *_DEEP]


def notations() -> dict[str, Any]:
    """The notations as facts of an app."""
    frames = [next((form.frame for form in (calls, thinking) if form), PLAIN) for thinking, calls in NOTATIONS]
    return {
        "thinking": [thinking_values(thinking, (0,), (1,)) for thinking, _ in NOTATIONS],
        "calls": [call_values(calls) for _, calls in NOTATIONS],
        "frames": [{"marks": frame_marks(frame)} for frame in frames],
        "tools": tool_values(TOOLS),
    }


def cases() -> list[dict[str, Any]]:
    """Messages in pieces, each with the place of its notation."""
    pick = random.Random(4)
    made = []
    for place, (thinking, calls) in enumerate(NOTATIONS):
        for text in _bodies_in(calls):
            made.append({"notation": place, "pieces": [text], "stops": [], "thinking": False})
        for text in _messages(thinking, calls):
            cuts = [[text[:cut], text[cut:]] for cut in range(len(text) + 1)]
            for pieces in [*cuts, list(text), *(_pieces(text, pick) for _ in range(5))]:
                made.append({"notation": place, "pieces": pieces, "stops": [], "thinking": False})
        for text in _messages(thinking, calls):
            made.append({"notation": place, "pieces": _pieces(text, pick), "stops": ["coat", "s\n"], "thinking": False})
        if thinking:
            for text in (f"{_WHY}{thinking.close}\n\nYes.", _WHY, f"{thinking.close}Yes. {thinking.open}No"):
                made.append({"notation": place, "pieces": _pieces(text, pick), "stops": [], "thinking": True})
    return made


def _bodies_in(calls: CallForm | None) -> Iterator[str]:
    for body in BODIES if calls else ():
        assert calls is not None
        yield f"{calls.before}{calls.open}{body}{calls.close}"


def _messages(thinking: ThinkingForm | None, calls: CallForm | None) -> list[str]:
    """Whole messages, with and without reasoning and calls, and some that end too early."""
    frame = next((form.frame for form in (calls, thinking) if form is not None), PLAIN)
    thought = f"{thinking.open}\n{_WHY} {thinking.close}{frame.lead}" if thinking else ""
    answer = f"{frame.answer}\n\nTake a <coat>.\n "
    said = WRITTEN[calls.name] if calls else "<tool_call>"
    note = f"{frame.note}Let me see.{frame.note_end}{frame.lead}" if frame.note else "Let me see.\n"
    return [
        f"{thought}{answer}",
        f"{thought}{note}{said}",
        f"{said}\n{said} Done.",
        f"{thought}{said}",
        f"{thought}{said[: len(said) * 2 // 3]}",
        f"\n {answer}{thought[: len(thought) // 2]}",
    ]


def _pieces(text: str, pick: random.Random) -> list[str]:
    cuts = sorted(pick.randint(0, len(text)) for _ in range(pick.randint(1, 6)))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


class _Cut:
    """In the place of `TextStream`: token n completes piece n."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = pieces

    def push(self, token: int) -> str:
        return self.pieces[token]

    def flush(self) -> str:
        return ""


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What Python reads in a message: its pieces with neighbours of a kind joined, its parts, and whether it fails."""
    thinking, calls = NOTATIONS[case["notation"]]
    message_format = MessageFormat(tokenizer(f"{marks_of(calls)} tools" if calls else ""), lambda: cast(Any, None))
    reader = MessageReader(
        cast(Any, _Cut(case["pieces"])),
        case["stops"],
        thinking=thinking,
        calls=calls,
        read=lambda text: message_format.read(text, TOOLS),
        reasoning=case["thinking"],
    )
    pieces: list[list[str]] = []
    failed = ""
    try:
        for token in range(len(case["pieces"])):
            if not reader.stopped:
                reader.push(token)
            _join(pieces, reader)
        reader.close()
    except MalformedCall as error:
        failed = error.text
    _join(pieces, reader)
    made = [[call.name, call.arguments] for call in reader.calls]
    return {
        "pieces": pieces, "reasoning": reader.reasoning, "text": reader.shown, "calls": made, "failed": failed,
    }  # fmt: skip


def _join(pieces: list[list[str]], reader: MessageReader) -> None:
    for piece in reader.drain():
        if pieces and pieces[-1][0] == piece.kind != "call":
            pieces[-1][1] += piece.text
        else:
            pieces.append([piece.kind, piece.text])


def same(said: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an app read what Python reads; its arguments are JSON texts."""
    calls = [[name, json.loads(arguments)] for name, arguments in said["calls"]]
    return {**said, "calls": calls} == wanted


TOKENS = ["<think>", "</think>", "<", "think>", "</", "a", " ", "\n", "b ", "</s>"]
_OPEN, _CLOSE, EOS = "<think>", "</think>", len(TOKENS) - 1


def budget_cases() -> list[dict[str, Any]]:
    """Tokens that a model would write, budgets, and where the message begins."""
    pick = random.Random(5)
    phases, budgets = ("start", "think", "answer"), (None, 0, 1, 2, 5)
    return [
        {
            "phase": phase,
            "budget": budget,
            "open": pick.choice([[0], [2, 3]]),
            "close": pick.choice([[1], [4, 3]]),
            "answer": pick.choice(["free", "free", "text", "calls"]),
            "awaited": pick.choice([[], [EOS]]),
            "wanted": [pick.choice((7, 0, 2))] + [pick.randrange(len(TOKENS)) for _ in range(14)],
        }
        for phase in phases
        for budget in budgets
        for _ in range(60)
    ]


# What an answer may hold, by the number of its tokens; after reasoning the first row is left out.
ALLOWED = [[2, 5], [5, 7, 8], [0, 2, 6], [3, 5, 6, 8], [6, 7]]
_WHOLE, _ENDED, OVER = 2, 4, 2


class Answer:
    """The rule of an answer, as `TokenRule`: whole after two tokens, and over after four."""

    def __init__(self, thought: bool) -> None:
        self.count, self._first = 0, int(thought)

    def may(self) -> list[int]:
        """The tokens that may come next."""
        return ALLOWED[min(self.count + self._first, len(ALLOWED) - 1)] + [EOS] * (self.count >= _WHOLE)

    def mask(self, logits: Vector) -> Vector:
        out = np.full_like(logits, -np.inf)
        out[self.may()] = logits[self.may()]
        return out

    def take(self, token: int) -> int:
        assert token in self.may()
        self.count += 1
        return token

    def count_fitting(self, tokens: Sequence[int]) -> int:
        return int(tokens[0] in self.may())

    def fork(self) -> Self:
        raise NotImplementedError

    def is_whole(self, count: int) -> bool:
        return count >= _WHOLE

    def ended(self, count: int) -> bool:
        return count >= _ENDED


def held(case: dict[str, Any]) -> list[int]:
    """The tokens that Python lets such a model write until its answer is over, and how far that has come."""
    rule = MessageRule(
        lambda tokens: "".join(TOKENS[token] for token in tokens),
        Markers(_OPEN, _CLOSE, tuple(case["open"]), tuple(case["close"])),
        lambda left, thought: None if case["answer"] == "free" else Answer(thought),
        99,
        phase=case["phase"],
        budget=case["budget"],
        structured=case["answer"] == "text",
        eos=frozenset(case["awaited"]),
    )
    taken = list[int]()
    for token in case["wanted"]:
        logits = -np.arange(len(TOKENS), dtype=np.float32)
        logits[token] = 1
        taken.append(rule.take(int(rule.mask(logits).argmax())))
        if rule.ended(len(taken)) or (case["answer"] != "free" and taken[-1] == EOS):
            break
    count = len(taken)
    return [*taken, OVER if rule.ended(count) else int(rule.is_whole(count))]


def all_cases() -> dict[str, Any]:
    """All cases, for an app to read from a file."""
    return {"messages": cases(), "budgets": budget_cases(), "tokens": TOKENS, "allowed": ALLOWED}
