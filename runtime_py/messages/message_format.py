"""How one bundle's chat template writes messages: its notations, its prompts, and the parser of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Final

from edgec.bundle.chat_template import Message, render_messages, render_parts
from edgec.bundle.encoding import token_ids
from edgec.bundle.notations import GENERIC_CALLS, CallForm, ThinkingForm
from edgec.bundle.template_notations import TemplateNotations
from edgec.bundle.tools import Tool
from edgec.errors import InputError
from edgec.runtime_py.decoding.readers import Reader
from edgec.runtime_py.decoding.text_stream import TextStream
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.messages.described_tools import plain_messages, tool_block, with_description
from edgec.runtime_py.messages.forms import body_of
from edgec.runtime_py.messages.grammar import ToolChoice, message_grammar
from edgec.runtime_py.messages.reader import MessageReader
from edgec.runtime_py.messages.refusals import no_thinking, no_tools_here, tools_and_structure
from edgec.runtime_py.messages.rule import ANSWER, START, THINK, HeadedRule, Markers, MessageRule
from edgec.runtime_py.structured.rule import TokenRule
from edgec.runtime_py.structured.structures import CompiledStructure, Structures
from edgec.runtime_py.structured.wanted import Wanted

_NO_CHOICE: Final = ToolChoice(())
_EFFORT: Final = "reasoning_effort"


@dataclass(frozen=True)
class ChatOptions:
    """What is asked of an answer beside its length and sampling.

    Attributes:
        tools: those that the template shows.
        choice: those that may or must be called.
        thinking_budget: the most tokens of reasoning; 0 switches it off, None leaves it to the template.
        effort: a template's own word for how much to reason, or None.
    """

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = _NO_CHOICE
    thinking_budget: int | None = None
    effort: str | None = None


NO_CHAT_OPTIONS: Final = ChatOptions()


class MessageFormat:
    """The notations of one chat template.

    Attributes:
        thinking: that of reasoning; None where the template has none.
        calls: that of calls; the generic one where the template takes no tools, or none that edgec can read.
    """

    def __init__(self, tokenizer: Any, structures: Callable[[], Structures]) -> None:
        """Read a tokenizer's chat template.

        Args:
            tokenizer: of transformers.
            structures: compiles grammars for its vocabulary; called where tools are given.
        """
        self._tokenizer, self._structures = tokenizer, structures
        self._notations = TemplateNotations(tokenizer, generic=True)
        self.thinking: ThinkingForm | None = self._notations.thinking
        self.calls: CallForm = self._notations.calls or GENERIC_CALLS

    @property
    def takes_effort(self) -> bool:
        """Whether the template has a word for how much to reason."""
        return _EFFORT in self._notations.template

    def prompt(
        self, messages: Sequence[Message], chat_options: ChatOptions = NO_CHAT_OPTIONS, enough: int | None = None
    ) -> list[int]:
        """Messages as token ids, up to where the assistant answers.

        Raises:
            InputError: E622, the template has no place for tools, nor for a message that describes them; E625, the
                budget cannot be kept; E154, the template refuses the messages; E159, it exceeds its limits; E152, they
                are not valid Unicode.
        """
        text = self.rendered(messages, chat_options)
        return token_ids(self._tokenizer, text, special=False, enough=enough)

    def rendered(self, messages: Sequence[Message], chat_options: ChatOptions = NO_CHAT_OPTIONS) -> str:
        """Messages as text, up to where the assistant answers; contents may be lists of parts. Raises as `prompt`."""
        self._check(chat_options)
        if self.calls is not GENERIC_CALLS:
            return self._written(messages, chat_options, chat_options.tools)
        plain = plain_messages(messages, self.calls)
        return self._described(plain, chat_options) if chat_options.tools else self._written(plain, chat_options)

    def _described(self, messages: Sequence[Message], chat_options: ChatOptions) -> str:
        """Messages with their tools in the system message; some templates take none: then in the user's."""
        why = "it leaves out what the messages say"
        for role in ("system", "user"):
            try:
                text = self._written(with_description(messages, chat_options.tools, self.calls, role), chat_options)
            except InputError as refused:
                if refused.code != "E154":
                    raise
                why = refused.why
                continue
            if tool_block(chat_options.tools) in text:
                return text
        raise no_tools_here(why)

    def _written(self, messages: Sequence[Message], chat_options: ChatOptions, tools: Sequence[Tool] = ()) -> str:
        definitions = [tool.definition for tool in tools]
        render = render_parts if any(isinstance(one["content"], list) for one in messages) else render_messages
        return render(self._tokenizer, messages, tools=definitions, options=self._options(chat_options))

    def parser(self, prompt: Sequence[int], chat_options: ChatOptions = NO_CHAT_OPTIONS) -> MessageParser:
        """The parser of an answer after ``prompt``."""
        self._check(chat_options)
        end = self.decode(list(prompt[-self._notations.tail :])).rstrip() if self.thinking else ""
        phase = START
        if self.thinking is not None and end.endswith((self.thinking.open.rstrip(), self.thinking.close)):
            phase = ANSWER if end.endswith(self.thinking.close) else THINK
        calls = self.calls if chat_options.choice.tools else None
        return MessageParser(self, chat_options, phase, self.thinking, calls)

    def _check(self, chat_options: ChatOptions) -> None:
        budget = chat_options.thinking_budget
        if budget is None:
            return
        if isinstance(budget, bool) or not isinstance(budget, Integral) or budget < 0:
            raise no_thinking(f"thinking_budget is {budget!r:.60}.", "", "give a whole number, 0 or more")
        if budget and self.thinking is None:
            why = "its chat template has none of the markers of reasoning that edgec knows"
            raise no_thinking("This model's reasoning cannot be told from its answer.", why, "leave the budget out")

    def _options(self, chat_options: ChatOptions) -> Mapping[str, Any]:
        budget = chat_options.thinking_budget
        switches = {} if budget is None else dict.fromkeys(self._notations.switches, budget > 0)
        return switches | ({_EFFORT: chat_options.effort} if chat_options.effort is not None else {})

    def decode(self, tokens: Sequence[int]) -> str:
        """Token ids to text, with the markers of the notations and without other special tokens."""
        return self._notations.decode(tokens)

    @cached_property
    def markers(self) -> Markers | None:
        """The markers of reasoning; None where the template has none."""
        form = self.thinking
        if form is None:
            return None
        return Markers(form.open, form.close, self.spelled(form.open), self.spelled(form.close))

    def spelled(self, text: str) -> tuple[int, ...]:
        """A marker as tokens.

        Raises:
            InputError: E625, no tokens write it.
        """
        tokens = self._notations.spelled(text)
        if tokens is None:
            why = f"no tokens write {text!r}"
            raise no_thinking("The markers of reasoning cannot be written.", why, "use no budget")
        return tokens

    def grammar(self, choice: ToolChoice) -> Wanted:
        """The grammar of a message that may call tools; raises as `message_grammar`, and E617, E619."""
        known = self._structures().vocabulary.special
        special = {text: index for text, index in self._notations.special.items() if index in known}
        return message_grammar(self.calls, choice, special)

    def compiled(self, choice: ToolChoice) -> CompiledStructure:
        """The structure of a message that may call tools; raises as `grammar`, and E614."""
        return self._structures().compiled(self.grammar(choice))

    def read(self, text: str, tools: Sequence[Tool]) -> list[ToolCall]:
        """The calls between two markers, their values as the tools' schemas have them. Raises ValueError."""
        by_name = {tool.name: tool for tool in tools}
        body = body_of(self.calls)
        calls = body.read(text)
        for call in calls:
            if call.name not in by_name:
                raise ValueError(f"there is no tool {call.name!r:.80}")
        typed = getattr(body, "typed", None)
        return calls if typed is None else [typed(call, by_name[call.name]) for call in calls]


