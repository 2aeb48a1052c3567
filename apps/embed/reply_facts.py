"""What an app needs to tell reasoning, answer and calls apart: the notations of its bundle's chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from edgec.apps.embed.call_spans import probe_call, probe_result
from edgec.apps.embed.constrained_calls import ConstrainedCalls
from edgec.apps.embed.prompt_pieces import CALL, IMAGE, PromptPieces, prompt_pieces, text_pieces
from edgec.bundle.chat_template import render_messages, render_parts
from edgec.bundle.chat_template_worker import MARKS
from edgec.bundle.golden_texts import GOLDEN_DAY
from edgec.bundle.notations import PLAIN, CallForm, Frame, ThinkingForm
from edgec.bundle.template_notations import TemplateNotations
from edgec.bundle.tokenizer_folder import has_template, open_tokenizer
from edgec.bundle.tools import Tool
from edgec.errors import InputError

Prompts = tuple[PromptPieces | None, PromptPieces | None, PromptPieces | None]
Heads = tuple[tuple[int, ...], tuple[int, ...]]
NO_HEADS: Final[Heads] = ((), ())
NO_PROMPTS: Final[Prompts] = (None, None, None)
_IN_PARTS: Final = frozenset({"system", "user", "assistant"})
_CALLS: Final = "tool_calls"


@dataclass(frozen=True)
class ReplyFacts:
    """The notations of a chat template, and what it writes around messages.

    Attributes:
        thinking: the notation of reasoning; None where the template has none.
        open_tokens: the beginning of reasoning as tokens; empty where no tokens write its markers.
        close_tokens: its end, likewise.
        heads: the tokens before an answer that a schema holds, without reasoning and after it; None: none write them.
        tail: so many tokens of a prompt's end show whether it has opened or closed the reasoning.
        calls: the notation of calls; None without tools.
        tools: those that the template shows.
        hidden: special tokens that no marker holds.
        switches: the template's variables that switch reasoning on and off.
        plain: the prompt without tools: as the template has it, with reasoning switched on, and off.
        with_tools: the prompt with the tools, likewise.
        keeps_thought: the template shows the reasoning before a call while its results come.
        keeps_old_thought: it shows it later, too.
        held: what calls are held to; None where the app's runtime holds them to nothing.
    """

    thinking: ThinkingForm | None = None
    open_tokens: tuple[int, ...] = ()
    close_tokens: tuple[int, ...] = ()
    heads: Heads | None = NO_HEADS
    tail: int = 0
    calls: CallForm | None = None
    tools: tuple[Tool, ...] = ()
    hidden: tuple[int, ...] = ()
    switches: tuple[str, ...] = ()
    plain: Prompts = NO_PROMPTS
    with_tools: Prompts = NO_PROMPTS
    keeps_thought: bool = False
    keeps_old_thought: bool = False
    held: ConstrainedCalls | None = None

    @property
    def frame(self) -> Frame:
        """The headers around an answer."""
        forms = (form for form in (self.calls, self.thinking) if form is not None)
        return next((form.frame for form in forms), PLAIN)


NO_REPLIES: Final = ReplyFacts()


def reply_facts(tokenizer_folder: Path, tools: Sequence[Tool] = (), image: str = "") -> ReplyFacts:
    """The facts for a bundle's tokenizer.

    Args:
        tokenizer_folder: of the bundle.
        tools: what the model may call in the app.
        image: what stands in a text for an image, where the model takes images; contents are lists of parts then.

    Raises:
        InputError: E158, the tokenizer cannot be read; E760, the template takes no tools that edgec can read calls of;
            E761, it writes conversations with tools in a way that an app cannot follow.
    """
    if not has_template(tokenizer_folder):
        return _without_template(tools)
    tokenizer = open_tokenizer(tokenizer_folder)
    notations = TemplateNotations(tokenizer)
    if tools and notations.calls is None:
        raise _no_calls("it shows none of the notations of calls that edgec reads")
    calls = notations.calls if tools else None
    definitions = [tool.definition for tool in tools]
    with_tools = _prompts(tokenizer, notations, definitions, calls, image) if tools else NO_PROMPTS
    if tools and with_tools[0] is None:
        raise _no_pieces()
    keeps, keeps_old = _kept_thought(tokenizer, definitions) if tools else (False, False)
    open_tokens, close_tokens = _thought_tokens(notations)
    return ReplyFacts(
        thinking=notations.thinking,
        open_tokens=open_tokens,
        close_tokens=close_tokens,
        heads=_heads(notations),
        tail=notations.tail,
        calls=calls,
        tools=tuple(tools),
        hidden=tuple(sorted(notations.hidden)),
        switches=tuple(notations.switches),
        plain=_prompts(tokenizer, notations, [], None, image),
        with_tools=with_tools,
        keeps_thought=keeps,
        keeps_old_thought=keeps_old,
    )


def _without_template(tools: Sequence[Tool]) -> ReplyFacts:
    if tools:
        raise _no_calls("its tokenizer has no chat template")
    return NO_REPLIES


def _thought_tokens(notations: TemplateNotations) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The markers of reasoning as tokens; both empty where one cannot be written."""
    form = notations.thinking
    opened, closed = (notations.spelled(form.open), notations.spelled(form.close)) if form else ((), ())
    return (opened, closed) if opened and closed else ((), ())


