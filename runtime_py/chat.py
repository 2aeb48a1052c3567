"""A conversation on one KV cache: each turn prefills only the tokens that the cache does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.bundle.chat_template import Message, rendered
from edgec.bundle.encoding import check_unicode, token_ids
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.generate import Decode, Generation, GenerationRequest, Memory, generate
from edgec.runtime_py.speculation.speculator import Speculator
from edgec.runtime_py.stepper import Stepper


@dataclass(frozen=True)
class Reply:
    """One answer. ``dropped_messages``: oldest messages left out because the context was full."""

    generation: Generation
    dropped_messages: int

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.generation.text


class Conversation:
    """Messages, rendered by the tokenizer's chat template, on one KV cache.

    Attributes:
        messages: ``{"role": ..., "content": ...}`` so far, the system message first.
    """

    def __init__(
        self,
        stepper: Stepper,
        tokenizer: Any,
        decode: Decode,
        eos: frozenset[int],
        system: str | None = None,
        memory: Memory | None = None,
        speculate: Speculator | None = None,
    ) -> None:
        """Begin with an optional system message.

        Args:
            stepper: the decoder.
            tokenizer: of transformers.
            decode: token ids to text.
            eos: token ids that end an answer.
            system: the system message; None or empty for none.
            memory: what a turn may reuse; by default what the KV cache holds already.
            speculate: drafts tokens ahead; answers are the same as without.

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
        self._stepper, self._tokenizer, self._decode, self._eos = stepper, tokenizer, decode, eos
        self._memory, self._speculate = memory or Memory(stepper.reusable), speculate

    def say(self, text: str, request: GenerationRequest, show: Callable[[str], None] | None = None) -> Reply:
        """Add a user's message and generate the answer.

        When the conversation outgrows the context, the oldest messages after the system message are left out, so that
        an eighth of the context (at most ``request.max_new_tokens``) stays free for the answer.

        Raises:
            InputError: E150, the message alone does not fit, or E152, it is not valid Unicode; the conversation stays
                as it was.
        """
        check_unicode(text)
        messages = [*self.messages, {"role": "user", "content": text}]
        tokens, dropped = self._fitting(messages, request)
        request = replace(request, eos=request.eos | self._eos)
        generation = generate(
            self._stepper, tokens, request, self._decode, show=show, memory=self._memory, speculate=self._speculate
        )
        self.messages = [*messages, {"role": "assistant", "content": generation.text}]
        return Reply(generation, dropped)

    @quiet()
    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Messages as token ids, up to where the assistant answers.

        Raises:
            InputError: E154, the template refuses them (for instance a system message).
        """
        return chat_tokens(self._tokenizer, messages)

    def _fitting(self, messages: list[Message], request: GenerationRequest) -> tuple[list[int], int]:
        context = self._stepper.limits.context
        reserve = min(request.max_new_tokens or context, context // 8)
        first = 1 if messages[0]["role"] == "system" else 0
        for dropped in range(0, len(messages) - first, 2):
            tokens = chat_tokens(self._tokenizer, messages[:first] + messages[first + dropped :], context)
            if len(tokens) + reserve <= context:
                return tokens, dropped
        return tokens, dropped


def chat_tokens(tokenizer: Any, messages: Sequence[Message], enough: int | None = None) -> list[int]:
    """Messages as token ids by a tokenizer's chat template, up to where the assistant answers.

    Args:
        tokenizer: of transformers.
        messages: at least one.
        enough: the number of tokens after which the rest of a longer text need not be read.

    Raises:
        InputError: E154, the template refuses them; E159, it exceeds its limits; E152, they are not valid Unicode.
    """
    return token_ids(tokenizer, rendered(tokenizer, messages), special=False, enough=enough)