@dataclass(frozen=True)
class MessageParser:
    """The parser of one answer, as `ReplyParser`."""

    message_format: MessageFormat
    options: ChatOptions
    phase: str
    thinking: ThinkingForm | None
    calls: CallForm | None

    def rule(self, request: GenerationRequest, tokens: int) -> TokenRule | None:
        """The rule of a message of at most ``tokens``; None where nothing of it is prescribed.

        Raises:
            InputError: E627, tools and a structure are asked for at once; else as `MessageFormat.compiled`.
        """
        structure = request.structure
        if self.calls is not None and structure is not None:
            raise tools_and_structure()
        free = self.calls is None and structure is None
        if self.calls is None and (self.thinking is None or (free and self.options.thinking_budget is None)):
            return None if structure is None else structure.begin(tokens)

        def begin(left: int, thought: bool) -> TokenRule | None:
            if structure is not None:
                head = self._head(thought)
                return HeadedRule(head, structure.begin, left) if head else structure.begin(left)
            # Without a way to close: a call that was cut short is an error, never a call with arguments made up.
            return None if self.calls is None else self._compiled.begin(left, closes=False)

        return MessageRule(
            self.message_format.decode,
            self.message_format.markers,
            begin,
            tokens,
            phase=self.phase,
            budget=self.options.thinking_budget,
            structured=structure is not None,
            eos=frozenset() if free else request.eos,
        )

    @cached_property
    def _compiled(self) -> CompiledStructure:
        """What holds the calls; compiled once, since the rule of a message is made several times."""
        return self.message_format.compiled(self.options.choice)

    def _head(self, thought: bool) -> tuple[int, ...]:
        """What comes before a structured answer where a message has headers."""
        frame = self.thinking.frame if self.thinking else None
        if frame is None or not frame.answer:
            return ()
        return self.message_format.spelled((frame.lead if thought else "") + frame.answer)

    def reader(self, prompt: Sequence[int], request: GenerationRequest) -> MessageReader:
        """The reader that tells reasoning, calls and answer apart in a message after ``prompt``."""
        return MessageReader(
            TextStream(self.message_format.decode, prompt),
            request.stop,
            thinking=self.thinking,
            calls=self.calls,
            read=lambda text: self.message_format.read(text, self.options.choice.tools),
            reasoning=self.phase == THINK,
        )

    def read_fields(self, reader: Reader) -> dict[str, Any]:
        """The reasoning and the calls that the reader has read, as fields of `Generation`."""
        assert isinstance(reader, MessageReader)
        return {"reasoning": reader.reasoning, "tool_calls": reader.calls}
