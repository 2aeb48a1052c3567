"""What a chat template writes between messages, taken from renderings and checked against the template.

In many templates the text between two contents depends on the kinds of the two messages alone: `joins` holds it for
each pair, and an app joins them without a Jinja engine. A call of tools stands in the prompt as the model wrote it.
Where a template does anything else on a matrix of conversations, such as numbering its messages, there are no pieces.

A date that a template writes stands in a join as its format between two marks, for the app to write it on the day.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any, Final

from edgec.apps.embed.call_spans import PROBE, call_span, probe_call, probe_result
from edgec.apps.embed.prompt_dates import can_be_written, filled
from edgec.bundle.golden_texts import CONTENTS, SHAPES
from edgec.bundle.notations import CallForm
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
# Conversations in which an answer does not come between two questions; where these have pieces, an app takes them too.
_ODD: Final = ("user user", "user assistant", "assistant user", "system", "user assistant system user")


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

    def takes(self, kinds: Sequence[str]) -> bool:
        """Whether there are joins for a conversation of some kinds."""
        return all(pair in self.joins for pair in pairwise([START, *kinds, END]))


def text_pieces(render: Rendering, told: Rendering | None = None) -> PromptPieces | None:
    """The pieces of a template of conversations of text; None where it does something else.

    Every conversation of the matrix, `SHAPES` with `CONTENTS`, either comes out of them as the template writes it, or
    is refused by both.

    Args:
        render: turns messages, and whether an answer is to follow, into text; may raise. Dates are their marks.
        told: the same with the dates of a day, as `filled` writes them; None: the template writes none.
    """
    shapes = [roles.split() for roles in SHAPES.values()]
    accepted = [shape for shape in shapes if _renders(render, shape)]
    pieces = _pieces(render, accepted, None, "") if ["user"] in accepted else None
    if pieces is None or any(pieces.takes(shape) for shape in shapes if shape not in accepted):
        return None
    pairs = [(shape, contents) for shape in accepted for contents in CONTENTS.values()]
    return pieces if all(_is_exact(pieces, told or render, *pair) for pair in pairs) else None


def _renders(render: Rendering, shape: Sequence[str]) -> bool:
    try:
        render(_messages(shape, _MARKS), True)
    except ToolError:
        raise
    except Exception:  # a template is a user's program, and raises what it likes
        return False
    return True


def _is_exact(pieces: PromptPieces, told: Rendering, shape: Sequence[str], contents: Sequence[str]) -> bool:
    talk = list(zip(shape, cycle(contents), strict=False))
    try:
        wanted = told([_plain(*message) for message in talk], True)
    except ToolError:
        raise
    except Exception:  # as above: these contents it refuses, and pieces would not
        return False
    return filled(pieces.render(talk, PROBE.name)) == wanted


def prompt_pieces(render: Rendering, calls: CallForm | None = None, image: str = "") -> PromptPieces | None:
    """The pieces of a template; None where it does something else.

    Args:
        render: turns messages, and whether an answer is to follow, into text; may raise for roles it does not know.
        calls: the notation of calls, where the template is given tools.
        image: what the template writes for an image, which is a message of the role ``image`` before the user's that it
            belongs to. Where not all conversations with images have pieces, there are those of a first message alone.
    """
    texts = (*_TURNS, *(_TOOL_TURNS if calls else ()))
    without_system = not _takes_system(render)
    odd = [turns for turns in _ODD if _renders(render, turns.split())]
    tiers = [(*texts, *_SHOWN), (*texts, *_ALONE), _ALONE] if image else []
    for turns in (*((*tier, *odd) for tier in tiers[:1]), *tiers, (*texts, *odd), texts):
        shapes = [each.split() for each in turns if not (without_system and "system" in each)]
        pieces = _pieces(render, shapes, calls, image)
        if pieces is not None:
            return pieces
    return None


def _pieces(
    render: Rendering, shapes: Sequence[Sequence[str]], calls: CallForm | None, image: str
) -> PromptPieces | None:
    """The pieces of conversations of some shapes."""
    try:
        joins: dict[tuple[str, str], str] = {}
        for shape in shapes:
            for pair, text in _joins(render, shape, calls, image):
                if joins.setdefault(pair, text) != text:
                    return None
        if not all(map(can_be_written, joins.values())):
            return None
        pieces = PromptPieces(joins, _trimmed(render, shapes, image), calls is not None and _quotes(render))
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


def _trimmed(render: Rendering, shapes: Sequence[Sequence[str]], image: str) -> frozenset[str]:
    """The kinds whose contents lose white space, each tried in the first conversation that has it."""

    def padded(kind: str, content: str) -> str:
        shape = next(shape for shape in sorted(shapes, key=lambda each: IMAGE in each) if kind in shape)
        place = shape.index(kind)
        contents = _shown(shape, _MARKS[1:], image)
        return render(_messages(shape, [*contents[:place], content, *contents[place + 1 :]]), True)

    mark = _MARKS[0]
    held = {kind for shape in shapes for kind in shape if kind not in (CALL, IMAGE)}
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
