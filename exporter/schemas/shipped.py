"""The schemas, regular expressions and grammars of an export: compiled before any other work, and a bundle's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.bundle.end_tokens import end_tokens
from edgec.bundle.generation_config import GenerationConfig
from edgec.bundle.prefix import Files
from edgec.bundle.schemas import MOST_SCHEMA_BYTES, SCHEMA_NAME, TOKENS, grammar_file, schema_file, token_bytes
from edgec.errors import InputError
from edgec.exporter.schemas.compiled import compile_schema
from edgec.exporter.schemas.grammars import compile_grammar
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.exporter.schemas.refusals import no_vocabulary, not_named
from edgec.exporter.schemas.regexes import compile_regex
from edgec.runtime_py.structured.refusals import too_much
from edgec.runtime_py.structured.vocabulary import Vocabulary, vocabulary_of
from edgec.runtime_py.structured.wanted import normalised_schema, read_grammar, read_json_schema

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource


def schema_files(
    schemas: Mapping[str, str | Path],
    regexes: Mapping[str, str],
    grammars: Mapping[str, str | Path],
    source: ModelSource,
    tokenizer: Any,
) -> Files:
    """The files that a bundle holds of its schemas; none where there are none.

    Args:
        schemas: JSON files by the schemas' names.
        regexes: regular expressions by names that no schema has; their JSON is a text.
        grammars: files with grammars by names that none of these has; their JSON is a list of lines.
        source: the model, which must be a decoder.
        tokenizer: the model's.

    Raises:
        InputError: E611 to E616, E710, E711, E768, E771, something that cannot be read, enforced or compiled;
            E712, a name; E713, the model is not a decoder with a tokenizer; E617, its tokenizer has no bytes.
        ToolError: E619, llguidance is not installed.
    """
    named = [*schemas.items(), *regexes.items(), *grammars.items()]
    if not named:
        return {}
    _check_names(named)
    files: Files = {TOKENS: _token_file(_vocabulary(source, tokenizer))}
    for name, path in schemas.items():
        schema = read_json_schema(Path(path))
        files[schema_file(name)] = _stored(schema)
        files[grammar_file(name)] = _compiled(lambda given: compile_schema(normalised_schema(given)), schema, path)
    for name, regex in regexes.items():
        files[schema_file(name)] = _stored(regex)
        files[grammar_file(name)] = compile_regex(regex, f"--regex {name}").to_bytes()
    for name, path in grammars.items():
        grammar = read_grammar(Path(path))
        files[schema_file(name)] = _stored(grammar.split("\n"))
        files[grammar_file(name)] = _compiled(compile_grammar, grammar, path)
    return files


def _stored(given: Any) -> bytes:
    """What a bundle says of it: readable lines, or one line where these are more than a bundle is read with.

    Raises:
        InputError: E614, one line is too.
    """
    for indent in (1, None):
        text = json.dumps(given, indent=indent, ensure_ascii=False).encode()
        if len(text) <= MOST_SCHEMA_BYTES:
            return text
    raise too_much("schema", f"as JSON it has more than {MOST_SCHEMA_BYTES:,} bytes")


def _check_names(named: Sequence[tuple[str, str | Path]]) -> None:
    """Refuse names that no files can have, or that are one file's on disks which do not tell capital letters apart."""
    known = set[str]()
    for name, given in named:
        if not SCHEMA_NAME.fullmatch(name) or name.casefold() in known:
            raise not_named(f"{name}={given}")
        known.add(name.casefold())


def _compiled(compiler: Callable[[Any], Pushdown], given: Any, path: str | Path) -> bytes:
    try:
        return compiler(given).to_bytes()
    except InputError as error:
        raise InputError(error.what, f"{path}: {error.where}", error.why, error.fix, error.code) from error


def _vocabulary(source: ModelSource, tokenizer: Any) -> Vocabulary:
    if source.kind not in ("decoder", "vision-language", "audio-language") or tokenizer is None:
        why = "it has no tokenizer" if tokenizer is None else f"it is a {source.kind}"
        raise no_vocabulary(source.name, why)
    ends = end_tokens(GenerationConfig.model_validate(source.generation_config), lambda: tokenizer)
    return vocabulary_of(tokenizer, source.config.get("vocab_size"), frozenset(ends))


def _token_file(vocabulary: Vocabulary) -> bytes:
    tokens = tuple(b"" if index in vocabulary.special else text for index, text in enumerate(vocabulary.tokens))
    return token_bytes(tokens, vocabulary.eos)
