"""Files of compiled schemas for the tokenizers of the tests of structured output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgec.bundle.schemas import token_bytes
from edgec.exporter.schemas.compiled import compile_schema
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import normalised_schema


def write_structure(folder: Path, schema: Any, vocabulary: Vocabulary) -> tuple[Path, Path]:
    """Write a compiled schema and a vocabulary; returns their paths."""
    tokens = tuple(b"" if index in vocabulary.special else text for index, text in enumerate(vocabulary.tokens))
    grammar, listed = folder / "one.grammar", folder / "vocabulary.bin"
    grammar.write_bytes(compile_schema(normalised_schema(schema)).to_bytes())
    listed.write_bytes(token_bytes(tokens, vocabulary.eos))
    return grammar, listed
