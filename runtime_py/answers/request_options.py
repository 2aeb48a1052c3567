"""The options of a text, as editors and type checkers know them, and what a mistyped one should have been."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from edgec.bundle.tools import Given
from edgec.errors import InputError
from edgec.runtime_py.media.image_file import ImageSource
from edgec.runtime_py.media.sound_file import SoundSource

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle


class RequestOptions(TypedDict, total=False):
    """How long a text is, how its tokens are chosen, where it stops, and what it is held to; see `Model.request`."""

    max_new_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    stop: str | Sequence[str] | None
    repetition_penalty: float | None
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float] | None
    schema: Any
    json: bool
    regex: str | None
    grammar: str | Path | None


class GenerateOptions(RequestOptions, total=False):
    """Those of ``generate``: with ``template`` also a budget of reasoning."""

    thinking_budget: int | None


class TextStreamOptions(GenerateOptions, total=False):
    """The keywords of ``stream``, for its forms in asyncio."""

    template: bool
    speculate: str | Path | Bundle
    resume: bool
    language: str | None
    images: Sequence[ImageSource]
    audio: Sequence[SoundSource]


class MessageOptions(RequestOptions, total=False):
    """The keywords of ``send`` but ``stream``."""

    tools: Sequence[Given] | None
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool
    thinking_budget: int | None


NAMES: Final = tuple(RequestOptions.__annotations__)
# What other libraries call the same, where the letters alone would not tell.
_ELSEWHERE: Final = {
    "max_new_tokens": ("max_tokens", "max_completion_tokens", "max_length", "n_predict", "num_predict"),
    "temperature": ("do_sample", "temp"),
    "repetition_penalty": ("repeat_penalty",),
    "stop": ("stop_strings", "stop_sequences"),
    "schema": ("json_schema", "response_format"),
    "seed": ("random_seed", "random_state"),
}


def check_names(given: Iterable[str]) -> None:
    """Refuse options that a request does not have.

    Raises:
        InputError: E898, with the likeliest name.
    """
    unknown = next((name for name in given if name not in NAMES), None)
    if unknown is None:
        return
    same = [own for own, others in _ELSEWHERE.items() if unknown in others]
    meant = next(iter(same or get_close_matches(unknown, NAMES, n=1)), None)
    known = ", ".join(NAMES)
    raise InputError(
        f"There is no option {unknown!r:.60}.",
        where="options",
        why="thinking_budget needs template=True" if unknown == "thinking_budget" else f"there are {known}",
        fix=f"did you mean {meant}?" if meant else "leave it out",
        code="E898",
    )
