"""What a chat template writes between messages, taken from renderings and checked against the template.

An app has no Jinja engine, but in most templates the text between two contents depends on the kinds of the two messages
alone: `joins` holds it for each pair. A call of tools stands in the prompt as the model wrote it. Where a template does
something else, such as numbering its messages, there are no pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from edgec.bundle.notations import CallForm
from edgec.devices.embed.call_spans import PROBE, call_span, probe_call, probe_result
from edgec.errors import ToolError

START, END, CALL, RESULT, IMAGE = "start", "answer", "call", "tool", "image"
NAME: Final = "\ue012"
"""Stands in a join for the name of the tool whose result follows."""
Rendering = Callable[[Sequence[Mapping[str, Any]], bool], str]
Talk = Sequence[tuple[str, str]]
_MARKS: Final = tuple(f"\ue010{letter}{letter}\ue011" for letter in "abcdefghijklmnop")
_TURNS: Final = ("user", "user assistant user", "system user", "system user assistant user assistant user")
_TOOL_TURNS: Final = (
    "user call tool",
    "user assistant user call tool tool assistant user",
    "system user call tool call tool tool assistant user call tool",
)
# An image is a message of its own here, before the user's that it belongs to.
_ALONE: Final = ("image user", "image image user", "image image image user")
_SHOWN: Final = (
    *_ALONE,
    *("image user assistant user", "user assistant image user", "image user assistant image image user"),
    "system image user assistant user",
)
_CONTENTS: Final = ("Hello  there", " padded \n", '<|odd|> {{ x }} "quoted"', "多言語 é", "last")


@dataclass(frozen=True)
class PromptPieces:
    """The pieces of a chat template.

    Attributes:
        joins: what stands between two contents, by the kinds of their messages; ``start`` is before the first message,
            ``answer`` where the assistant goes on.
        trimmed: the kinds whose contents lose white space at both ends.
        quoted: results stand in the prompt as JSON strings.
    """

    joins: Mapping[tuple[str, str], str]
    trimmed: frozenset[str]
    quoted: bool = False

    def render(self, talk: Talk, tool: str = "") -> str:
        """A conversation of kinds and contents up to where the assistant answers, as an app renders it.

        Args:
            talk: kind and content of each message; of a call, what the model wrote.
            tool: the name of the tool that all results are of.
        """
        out, last = "", START
        for kind, content in talk:
            held = content.strip() if kind in self.trimmed else content
            # The quotes around a result are in the joins.
            held = json.dumps(held, ensure_ascii=False)[1:-1] if kind == RESULT and self.quoted else held
            out += self.joins[last, kind].replace(NAME, tool) + held
            last = kind
        return out + self.joins[last, END]


def prompt_pieces(render: Rendering, calls: CallForm | None = None, image: str = "") -> PromptPieces | None:
    """The pieces of a template; None where it does something else.

    Args:
        render: turns messages, and whether an answer is to follow, into text; may raise for roles it does not know.
        calls: the notation of calls, where the template is given tools.
        image: what the template writes for an image, which is a message of the role ``image`` before the user's that it
            belongs to. Where not all conversations with images have pieces, there are those of a first message alone.
    """
    texts = (*_TURNS, *(_TOOL_TURNS if calls else ()))
    tiers = [(*texts, *_SHOWN), (*texts, *_ALONE), _ALONE] if image else []
    for turns in (*tiers, texts):
        pieces = _pieces(render, [each.split() for each in turns], calls, image)
        if pieces is not None:
            return pieces
    return None


def _pieces(
    render: Rendering, asked: Sequence[Sequence[str]], calls: CallForm | None, image: str
) -> PromptPieces | None:
    """The pieces of conversations of some shapes."""
    try:
        shapes = [shape for shape in asked if "system" not in shape or _takes_system(render)]
        joins: dict[tuple[str, str], str] = {}
        for shape in shapes:
            for pair, text in _joins(render, shape, calls, image):
                if joins.setdefault(pair, text) != text:
                    return None
        kinds = {kind for shape in shapes for kind in shape}
        pieces = PromptPieces(joins, _trimmed(render, kinds), calls is not None and _quotes(render))
        return pieces if all(_holds(pieces, render, shape, calls, image) for shape in shapes) else None
    except ToolError:
        raise
    except Exception:  # a template is a user's program: whatever it raises, it has no pieces
        return None


def _takes_system(render: Rendering) -> bool:
    mark = _MARKS[0]
    try:
        return mark in render([_plain("system", mark), _plain("user", "x")], True)
    except ToolError:
        raise
    except Exception:  # as above: a template may refuse the role in any way
        return False


def _plain(kind: str, content: str) -> dict[str, Any]:
    return probe_result(content) if kind == RESULT else {"role": kind, "content": content}


def _messages(shape: Sequence[str], contents: Sequence[str]) -> list[dict[str, Any]]:
    pairs = zip(shape, contents, strict=False)
    return [probe_call() if kind == CALL else _plain(kind, content) for kind, content in pairs]


def _joins(
    render: Rendering, shape: Sequence[str], calls: CallForm | None, image: str
) -> Iterator[tuple[tuple[str, str], str]]:
    """The text before, between and after the contents of a conversation of some kinds."""
    marks = _shown(shape, _MARKS, image)
    messages = _messages(shape, marks)
    text = render(messages, True)
    place, texts = 0, []
    for number, kind in enumerate(shape):
        if kind == CALL:
            assert calls is not None
            begin, end = call_span(text, place, calls, render(messages[:number], True))
        else:
            begin = text.index(marks[number], place)
            end = begin + len(marks[number])
        texts.append(text[place:begin])
        place = end
    texts.append(text[place:])
    for pair, held in zip(pairwise([START, *shape, END]), texts, strict=True):
        named = PROBE.name in held and pair[1] != RESULT
        if named or PROBE.id in held or any(mark in held for mark in _MARKS):
            raise ValueError("the text between messages holds what is in one")
        yield pair, held.replace(PROBE.name, NAME)


def _shown(shape: Sequence[str], contents: Sequence[str], image: str) -> list[str]:
    """The contents of a conversation; that of an image is what the template writes for it."""
    return [image if kind == IMAGE else contents[place % len(contents)] for place, kind in enumerate(shape)]


def _trimmed(render: Rendering, kinds: set[str]) -> frozenset[str]:
    def padded(kind: str, content: str) -> str:
        shape = {"assistant": "user assistant user", RESULT: "user call tool", "system": "system user"}
        turns = shape.get(kind, "user").split()
        contents = [content if each == kind else _MARKS[place + 1] for place, each in enumerate(turns)]
        return render(_messages(turns, contents), True)

    mark = _MARKS[0]
    held = (kind for kind in kinds if kind not in (CALL, IMAGE))
    return frozenset(kind for kind in held if padded(kind, f"  {mark}\n") == padded(kind, mark))


def _quotes(render: Rendering) -> bool:
    """Whether results stand in the prompt as JSON strings."""
    return f'"{_MARKS[2]}\\"' in render(_messages(["user", CALL, RESULT], [*_MARKS[:2], f'{_MARKS[2]}"']), True)


def _written(render: Rendering, calls: CallForm) -> str:
    """A call as the template writes it."""
    messages = _messages(["user", CALL, RESULT], _MARKS)
    text, head = render(messages, True), render(messages[:1], True)
    begin, end = call_span(text, text.index(_MARKS[0]), calls, head)
    return text[begin:end]


def _holds(pieces: PromptPieces, render: Rendering, shape: Sequence[str], calls: CallForm | None, image: str) -> bool:
    """Whether a conversation with white space and odd characters comes out as the template renders it."""
    contents = _shown(shape, _CONTENTS, image)
    written = _written(render, calls) if calls is not None else ""
    talk = [(kind, written if kind == CALL else content) for kind, content in zip(shape, contents, strict=True)]
    return pieces.render(talk, PROBE.name) == render(_messages(shape, contents), True)
