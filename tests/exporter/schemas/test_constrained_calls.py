"""The structures of an app's tools: a file for each choice that differs, tokens as bytes, and what cannot be held."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from edgec.apps.embed.constrained_calls import VOCABULARY, ConstrainedCalls
from edgec.bundle.schemas import MAGIC
from edgec.bundle.tools import Given, tools_of
from edgec.errors import InputError
from edgec.exporter.schemas.constrained_calls import constrained_calls
from edgec.exporter.schemas.messages import UNUSED_BYTES
from edgec.runtime_py.messages.message_format import MessageFormat
from edgec.runtime_py.structured.structures import Structures
from edgec.runtime_py.structured.vocabulary import vocabulary_of
from tests.runtime_py.generation.test_calls import FORMS, SPECIAL, marked
from tests.runtime_py.messages.talk import TOOLS


def held(name: str, tools: Sequence[Given] = TOOLS, eos: str | None = None) -> tuple[Any, ConstrainedCalls]:
    """A tokenizer with a notation's special tokens, and what calls in it are held to."""
    tokenizer = marked(FORMS[name], SPECIAL[name])
    ends = {tokenizer.eos_token_id, *([tokenizer.convert_tokens_to_ids(eos)] if eos else [])}
    vocabulary = vocabulary_of(tokenizer, len(tokenizer), frozenset(ends))
    made = Structures(vocabulary)
    return tokenizer, constrained_calls(MessageFormat(tokenizer, lambda: made), vocabulary, tools_of(tools))


def tokens_in_file(content: bytes) -> list[bytes]:
    """What each token of a vocabulary's file writes."""
    count, _, eos = struct.unpack_from("<3I", content, len(MAGIC))
    first = len(MAGIC) + 4 * (3 + eos)
    ends, text = struct.unpack_from(f"<{count}I", content, first), content[first + 4 * count :]
    return [text[begin:end] for begin, end in pairwise((0, *ends))]


def test_each_choice_has_a_file_and_equal_ones_share_it() -> None:
    _, many = held("hermes")
    asked = [f"{once}{name}" for once in ("", "once ") for name in ("tool weather", "tool now", "auto", "required")]
    assert sorted(many.choices) == sorted(asked) and set(many.choices.values()) | {VOCABULARY} == set(many.files)
    assert len(many.files) == 9 and many.digests.keys() == many.files.keys()
    # One call a message: whether several may come makes no difference.
    _, one = held("llama3")
    assert all(one.choices[name] == one.choices[f"once {name}"] for name in ("auto", "required", "tool now"))
    # Of a single tool, any call is a call of it.
    _, single = held("hermes", TOOLS[1:])
    assert single.choices["required"] == single.choices["tool now"]


def test_special_tokens_are_bytes_that_no_text_has() -> None:
    tokenizer, made = held("gemma4")
    written = tokens_in_file(made.files[VOCABULARY])
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL["gemma4"]))
    assert {written[index] for index in ids} == {bytes([byte]) for byte in UNUSED_BYTES[: len(ids)]}
    others = [text for index, text in enumerate(written) if index not in ids]
    assert not any(byte in text for text in others for byte in UNUSED_BYTES[: len(ids)])
    assert b"a" in others and b"\xe2" in others and not written[tokenizer.eos_token_id]


def test_a_schema_beyond_the_automaton_is_refused_with_its_tool() -> None:
    odd = {"function": {"name": "mail", "parameters": {"properties": {"to": {"type": "string", "format": "email"}}}}}
    with pytest.raises(InputError, match="E762") as caught:
        held("hermes", [*TOOLS, odd])
    assert "tool mail" in caught.value.where and "'format'" in caught.value.why
    with pytest.raises(InputError, match="E613"):
        held(
            "gemma4",
            [{"function": {"name": "a", "parameters": {"properties": {"x": {"pattern": "a", "type": "string"}}}}}],
        )


def test_a_marker_that_ends_texts_is_refused() -> None:
    with pytest.raises(InputError, match="E763"):
        held("lfm2", eos="<|tool_call_end|>")
