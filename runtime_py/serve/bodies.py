"""The bodies of requests: read once, by pydantic, within limits; whatever is not known is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, JsonValue, ValidationError
from pydantic_core import PydanticCustomError

from edgec.bundle.limited_json import first_fault, parse_json
from edgec.runtime_py.serve.content_parts import MessageParts
from edgec.runtime_py.serve.problems import malformed_body, unsupported
from edgec.runtime_py.serve.strict import MOST_TEXT, Strict

MOST_MESSAGES: Final = 4096
_MOST_TEXTS: Final = 2048
MOST_STOPS: Final = 16
BodyT = TypeVar("BodyT", bound="Strict")
HINTS: Final = (
    *("metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "store", "user"),
    *("verbosity", "service_tier"),
)
"""Parameters of OpenAI's that change nothing about an answer here, whatever they say."""
_MOST_ANSWERS: Final = 16
# Parameters of OpenAI's that are taken where they ask for what is done anyway.
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "modalities": (["text"],),
    "functions": ([],),
}


class StreamOptions(Strict):
    """What a stream tells beside the text."""

    include_usage: bool = False


def _few_strings(stop: str | list[str] | None) -> str | list[str] | None:
    if isinstance(stop, list) and len(stop) > MOST_STOPS:
        raise PydanticCustomError("too_many", "at most {most} strings are taken", {"most": MOST_STOPS})
    return stop


class GenerationBody(Strict):
    """What requests for a chat and for a plain text share."""

    model: str = Field(max_length=256)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    logit_bias: dict[str, float] | None = Field(default=None, max_length=1024)
    n: int = Field(default=1, ge=1, le=_MOST_ANSWERS)
    stop: Annotated[str | list[str] | None, AfterValidator(_few_strings)] = None
    max_tokens: int | None = Field(default=None, ge=1)
    regex: str | None = Field(default=None, max_length=MOST_TEXT)
    grammar: str | None = Field(default=None, max_length=MOST_TEXT)


class CalledFunction(Strict):
    """What a call names, its arguments as JSON."""

    name: str = Field(max_length=256)
    arguments: str = Field(max_length=MOST_TEXT)


class Called(Strict):
    """A call in an assistant's message."""

    id: str = Field(max_length=256)
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class Said(Strict):
    """One message; what others know of it and templates do not read is left out."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: MessageParts | None = None
    name: str | None = None
    tool_calls: list[Called] | None = Field(default=None, max_length=128)
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: list[Any] | None = Field(default=None, max_length=0)


class NamedSchema(Strict):
    """A JSON Schema with a name."""

    name: str = ""
    description: str = ""
    strict: bool | None = None
    json_schema: dict[str, JsonValue] = Field(default={}, alias="schema")


class ResponseFormat(Strict):
    """What an answer's text is to be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatBody(GenerationBody):
    """The body of /v1/chat/completions."""

    messages: list[Said] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: list[dict[str, JsonValue]] | None = None
    tool_choice: str | dict[str, JsonValue] | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    thinking_budget: int | None = Field(default=None, ge=0)


class EmbeddingBody(Strict):
    """The body of /v1/embeddings."""

    model: str = Field(max_length=256)
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    prompt_name: str | None = Field(default=None, max_length=256)

    def texts(self) -> list[str | list[int]]:
        """Each text, or its token ids.

        Raises:
            RequestError: E632, there are none, or too many.
        """
        given: Any = self.input
        several = given if isinstance(given, list) and not (given and isinstance(given[0], int)) else [given]
        if not 0 < len(several) <= _MOST_TEXTS:
            raise malformed_body(f"it holds {len(several)} texts; 1 to {_MOST_TEXTS} are taken", "input")
        return list(several)


class CompletionBody(GenerationBody):
    """The body of /v1/completions."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = Field(default=None, ge=0, le=5)

    def prompts(self) -> list[str | list[int]]:
        """Each prompt, or its token ids.

        Raises:
            RequestError: E632, there are none, or more answers than one request may have.
        """
        given: Any = self.prompt
        several = given if isinstance(given, list) and not (given and isinstance(given[0], int)) else [given]
        if not several or len(several) * self.n > _MOST_ANSWERS:
            raise malformed_body(
                f"it asks for {len(several) * self.n} answers; 1 to {_MOST_ANSWERS} are taken", "prompt"
            )
        return list(several)


def read_body(raw: bytes, kind: type[BodyT]) -> BodyT:
    """The request in a body.

    Raises:
        RequestError: E632, it is not one; E633, it has a parameter that is not supported, which is named.
    """
    try:
        held = parse_json(raw)
    except ValueError as cause:
        raise malformed_body(f"it is not JSON within the limits: {cause}") from cause
    if not isinstance(held, dict):
        raise malformed_body("it is not a JSON object")
    return checked_body(held, kind)


def checked_body(held: dict[str, Any], kind: type[BodyT]) -> BodyT:
    """The request of some values by name; raises as `read_body`."""
    known = {field.alias or name for name, field in kind.model_fields.items()}
    for name in [name for name in held if name in HINTS and name not in known]:
        held.pop(name)
    for name in [name for name in held if name not in known]:
        value = held.pop(name)
        if value is not None and not any(value == each and type(value) is type(each) for each in _neutral(name)):
            raise unsupported(name, _taken(name))
    try:
        return kind.model_validate(held)
    except ValidationError as cause:
        place = cause.errors(include_input=False, include_url=False)[0]["loc"]
        raise malformed_body(first_fault(cause), str(place[0]) if place else "") from cause


def _taken(name: str) -> str:
    """Which values of a parameter are taken; empty where it is not known."""
    values = " or ".join(json.dumps(value) for value in _NEUTRAL.get(name, ()))
    return f"taken is {values} only" if values else ""


def _neutral(name: str) -> tuple[Any, ...]:
    values = _NEUTRAL.get(name, ())
    return (*values, *(float(value) for value in values if type(value) is int))
