"""Schemas in a bundle: each as JSON and as a compiled automaton, with the bytes of the tokenizer's tokens.

Regular expressions and grammars lie among them: the JSON of the first is a text, of the second a list of its lines.

`schemas/vocabulary.bin` is little-endian: the letters EDGECVO1; the numbers of tokens, of bytes and of tokens that end
a text (uint32); those tokens' ids, rising (uint32); where each token's bytes end (uint32); the bytes. A token that
never stands inside a text has none. `exporter/schemas/pushdown.py` describes `schemas/NAME.grammar`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

MAGIC: Final = b"EDGECVO1"
TOKENS: Final = "schemas/vocabulary.bin"
MOST_SCHEMA_BYTES: Final = 1 << 20
SCHEMA_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)


def schema_file(name: str) -> str:
    """The schema's JSON within the bundle."""
    return f"schemas/{name}.json"


def grammar_file(name: str) -> str:
    """The compiled schema within the bundle."""
    return f"schemas/{name}.grammar"


def token_bytes(tokens: tuple[bytes, ...], eos: frozenset[int]) -> bytes:
    """The file of a vocabulary.

    Args:
        tokens: what each id writes inside a text; empty for ids that write nothing there.
        eos: ids that end a text.
    """
    ends = list(accumulate(map(len, tokens)))
    numbers = [len(tokens), ends[-1] if ends else 0, len(eos), *sorted(eos), *ends]
    return MAGIC + struct.pack(f"<{len(numbers)}I", *numbers) + b"".join(tokens)


def paths_of_schemas(names: list[str]) -> list[str]:
    """The files that a bundle with schemas of these names has."""
    paths = [path for name in names for path in (schema_file(name), grammar_file(name))]
    return [*paths, TOKENS] if names else []


def schema_names(files: Mapping[str, object]) -> list[str]:
    """The names of the schemas whose files are among some files, in order."""
    found = (re.fullmatch(r"schemas/(.+)\.grammar", path) for path in files)
    return sorted(match[1] for match in found if match)
