"""A conversation on one KV cache: each turn prefills only the tokens that the cache does not hold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Unpack

from edgec.bundle.chat_template import Message, render_messages
from edgec.bundle.encoding import check_unicode, token_ids
from edgec.bundle.tools import Given, tools_of
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.answers.request_options import MessageOptions, RequestOptions
from edgec.runtime_py.answers.streams import AsyncStream, Stream
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.decoding.stepper import Stepper
from edgec.runtime_py.generation.calls import ToolCall, assistant_message, result_message
from edgec.runtime_py.generation.generate import Decode, GenerationRequest, exhausted, pieces, shorten
from edgec.runtime_py.messages.grammar import choose_tools
from edgec.runtime_py.messages.message_format import NO_CHAT_OPTIONS, ChatOptions, MessageFormat
from edgec.runtime_py.messages.reader import TEXT, Piece
from edgec.runtime_py.messages.refusals import foreign_result, nothing_said
from edgec.runtime_py.messages.reply import Reply
from edgec.runtime_py.speculation.speculator import Speculator
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import vocabulary_of

MakeRequest = Callable[..., GenerationRequest]


class Conversation:
    """Messages, rendered by the tokenizer's chat template, on one KV cache.

    Attributes:
        messages: ``{"role": ..., "content": ...}`` so far, the system message first.
        message_format: how the chat template writes reasoning and calls.
    """

    def __init__(
        self,
        stepper: Stepper,
        tokenizer: Any,
        decode: Decode,
        eos: frozenset[int],
        system: str | None = None,
        prompt_cache: PromptCache | None = None,
        speculate: Speculator | None = None,
        *,
        message_format: MessageFormat | None = None,
        ask: MakeRequest = GenerationRequest,
        turn: AbstractContextManager[None] | None = None,
    ) -> None:
        """Begin with an optional system message.

        Args:
            stepper: the decoder.
            tokenizer: of transformers.
            decode: token ids to text.
            eos: token ids that end an answer.
            system: the system message; None or empty for none.
            prompt_cache: what a turn may reuse; by default what the KV cache holds already.
            speculate: drafts tokens ahead; answers are the same as without.
            message_format: the notations of the chat template, where they have been read already.
            ask: makes a request of the options of ``send``.
            turn: held while an answer is written, since a KV cache holds one text at a time; by default nothing is.

        Raises:
            InputError: E154, the tokenizer has no chat template; E152, the system message is not valid Unicode.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(
                "This model's tokenizer has no chat template.",
                where="tokenizer/tokenizer_config.json",
                why="it was probably not trained on conversations",
                fix="continue plain text instead: edgec run BUNDLE --raw -p TEXT",
                code="E154",
            )
        check_unicode(system or "")
        self.messages: list[Message] = [{"role": "system", "content": system}] if system else []
        self.message_format = message_format or MessageFormat(
            tokenizer, lambda: Structures(vocabulary_of(tokenizer, None, eos))
        )
        self._stepper, self._decode, self._eos, self._ask = stepper, decode, eos, ask
        self._prompt_cache, self._speculate = prompt_cache or PromptCache(stepper.reusable), speculate
        self._turn = turn or nullcontext()

    def __repr__(self) -> str:
        if not self.messages:
            return "<edgec Conversation: no messages>"
        last = self.messages[-1]
        said = f"{last['role']}: {shorten(str(last.get('content') or ''), 40)!r}"
        return f"<edgec Conversation: {len(self.messages)} message{'s' * (len(self.messages) > 1)}, last {said}>"

    def say(self, text: str, request: GenerationRequest, show: Callable[[str], None] | None = None) -> Reply:
        """Add a user's message and generate the answer; ``show`` is called with each piece of its text.

        When the conversation outgrows the context, the oldest turns after the system message are left out, so that
        an eighth of the context (at most ``request.max_new_tokens``) stays free for the answer.

        Raises:
            InputError: E150, the message alone does not fit, or E152, it is not valid Unicode; the conversation stays
                as it was.
        """
        return self.answer(text, request, show=None if show is None else lambda piece: show(piece.text))

    def send(
        self,
        text: str | None = None,
        *,
        tools: Sequence[Given] | None = None,
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        thinking_budget: int | None = None,
        stream: Callable[[Piece], None] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Reply:
        """Add a user's message, or the results of calls, and generate the answer.

        Args:
            text: the message; None goes on from the results that ``add_result`` added.
            tools: what the model may call: dicts in OpenAI's form, or Python functions with type hints and a
                docstring that describes each argument.
            tool_choice: ``auto``, ``none``, ``required`` or the name of the tool to call.
            parallel_tool_calls: one answer may call several tools.
            thinking_budget: the most tokens of reasoning; 0 switches it off, None leaves it to the template.
            stream: called with each piece: text, reasoning or a call.
            options: those of ``Model.request``.

        Raises:
            InputError: E620 to E628; E623 is a `MalformedCall`, whose ``text`` is what the model wrote. The
                conversation stays as it was.
        """
        chat_options = self.chat_options(tools, tool_choice, parallel_tool_calls, thinking_budget)
        return self.answer(text, self._ask(**options), chat_options, stream, all_pieces=True)

    def stream(self, text: str | None = None, **options: Unpack[MessageOptions]) -> Stream[Piece, Reply]:
        """The answer of ``send`` piece by piece; takes its arguments but ``stream``."""
        given: dict[str, Any] = {**options}
        names = ("tools", "tool_choice", "parallel_tool_calls", "thinking_budget")
        chat_options = self.chat_options(**{name: given.pop(name) for name in names if name in given})
        return Stream(self._written(self._with(text), self._ask(**given), chat_options))

    def stream_async(self, text: str | None = None, **options: Unpack[MessageOptions]) -> AsyncStream[Piece, Reply]:
        """The same for ``async for``; takes the arguments of ``stream``."""
        return AsyncStream(self.stream(text, **options))

    async def send_async(self, text: str | None = None, **options: Unpack[MessageOptions]) -> Reply:
        """``send`` in a thread of its own, so that the event loop goes on; takes its arguments but ``stream``.

        Cancelling the task stops the answer; the conversation then stays as it was.
        """
        return await self.stream_async(text, **options).whole()

    @staticmethod
    def chat_options(
        tools: Sequence[Given] | None = None,
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        thinking_budget: int | None = None,
    ) -> ChatOptions:
        """What ``send`` asks for beside the options of a request, checked. Raises InputError E620, E621, E626."""
        made = tools_of(tools)
        choice = choose_tools(made, tool_choice, parallel_tool_calls)
        return ChatOptions(made if choice.tools else (), choice, thinking_budget)

    def answer(
        self,
        text: str | None,
        request: GenerationRequest,
        chat_options: ChatOptions = NO_CHAT_OPTIONS,
        show: Callable[[Piece], None] | None = None,
        *,
        all_pieces: bool = False,
    ) -> Reply:
        """Generate the answer to a message with a request that is made already; ``show`` sees its text.

        Args:
            text: as in ``send``.
            request: the length, sampling and ends.
            chat_options: tools and the budget of reasoning.
            show: called with each piece.
            all_pieces: reasoning and calls are shown, too.
        """

        def shown(piece: Piece) -> None:
            if show is not None and (all_pieces or piece.kind == TEXT):
                show(piece)

        return exhausted(self._written(self._with(text), request, chat_options), shown)

    def add_result(self, call: ToolCall | str, result: Any) -> None:
        """Add what a tool gave, as text or as a value that becomes JSON; ``send()`` then goes on.

        Args:
            call: one of the latest reply's ``tool_calls``, or its id.
            result: text, or anything that JSON can hold.

        Raises:
            InputError: E624, no such call waits for a result.
        """
        wanted = call.id if isinstance(call, ToolCall) else call
        if wanted not in self.waiting:
            raise foreign_result(str(wanted))
        calls = [each for message in self.messages for each in message.get("tool_calls", ())]
        answered = next(each for each in calls if each["id"] == wanted)
        self.messages = [*self.messages, result_message(answered, result)]

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the calls that wait for their results, in their order."""
        done = {message.get("tool_call_id") for message in self.messages if message["role"] == "tool"}
        calls = [each["id"] for message in self.messages for each in message.get("tool_calls", ())]
        return tuple(each for each in calls if each not in done)

    @quiet()
    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Messages as token ids, up to where the assistant answers.

        Raises:
            InputError: E154, the template refuses them (for instance a system message).
        """
        return self.message_format.prompt(messages)

    def _with(self, text: str | None) -> list[Message]:
        if text is None:
            if not self.messages or self.messages[-1]["role"] not in ("tool", "user"):
                raise nothing_said()
            return self.messages
        check_unicode(text)
        return [*self.messages, {"role": "user", "content": text}]

    def _written(
        self, messages: list[Message], request: GenerationRequest, chat_options: ChatOptions
    ) -> Generator[Piece, None, Reply]:
        tokens, dropped = self._fitting(messages, request, chat_options)
        with self._turn:
            made = yield from pieces(
                self._stepper,
                tokens,
                replace(request, eos=request.eos | self._eos),
                self._decode,
                prompt_cache=self._prompt_cache,
                speculate=self._speculate,
                parser=self.message_format.parser(tokens, chat_options),
            )
        self.messages = [*messages, assistant_message(made.text, made.reasoning, made.tool_calls)]
        return Reply(made, dropped)

    def _fitting(
        self, messages: list[Message], request: GenerationRequest, chat_options: ChatOptions
    ) -> tuple[list[int], int]:
        """The prompt of as many of the latest turns as fit; a turn is left out whole, calls and results with it."""
        context = self._stepper.limits.context
        reserve = min(request.max_new_tokens or context, context // 8)
        first = 1 if messages[0]["role"] == "system" else 0
        turns = [place for place, message in enumerate(messages) if message["role"] == "user" and place > first]
        for begin in [first, *turns]:
            tokens = self.message_format.prompt(messages[:first] + messages[begin:], chat_options, context)
            if len(tokens) + reserve <= context:
                break
        return tokens, begin - first


def chat_tokens(tokenizer: Any, messages: Sequence[Message], enough: int | None = None) -> list[int]:
    """Messages as token ids by a tokenizer's chat template, up to where the assistant answers.

    Args:
        tokenizer: of transformers.
        messages: at least one.
        enough: the number of tokens after which the rest of a longer text need not be read.

    Raises:
        InputError: E154, the template refuses them; E159, it exceeds its limits; E152, they are not valid Unicode.
    """
    return token_ids(tokenizer, render_messages(tokenizer, messages), special=False, enough=enough)
