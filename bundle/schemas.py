"""Schemas in a bundle: each as JSON and as a compiled automaton, with the bytes of the tokenizer's tokens.

`schemas/vocabulary.bin` is little-endian: the letters EDGECVO1; the numbers of tokens, of bytes and of tokens that end a
text (uint32); those tokens' ids, rising (uint32); where each token's bytes end (uint32); the bytes. A token that never
stands inside a text has none. `exporter/schemas/pushdown.py` describes `schemas/NAME.grammar`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgec.bundle.limited_json import limited_bytes, parse_json
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

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


def names_schema(value: object) -> bool:
    """Whether a value is a schema's name: what could be one, unless a file of this name exists."""
    return isinstance(value, str | Path) and bool(SCHEMA_NAME.fullmatch(str(value))) and not Path(value).exists()


def token_bytes(tokens: tuple[bytes, ...], eos: frozenset[int]) -> bytes:
    """The file of a vocabulary.

    Args:
        tokens: what each id writes inside a text; empty for ids that write nothing there.
        eos: ids that end a text.
    """
    ends = list(accumulate(map(len, tokens)))
    numbers = [len(tokens), ends[-1] if ends else 0, len(eos), *sorted(eos), *ends]
    return MAGIC + struct.pack(f"<{len(numbers)}I", *numbers) + b"".join(tokens)


def shipped_schema(bundle: Bundle, name: str) -> Any:
    """A schema that the bundle holds, as JSON.

    Raises:
        InputError: E714, it holds none of this name, or it is damaged.
    """
    if name not in bundle.manifest.schemas:
        held = ", ".join(bundle.manifest.schemas)
        raise InputError(
            what=f"The bundle has no schema {name!r}.",
            where=str(bundle.path),
            why=f"it has {held}" if held else "it was exported without schemas",
            fix="give one of those, a file with a JSON Schema, or export again with --schema NAME=FILE",
            code="E714",
        )
    path = bundle.path / schema_file(name)
    try:
        return parse_json(limited_bytes(path, MOST_SCHEMA_BYTES))
    except (OSError, ValueError) as error:
        fix = "export the bundle again"
        raise InputError("A schema in the bundle cannot be read.", str(path), str(error), fix, "E714") from error


def paths_of_schemas(names: list[str]) -> list[str]:
    """The files that a bundle with schemas of these names has."""
    paths = [path for name in names for path in (schema_file(name), grammar_file(name))]
    return [*paths, TOKENS] if names else []


def schema_names(files: Mapping[str, object]) -> list[str]:
    """The names of the schemas whose files are among some files, in order."""
    found = (re.fullmatch(r"schemas/(.+)\.grammar", path) for path in files)
    return sorted(match[1] for match in found if match)