def _heads(notations: TemplateNotations) -> Heads | None:
    """What comes before an answer where a message has headers, without reasoning and after it."""
    frame = notations.thinking.frame if notations.thinking else PLAIN
    if not frame.answer:
        return NO_HEADS
    first, after = notations.spelled(frame.answer), notations.spelled(frame.lead + frame.answer)
    return None if first is None or after is None else (first, after)


def _prompts(
    tokenizer: Any,
    notations: TemplateNotations,
    tools: Sequence[Mapping[str, Any]],
    calls: CallForm | None,
    image: str,
) -> Prompts:
    """The prompt's pieces as the template has them, with reasoning switched on, and off."""

    def pieces(**options: bool) -> PromptPieces | None:
        def render(clock: str, messages: Sequence[Mapping[str, Any]], answer: bool) -> str:
            how: dict[str, Any] = {"tools": tools, "options": options, "clock": clock}
            if image:
                return render_parts(tokenizer, in_parts(messages), answer, **how)
            return render_messages(tokenizer, messages, answer, **how)

        marked, told = partial(render, MARKS), partial(render, GOLDEN_DAY)
        made = prompt_pieces(marked, calls, image) if image or tools else text_pieces(marked, told)
        return None if made is not None and _adds_thought(made, notations.thinking) else made

    default = pieces()
    if default is None or not notations.switches:
        return (default, default, default)
    on, off = (pieces(**dict.fromkeys(notations.switches, value)) for value in (True, False))
    return (default, on, off)


def in_parts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose contents are lists of parts; those of the role ``image`` become parts of the next one."""
    made: list[dict[str, Any]] = []
    images: list[dict[str, str]] = []
    for message in messages:
        if message["role"] == IMAGE:
            images.append({"type": "image"})
        elif message["role"] in _IN_PARTS and _CALLS not in message:
            made.append({**message, "content": [*images, {"type": "text", "text": message["content"]}]})
            images = []
        else:
            made.append(dict(message))
    return made


def _adds_thought(pieces: PromptPieces, thinking: ThinkingForm | None) -> bool:
    """Whether a template writes an empty reasoning before a call, beside which the model's own would stand twice."""
    before = [text for (_, kind), text in pieces.joins.items() if kind == CALL]
    return thinking is not None and any(thinking.open in text for text in before)


def _kept_thought(tokenizer: Any, tools: Sequence[Mapping[str, Any]]) -> tuple[bool, bool]:
    """Whether a template shows the reasoning before a call while its results come, and after the next question."""
    thought = "\ue010thought\ue011"
    user = {"role": "user", "content": "x"}
    talk: list[dict[str, Any]] = [user, {**probe_call(), "reasoning_content": thought}, probe_result("y")]
    render = partial(render_messages, tokenizer, tools=tools)
    later = [*talk, {"role": "assistant", "content": "z"}, user]
    return thought in render(talk), thought in render(later)


def _no_calls(why: str) -> InputError:
    fix = "use a model trained to call tools, in one of the formats of docs/structured-output.md, or leave --tools out"
    return InputError("This bundle's chat template takes no tools.", "--tools", why, fix, "E760")


def _no_pieces() -> InputError:
    why = "what stands between its messages depends on more than their kinds, or its results name calls by ids"
    fix = "leave --tools out, or render such conversations outside of the app"
    return InputError("An app cannot write this model's conversations with tools.", "--tools", why, fix, "E761")
