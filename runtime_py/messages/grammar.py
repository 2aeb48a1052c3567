"""The grammar of a message that may call tools: free text, and calls whose arguments fulfil the tools' schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.bundle.notations import CallForm
from edgec.bundle.tools import Tool
from edgec.runtime_py.messages.forms import body_of
from edgec.runtime_py.messages.refusals import no_such_choice
from edgec.runtime_py.messages.sheet import Sheet
from edgec.runtime_py.structured.wanted import Wanted


@dataclass(frozen=True)
class ToolChoice:
    """What a message may or must call.

    Attributes:
        tools: those that it may call.
        required: it calls at least one.
        parallel: it may call several.
    """

    tools: tuple[Tool, ...]
    required: bool = False
    parallel: bool = True


def choose_tools(tools: Sequence[Tool], choice: object = "auto", parallel: bool = True) -> ToolChoice:
    """Which tools a message may or must call.

    Args:
        tools: all of them.
        choice: ``auto``, ``none``, ``required``, the name of a tool, or OpenAI's object that names one.
        parallel: it may call several.

    Raises:
        InputError: E626, there is no such choice.
    """
    name = choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
    named = tuple(tool for tool in tools if tool.name == name)
    if named and isinstance(choice, Mapping | str) and (isinstance(choice, Mapping) or name not in _WORDS):
        return ToolChoice(named, True, parallel)
    if isinstance(choice, Mapping) or choice not in _WORDS:
        raise no_such_choice(choice, f"the tools are {', '.join(tool.name for tool in tools) or 'none'}"[:200])
    if choice == "required" and not tools:
        raise no_such_choice(choice, "there are no tools")
    return ToolChoice(() if choice == "none" else tuple(tools), choice == "required", parallel)


_WORDS = ("auto", "none", "required")


def message_grammar(form: CallForm, choice: ToolChoice, special: Mapping[str, int]) -> Wanted:
    """The grammar of a message.

    Args:
        form: the notation of calls.
        choice: what may or must be called.
        special: the ids of special tokens by their text.

    Raises:
        InputError: E612 to E615, a tool's schema cannot be enforced; E620, its arguments have no place in the notation.
    """
    sheet = Sheet(special)
    body = sheet.rule(body_of(form).rule(choice.tools, sheet, choice.parallel))
    close = sheet.text(form.close)
    many = form.many and choice.parallel
    begin = sheet.text(form.open)
    before = f"({sheet.text(form.before)})?" if form.before in special else ""
    first = sheet.rule(f"{before} WS {begin} {body} {close}")
    if form.frame.answer:
        return sheet.finished(_framed(form, sheet, first, choice.required))
    after = _following(form, sheet, f"{begin} {body} {close}", many)
    if choice.required:
        return sheet.finished(f"{first} {after}")
    opening = _opening(form, sheet, begin)
    return sheet.finished(f"TEXT | {before} {opening} {body} {close} {after}")


def _opening(form: CallForm, sheet: Sheet, begin: str) -> str:
    """Text up to a call, with its opening marker."""
    ahead = "WS" if form.alone else "TEXT"
    if sheet.starts_special(form.open):
        return f"{ahead} {begin}"
    # Lazy: as soon as the marker is written, free text is over.
    return sheet.rule(f"{ahead} {begin}", lazy=True)


def _following(form: CallForm, sheet: Sheet, call: str, many: bool) -> str:
    """What may follow the first call."""
    if form.alone:
        return "WS"
    if not form.close:
        return sheet.rule(call) + "*" if many else "WS"
    again = sheet.rule(f"WS {call}")
    return f"{again}* WS" if many else "WS"


def _framed(form: CallForm, sheet: Sheet, call: str, required: bool) -> str:
    """A message of several parts with headers: a note, and then a call or the answer."""
    frame = form.frame
    lead = f"({sheet.text(frame.lead)})?"
    note = f"({sheet.text(frame.note)} TEXT {sheet.text(frame.note_end)} {sheet.text(frame.lead)})?"
    answer = "" if required else f" | {sheet.text(frame.answer)} TEXT"
    return f"{lead} {note} ({call}{answer})"
