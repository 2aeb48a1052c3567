"""The structures of an app's tools: one for each choice, from the grammar that Python holds messages to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from edgec.apps.embed.constrained_calls import VOCABULARY, ConstrainedCalls
from edgec.bundle.folder import Bundle
from edgec.bundle.schemas import token_bytes
from edgec.bundle.tools import Tool
from edgec.errors import InputError
from edgec.exporter.schemas.lark import lark_grammar, tokens_in
from edgec.exporter.schemas.messages import UNUSED_BYTES, compile_message
from edgec.runtime_py.answers.tokenized import Tokenized
from edgec.runtime_py.messages.grammar import ToolChoice
from edgec.runtime_py.messages.message_format import MessageFormat
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import Wanted

_ONCE: Final = "once "


def hold_calls(bundle: Bundle, tools: Sequence[Tool]) -> ConstrainedCalls:
    """Compile what calls of some tools are held to, as `HoldCalls`.

    Args:
        bundle: a language model whose chat template takes tools.
        tools: at least one.

    Raises:
        InputError: E613 to E615, E620, a tool's schema cannot be enforced in the notation of calls; E762, not by an
            app's engine; E763, the notation's markers end texts; E617, the tokenizer has no bytes; E625, it does not
            write the markers of reasoning.
        ToolError: E619, llguidance is not installed.
    """
    texts = Tokenized()
    texts.bundle = bundle
    return constrained_calls(texts.message_format, texts.vocabulary, tools)


def constrained_calls(message_format: MessageFormat, vocabulary: Vocabulary, tools: Sequence[Tool]) -> ConstrainedCalls:
    """Compile what calls in a notation are held to; see `hold_calls`."""
    _ = message_format.markers
    grammars = {name: message_format.grammar(choice) for name, choice in _choices(tools).items()}
    symbols = _symbols(grammars.values(), vocabulary)
    files, choices = {VOCABULARY: _token_file(vocabulary, symbols)}, dict[str, str]()
    known = dict[bytes, str]()
    for name, grammar in grammars.items():
        content = _compiled(name, grammar, symbols)
        choices[name] = known.setdefault(content, f"{len(known)}.grammar")
        files[choices[name]] = content
    return ConstrainedCalls(files, choices)


def _choices(tools: Sequence[Tool]) -> Mapping[str, ToolChoice]:
    """What an app may ask for, single tools first, so that an error names the tool at fault."""
    every = tuple(tools)
    asked = {f"tool {tool.name}": ToolChoice((tool,), required=True) for tool in every}
    asked |= {"auto": ToolChoice(every), "required": ToolChoice(every, required=True)}
    return {**asked, **{f"{_ONCE}{name}": replace(choice, parallel=False) for name, choice in asked.items()}}


def _symbols(grammars: Iterable[Wanted], vocabulary: Vocabulary) -> Mapping[int, int]:
    """The byte that stands for each special token of the grammars."""
    tokens = {token for grammar in grammars for token in tokens_in(lark_grammar(grammar.lark, "tools").rules.values())}
    ending = sorted(tokens & vocabulary.eos)
    if ending or len(tokens) > len(UNUSED_BYTES):
        why = f"the token {ending[0]} of its calls ends texts" if ending else "its calls have too many special tokens"
        fix = "leave --tools out; tools work in Python"
        raise InputError("An app cannot hold this model's calls of tools.", "--tools", why, fix, "E763")
    return dict(zip(sorted(tokens), UNUSED_BYTES, strict=False))


def _token_file(vocabulary: Vocabulary, symbols: Mapping[int, int]) -> bytes:
    """The vocabulary's file; a token with a byte that UTF-8 never has writes nothing, since such a byte is a symbol."""
    taken = bytes(symbols.values())

    def written(index: int, text: bytes) -> bytes:
        if index in symbols:
            return bytes([symbols[index]])
        return b"" if index in vocabulary.special or any(byte in taken for byte in text) else text

    return token_bytes(tuple(written(*pair) for pair in enumerate(vocabulary.tokens)), vocabulary.eos)


def _compiled(name: str, grammar: Wanted, symbols: Mapping[int, int]) -> bytes:
    try:
        return compile_message(grammar, symbols).to_bytes()
    except InputError as error:
        raise InputError(
            "An app cannot hold calls to the schemas of these tools.",
            f"--tools, {name.removeprefix(_ONCE)}",
            f"{error.what} {error.why}".strip(),
            "say it otherwise (docs/structured-output.md says what a bundle's schemas may have), or leave the tool out",
            "E762",
        ) from error
