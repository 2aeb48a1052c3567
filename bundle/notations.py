"""The notations of reasoning and of calls, as data: which markers a chat template shows, and what they mean.

Sources: the chat templates of the models named in each row, as their makers publish them, and OpenAI's description of
the harmony format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class CallWriting:
    """How a call is written between its markers.

    Attributes:
        kind: ``json``, an object with name and arguments; ``list``, a list of those; ``named``, the name and then the
            arguments as an object; ``python``, a list of Python's calls; ``gemma``, bare keys and marks for quotes;
            ``tagged``, a tag for each argument.
        key: of ``json``, the key of the arguments.
        opened: of ``json``, text that the opening marker has already.
        between: of ``named``, the separator.
        skipped: of ``named``, what may stand between name and separator, with its own text after it, and is not read.
        quote: of ``gemma``, the mark on both sides of a text.
    """

    kind: Literal["json", "list", "named", "python", "gemma", "tagged"]
    key: str = "arguments"
    opened: str = ""
    between: str = ""
    skipped: str = ""
    quote: str = ""


@dataclass(frozen=True)
class Frame:
    """The headers around an answer, where a message has several parts.

    Attributes:
        lead: begins each part but the first.
        answer: begins the answer.
        note: begins a text before calls, which ``note_end`` ends.
        note_end: see ``note``.
    """

    lead: str = ""
    answer: str = ""
    note: str = ""
    note_end: str = ""


PLAIN: Final = Frame()


@dataclass(frozen=True)
class CallForm:
    """How calls are told from text.

    Attributes:
        name: of the notation.
        marks: stand in the chat template, all of them.
        without: stand in other templates, and not in this one.
        open: begins a call.
        close: ends it; empty: only the next call or the message's end does.
        writing: between the two.
        alone: a call is all of the message.
        many: several calls may follow each other, each in its own markers.
        before: a special token that may come before ``open``.
        frame: the parts of a message.
    """

    name: str
    marks: tuple[str, ...]
    open: str
    writing: CallWriting
    close: str = ""
    without: tuple[str, ...] = ()
    alone: bool = False
    many: bool = True
    before: str = ""
    frame: Frame = PLAIN


@dataclass(frozen=True)
class ThinkingForm:
    """How reasoning is told from the answer.

    Attributes:
        name: of the notation.
        marks: one of them stands in the chat template.
        open: begins the reasoning; a template may write it itself.
        close: ends it.
        frame: the parts of a message.
    """

    name: str
    marks: tuple[str, ...]
    open: str
    close: str
    frame: Frame = PLAIN


_HARMONY: Final = Frame(
    lead="<|start|>assistant",
    answer="<|channel|>final<|message|>",
    note="<|channel|>commentary<|message|>",
    note_end="<|end|>",
)

# The first row whose marks a template has is taken.
CALL_FORMS: Final = (
    CallForm(
        "harmony",  # gpt-oss
        marks=("<|channel|>", "<|call|>"),
        open="<|channel|>commentary to=functions.",
        writing=CallWriting("named", between=" <|constrain|>json<|message|>"),
        many=False,
        frame=_HARMONY,
    ),
    CallForm(
        "qwen-tags",  # Qwen 3.5, Qwen3-Coder
        marks=("<tool_call>", "<function=", "<parameter="),
        open="<tool_call>",
        writing=CallWriting("tagged"),
        close="</tool_call>",
    ),
    CallForm(
        "hermes",  # Hermes, Qwen 2.5, Qwen 3, SmolLM3
        marks=("<tool_call>", "</tool_call>"),
        without=("<arg_key>", "<function="),
        open="<tool_call>",
        writing=CallWriting("json"),
        close="</tool_call>",
    ),
    CallForm(
        "mistral-named",  # Mistral Small 3.2, Magistral, Ministral 3
        marks=("[TOOL_CALLS]", "[ARGS]"),
        open="[TOOL_CALLS]",
        writing=CallWriting("named", between="[ARGS]", skipped="[CALL_ID]"),
    ),
    CallForm(
        "mistral-list",  # Mistral 7B v0.3, Nemo, Small 3.1
        marks=("[TOOL_CALLS]",),
        open="[TOOL_CALLS]",
        writing=CallWriting("list"),
        many=False,
    ),
    CallForm(
        "lfm2",  # LFM2.5
        marks=("<|tool_call_start|>",),
        open="<|tool_call_start|>",
        writing=CallWriting("python"),
        close="<|tool_call_end|>",
        many=False,
    ),
    CallForm(
        "lfm2",  # LFM2, whose template shows the list of tools only
        marks=("<|tool_list_start|>",),
        open="<|tool_call_start|>",
        writing=CallWriting("python"),
        close="<|tool_call_end|>",
        many=False,
    ),
    CallForm(
        "gemma4",
        marks=("<|tool_call>", "<tool_call|>"),
        open="<|tool_call>",
        writing=CallWriting("gemma", quote='<|"|>'),
        close="<tool_call|>",
    ),
    CallForm(
        "functiongemma",
        marks=("<start_function_call>", "<escape>"),
        open="<start_function_call>",
        writing=CallWriting("gemma", quote="<escape>"),
        close="<end_function_call>",
    ),
    CallForm(
        "llama3",  # Llama 3.1, 3.2, 3.3
        marks=("<|start_header_id|>", '"parameters"'),
        open='{"name":',
        writing=CallWriting("json", key="parameters", opened='{"name":'),
        alone=True,
        many=False,
        before="<|python_tag|>",
    ),
)

GENERIC_CALLS: Final = CallForm(
    "generic",  # templates without tools, or with tools in a notation that no row has
    marks=(),
    open="<tool_call>",
    writing=CallWriting("json"),
    close="</tool_call>",
)

THINKING_FORMS: Final = (
    ThinkingForm("harmony", ("<|channel|>",), "<|channel|>analysis<|message|>", "<|end|>", _HARMONY),
    ThinkingForm("gemma4", ("<|channel>",), "<|channel>thought\n", "<channel|>"),
    ThinkingForm("magistral", ("[THINK]",), "[THINK]", "[/THINK]"),
    ThinkingForm("seed", ("<seed:think>",), "<seed:think>", "</seed:think>"),
    ThinkingForm("think", ("</think>", "<think>"), "<think>", "</think>"),
)

# Variables by which templates switch reasoning on and off.
SWITCHES: Final = ("enable_thinking", "thinking")


def call_form(template: str) -> CallForm | None:
    """The notation of calls that a chat template shows, or None."""

    def fits(form: CallForm) -> bool:
        return all(mark in template for mark in form.marks) and not any(mark in template for mark in form.without)

    return next((form for form in CALL_FORMS if fits(form)), None) if "tools" in template else None


def thinking_form(template: str) -> ThinkingForm | None:
    """The notation of reasoning that a chat template shows, or None."""
    return next((form for form in THINKING_FORMS if any(mark in template for mark in form.marks)), None)
