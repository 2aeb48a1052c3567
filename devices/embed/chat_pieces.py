"""A chat template as pieces that any language can join, determined by rendering and checked against the template.

Most templates put a text before and after every message, and a text at both ends. Where that holds, an app without a
Jinja engine can render conversations exactly; where it does not, there are no pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from edgec.bundle.chat_template import render_messages
from edgec.bundle.tokenizer_folder import has_template, open_tokenizer
from edgec.errors import ToolError

TemplateMessage = Mapping[str, str]
Render = Callable[[Sequence[TemplateMessage], bool], str]
_MARKS = ("\ue010aa\ue011", "\ue010bb\ue011", "\ue010cc\ue011", "\ue010dd\ue011")
_CHECKS = (
    ("user",),
    ("user", "assistant", "user"),
    ("system", "user"),
    ("system", "user", "assistant", "user", "assistant", "user"),
)


@dataclass(frozen=True)
class ChatPieces:
    """The pieces of a chat template: opening + (before + content + after for every message) + answer.

    Attributes:
        around: role -> (before, after); a role that the template refuses is absent.
        trims: the template strips white space from both ends of contents.
    """

    opening: str
    answer: str
    around: Mapping[str, tuple[str, str]]
    trims: bool

    def render(self, messages: Sequence[TemplateMessage]) -> str:
        """Render a conversation up to where the assistant answers."""
        joined = "".join(self._message(message) for message in messages)
        return f"{self.opening}{joined}{self.answer}"

    def _message(self, message: TemplateMessage) -> str:
        before, after = self.around[message["role"]]
        content = message["content"]
        return f"{before}{content.strip() if self.trims else content}{after}"


def chat_pieces(tokenizer_folder: Path) -> ChatPieces | None:
    """The pieces of a tokenizer's chat template; None without a template, or where it does not consist of pieces."""
    return (
        pieces_of(partial(render_messages, open_tokenizer(tokenizer_folder)))
        if has_template(tokenizer_folder)
        else None
    )


def pieces_of(render: Render) -> ChatPieces | None:
    """The pieces that a rendering function joins; None where it does something else.

    Args:
        render: turns messages, and whether an answer is to follow, into text; may raise for roles it does not know.
    """
    try:
        pieces = _taken_apart(render)
    except ToolError:
        raise
    except Exception:  # a template is a user's program: whatever it raises, it has no pieces
        return None
    return pieces if pieces is not None and _holds(pieces, render) else None


def _taken_apart(render: Render) -> ChatPieces | None:
    user, second, third, system = _MARKS
    alone, answered = (render([_message("user", user)], answer) for answer in (False, True))
    head, after_user = alone.split(user)
    if not answered.startswith(alone):
        return None
    talk = render([_message("user", user), _message("assistant", second), _message("user", third)], False)
    start, between, back, end = _split(talk, user, second, third)
    if start != head or end != after_user or not between.startswith(after_user):
        return None
    before_user = _common_end(head, back)
    around = {
        "user": (before_user, after_user),
        "assistant": (between.removeprefix(after_user), back.removesuffix(before_user)),
    }
    opening = head.removesuffix(before_user)
    around |= _system(render, opening, before_user, system)
    trims = render([_message("user", f"  {user}\n")], False) == alone
    return ChatPieces(opening, answered.removeprefix(alone), around, trims)


def _common_end(first: str, second: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(reversed(first), reversed(second), strict=False))
    return "".join(character for character, _ in same)[::-1]


def _system(render: Render, opening: str, before_user: str, mark: str) -> dict[str, tuple[str, str]]:
    """The pieces around a system message, where the template accepts one."""
    try:
        text = render([_message("system", mark), _message("user", _MARKS[0])], False)
        before, after, _ = _split(text, mark, _MARKS[0])
    except Exception:  # as above: a template may refuse the role in any way
        return {}
    if not before.startswith(opening) or not after.endswith(before_user):
        return {}
    return {"system": (before.removeprefix(opening), after.removesuffix(before_user))}


def _split(text: str, *marks: str) -> list[str]:
    parts = []
    for mark in marks:
        before, separator, text = text.partition(mark)
        if not separator:
            raise ValueError(f"{mark!r} is not in the rendered text")
        parts.append(before)
    return [*parts, text]


def _holds(pieces: ChatPieces, render: Render) -> bool:
    """Whether whole conversations, with white space and odd characters, come out as the template renders them."""
    contents = ("Hello  there", " padded \n", "<|odd|> {{ x }}", "多言語 é", "last")
    for roles in _CHECKS:
        if not set(roles) <= set(pieces.around):
            continue
        messages = [_message(role, contents[i % len(contents)]) for i, role in enumerate(roles)]
        if pieces.render(messages) != render(messages, True):
            return False
    return True


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}
