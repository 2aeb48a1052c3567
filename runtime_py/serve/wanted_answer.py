"""From a request's body to what the runtime is asked for: messages, tools, tokens, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.bundle.encoding import token_ids
from edgec.runtime_py.chat import Conversation
from edgec.runtime_py.decoding.arguments import check_ids
from edgec.runtime_py.decoding.stepper import check_context
from edgec.runtime_py.generation.generate import GenerationRequest, ReplyParser
from edgec.runtime_py.messages.message_format import ChatOptions
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.bodies import ChatBody, CompletionBody, GenerationBody
from edgec.runtime_py.serve.problems import malformed_body, unsupported
from edgec.runtime_py.serve.read_messages import Media, read_prompt

_DEFAULT_COMPLETION, _LONG_NUMBER = 16, 10


@dataclass(frozen=True)
class WantedAnswer:
    """One answer to be computed.

    Attributes:
        prompt: token ids.
        request: length, sampling, ends and structure.
        parser: how it is held and read; None for plain text.
        top_logprobs: how many alternatives to each token are told; None tells no probabilities.
        rated: tokens of which each new token's alternatives are told instead.
        media: the images or the sounds among the tokens; None where they are text alone.
    """

    prompt: tuple[int, ...]
    request: GenerationRequest
    parser: ReplyParser | None = None
    top_logprobs: int | None = None
    rated: tuple[int, ...] = ()
    media: Media | None = None


def wanted_message(model: Model, body: ChatBody) -> WantedAnswer:
    """What a request for a message asks for; nothing is computed.

    Raises:
        RequestError: E632, E633; else InputError as `Conversation.send`, and E150 for a prompt beyond the context.
    """
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise malformed_body("it is the old name of max_completion_tokens, which is given, too", "max_tokens")
    if body.top_logprobs is not None and not body.logprobs:
        raise malformed_body("it needs logprobs: true", "top_logprobs")
    most = body.max_completion_tokens if body.max_tokens is None else body.max_tokens
    request = model.request(max_new_tokens=most, **_sampling(body), **_structure(body), **_form(body))
    chat_options, context = _chat_options(model, body), model.session.limits.context
    tokens, media = read_prompt(model, body.messages, chat_options)
    check_context(len(tokens), context)
    parser = model.message_format.parser(tokens, chat_options)
    # The rule of a message is made once beforehand, so that what cannot be enforced is refused before its turn.
    parser.rule(request, 1)
    rated = (body.top_logprobs or 0) if body.logprobs else None
    return WantedAnswer(tuple(tokens), request, parser, rated, media=media)


def wanted_texts(model: Model, body: CompletionBody) -> list[WantedAnswer]:
    """What a request for plain texts asks for, each prompt's answers together; raises as `wanted_message`."""
    most = _DEFAULT_COMPLETION if body.max_tokens is None else body.max_tokens
    request = model.request(max_new_tokens=most, **_sampling(body), **_form(body))
    return [each for prompt in body.prompts() for each in several(_wanted_text(model, body, prompt, request), body.n)]


def several(wanted: WantedAnswer, count: int) -> list[WantedAnswer]:
    """So many answers to one prompt: where a seed is given, each has a seed of its own."""
    request = wanted.request
    requests = (replace(request, sampling=request.sampling.with_seed(further)) for further in range(count))
    return [replace(wanted, request=one) for one in requests]


def _wanted_text(
    model: Model, body: CompletionBody, prompt: str | Sequence[int], request: GenerationRequest
) -> WantedAnswer:
    context = model.session.limits.context
    ids = token_ids(model.tokenizer, prompt, enough=context) if isinstance(prompt, str) else check_ids(prompt)
    tokens = tuple(ids)
    check_context(len(tokens), context)
    if not tokens:
        raise malformed_body("it is empty", "prompt")
    vocabulary = model.bundle.manifest.model.vocab_size
    if vocabulary is not None and max(tokens) >= vocabulary:
        raise malformed_body(f"it has a token beyond the vocabulary of {vocabulary}", "prompt")
    return WantedAnswer(tokens, request, None, body.logprobs)


def _sampling(body: GenerationBody) -> dict[str, Any]:
    """The options of sampling; the temperature is 1 by default, as OpenAI's is."""
    names = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "stop")
    given = {name: getattr(body, name) for name in names if getattr(body, name) is not None}
    if body.logit_bias:
        given["logit_bias"] = _biases(body.logit_bias)
    return {"temperature": 1.0 if body.temperature is None else body.temperature, **given}


def _biases(given: Mapping[str, float]) -> dict[int, float]:
    if not all(token.isascii() and token.isdigit() and len(token) < _LONG_NUMBER for token in given):
        raise malformed_body("its names are token ids", "logit_bias")
    return {int(token): bias for token, bias in given.items()}


def _form(body: GenerationBody) -> dict[str, Any]:
    """What edgec's own parameters hold a text to."""
    return {name: value for name in ("regex", "grammar") if (value := getattr(body, name)) is not None}


def _structure(body: ChatBody) -> dict[str, Any]:
    asked = body.response_format
    if asked is None or asked.type == "text":
        return {}
    if asked.type == "json_object":
        return {"json": True}
    if asked.json_schema is None:
        raise malformed_body("json_schema is missing", "response_format")
    return {"schema": asked.json_schema.json_schema}


def _chat_options(model: Model, body: ChatBody) -> ChatOptions:
    if body.tool_choice is not None and not body.tools:
        raise malformed_body("there are no tools", "tool_choice")
    parallel = body.parallel_tool_calls is not False
    budget, effort = body.thinking_budget, body.reasoning_effort
    if effort == "none" and budget is None:
        budget, effort = 0, None
    if effort is not None and not model.message_format.takes_effort:
        raise unsupported("reasoning_effort", "this model's template has no such word; use thinking_budget")
    made = Conversation.chat_options(body.tools, body.tool_choice or "auto", parallel, budget)
    return ChatOptions(made.tools, made.choice, budget, effort)
