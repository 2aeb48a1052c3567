"""The notations of replies as constants of an app's code in Swift and Kotlin, from the table that Python reads, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from edgec.apps.embed import kotlin_text, swift_text
from edgec.apps.embed.constrained_calls import ConstrainedCalls
from edgec.apps.embed.prompt_pieces import PromptPieces
from edgec.apps.embed.reply_facts import Heads, ReplyFacts
from edgec.bundle.notations import CallForm, CallWriting, Frame, ThinkingForm
from edgec.bundle.tools import Tool


@dataclass(frozen=True)
class Language:
    """How a language writes values.

    Attributes:
        string: writes a text.
        sequence: brackets of a list.
        table: brackets of a map, and what stands between key and value.
        texts: brackets of a set of texts.
        nothing: the absent value.
        ends: what is between the ends of a range.
        labels: whether arguments are given by name with a colon.
    """

    string: Callable[[str], str]
    sequence: tuple[str, str]
    table: tuple[str, str, str]
    texts: tuple[str, str]
    nothing: str
    ends: str
    labels: bool

    def listed(self, values: Iterable[str]) -> str:
        """A list of written values."""
        return f"{self.sequence[0]}{', '.join(values)}{self.sequence[1]}"

    def rows(self, table: Mapping[str, str]) -> str:
        """The rows of a map from texts to written values."""
        return ", ".join(f"{self.string(key)}{self.table[2]}{value}" for key, value in table.items())

    def named(self, texts: Iterable[str]) -> str:
        """A set of texts."""
        return f"{self.texts[0]}{', '.join(map(self.string, texts))}{self.texts[1]}"

    def made(self, name: str, **fields: str) -> str:
        """An instance of a class."""
        given = (f"{_camel(key)}: {value}" if self.labels else value for key, value in fields.items())
        return f"{name}({', '.join(given)})"


KOTLIN: Final = Language(
    string=kotlin_text.string,
    sequence=("listOf<Int>(", ")"),
    table=("mapOf(", ")", " to "),
    texts=("setOf<String>(", ")"),
    nothing="null",
    ends="..",
    labels=False,
)
SWIFT: Final = Language(
    string=swift_text.string,
    sequence=("[", "]"),
    table=("[", "]", ": "),
    texts=("[", "]"),
    nothing="nil",
    ends="...",
    labels=True,
)
_BODIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "json": ("JsonCall", ("opened",)),
    "list": ("JsonList", ()),
    "named": ("NamedJson", ("between", "skipped")),
    "python": ("PythonCalls", ()),
    "gemma": ("GemmaCall", ("quote",)),
    "tagged": ("TaggedCall", ()),
}


def kotlin_replies(facts: ReplyFacts) -> Mapping[str, str]:
    """The placeholders of Kotlin's `ReplyFacts`."""
    return _values(facts, KOTLIN)


def swift_replies(facts: ReplyFacts) -> Mapping[str, str]:
    """The placeholders of Swift's `ReplyFacts`."""
    return _values(facts, SWIFT)


def _values(facts: ReplyFacts, language: Language) -> Mapping[str, str]:
    string = language.string
    return {
        "thinking": thinking_notation(facts.thinking, facts.open_tokens, facts.close_tokens, language),
        "answer_heads": _heads(facts.heads, language),
        "thinking_tail": str(facts.tail),
        "calls": call_notation(facts.calls, language),
        "dropped_marks": ", ".join(map(string, frame_marks(facts.frame))),
        "hidden_tokens": ", ".join(f"{first}{language.ends}{last}" for first, last in _ranges(facts.hidden)),
        "tool_texts": tool_constants(facts.tools, language),
        **_held_values(facts.held, language),
        "switches": ", ".join(map(string, facts.switches)),
        "keeps_thought": str(facts.keeps_thought).lower(),
        "keeps_old_thought": str(facts.keeps_old_thought).lower(),
        "plain_prompts": _prompts(facts.plain, language),
        "tool_prompts": _prompts(facts.with_tools, language),
    }


def _heads(heads: Heads | None, language: Language) -> str:
    if heads is None:
        return language.nothing
    return language.made("AnswerHeads", **{
        name: language.listed(map(str, tokens)) for name, tokens in zip(("first", "after_thought"), heads, strict=True)
    })  # fmt: skip


def _held_values(held: ConstrainedCalls | None, language: Language) -> Mapping[str, str]:
    """The grammars' files by the choice of tools, and the sha256 of each file."""
    tables = ({}, {}) if held is None else (held.choices, held.digests)
    empty = ":" if language.labels else ""
    rows = [language.rows({key: language.string(value) for key, value in table.items()}) or empty for table in tables]
    return dict(zip(("constrained_choices", "held_files"), rows, strict=True))


def thinking_notation(
    form: ThinkingForm | None, open_tokens: Sequence[int], close_tokens: Sequence[int], language: Language
) -> str:
    """The notation of reasoning as a value of a language."""
    if form is None:
        return language.nothing
    string, (opened, closed) = language.string, (language.listed(map(str, ids)) for ids in (open_tokens, close_tokens))
    return language.made(
        "ThinkingNotation", open=string(form.open), close=string(form.close), open_tokens=opened, close_tokens=closed
    )


def call_notation(form: CallForm | None, language: Language) -> str:
    """The notation of calls as a value of a language."""
    if form is None:
        return language.nothing
    return language.made(
        "CallNotation",
        open=language.string(form.open),
        close=language.string(form.close),
        alone=str(form.alone).lower(),
        many=str(form.many).lower(),
        before=language.string(form.before),
        body=_body(form.writing, language),
    )


def _body(writing: CallWriting, language: Language) -> str:
    name, fields = _BODIES[writing.kind]
    return language.made(name, **{field: language.string(getattr(writing, field)) for field in fields})


def frame_marks(frame: Frame) -> list[str]:
    """The headers of a message that belong to none of its parts."""
    return [mark for mark in (frame.lead, frame.answer, frame.note, frame.note_end) if mark]


def tool_constants(tools: Sequence[Tool], language: Language) -> str:
    """The names of the tools, each with the arguments that are texts by its schema."""
    return language.rows({tool.name: language.named(text_arguments(tool)) for tool in tools}) or (
        ":" if language.labels else ""
    )


def text_arguments(tool: Tool) -> list[str]:
    """The arguments of a tool that are texts by its schema."""
    properties: Any = tool.parameters.get("properties", {})
    held = properties.items() if isinstance(properties, dict) else ()
    return [name for name, schema in held if isinstance(schema, dict) and schema.get("type") == "string"]


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges of those that follow each other."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return [(run[0], run[-1]) for run in runs]


def _prompts(prompts: Sequence[PromptPieces | None], language: Language) -> str:
    return ",\n        ".join(prompt_constant(pieces, language) for pieces in prompts)


def prompt_constant(pieces: PromptPieces | None, language: Language) -> str:
    """The pieces of a prompt as a value of a language."""
    if pieces is None:
        return language.nothing
    joins = language.rows({" ".join(pair): language.string(text) for pair, text in pieces.joins.items()})
    return language.made(
        "PromptPieces",
        joins=f"{language.table[0]}{joins}{language.table[1]}",
        trimmed=language.named(sorted(pieces.trimmed)),
        quoted=str(pieces.quoted).lower(),
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
