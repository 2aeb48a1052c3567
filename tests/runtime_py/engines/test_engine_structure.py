"""A bundle's schema in the engine: which tokens it leaves, how it closes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgec.bundle.schemas import token_bytes
from edgec.errors import InputError
from edgec.exporter.schemas.compiled import compile_schema
from edgec.runtime_py.engines.engine_structure import EngineStructure, EngineText

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
END = 256
TOKENS = (*(bytes([byte]) for byte in range(256)), b"")
SHORTEST = len('{"name":"","old":true}')


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A grammar and a vocabulary of all bytes, whose last token ends texts."""
    grammar, vocabulary = tmp_path / "a.grammar", tmp_path / "vocabulary.bin"
    grammar.write_bytes(compile_schema(SCHEMA).to_bytes())
    vocabulary.write_bytes(token_bytes(TOKENS, frozenset([END])))
    return grammar, vocabulary


def allowed(text: EngineText) -> set[int]:
    return {int(token) for token in np.flatnonzero(np.isfinite(text.mask(np.zeros(len(TOKENS)))))}


def written(text: EngineText, liking: bytes, most: int) -> bytes:
    """The text of a model that likes some bytes, in this order, and the others as they come."""
    scores = np.array([liking.find(token) if token and token in liking else 300 + place
                       for place, token in enumerate(TOKENS)], np.float32)  # fmt: skip
    out = b""
    for _ in range(most):
        token = int(text.mask(-scores).argmax())
        text.take(token)
        if token == END:
            break
        out += TOKENS[token]
    return out


def test_the_first_byte_opens_the_object(files: tuple[Path, Path]) -> None:
    text = EngineStructure(*files).begin(100)
    assert allowed(text) == {ord("{")}
    text.take(ord("{"))
    assert {ord('"'), ord(" ")} <= allowed(text) and ord("}") not in allowed(text)


@pytest.mark.parametrize("most", [SHORTEST, SHORTEST + 1, SHORTEST + 9, 80])
def test_a_text_is_closed_within_its_tokens(files: tuple[Path, Path], most: int) -> None:
    told = json.loads(written(EngineStructure(*files).begin(most), b"xyz", most))
    assert set(told) == {"name", "old"} and set(told["name"]) <= set("x")


def test_fewer_tokens_than_the_shortest_text_has_leave_it_open(files: tuple[Path, Path]) -> None:
    most = SHORTEST - 1
    assert len(written(EngineStructure(*files).begin(most), b"xyz", most)) == most


def test_what_the_mask_does_not_leave_is_refused(files: tuple[Path, Path]) -> None:
    text = EngineStructure(*files).begin(100)
    with pytest.raises(InputError, match="E614"):
        text.take(ord("}"))
    assert allowed(text) == {ord("{")}


def test_damaged_files_are_refused(files: tuple[Path, Path]) -> None:
    grammar, vocabulary = files
    grammar.write_bytes(grammar.read_bytes()[:-3])
    with pytest.raises(InputError, match="E714"):
        EngineStructure(grammar, vocabulary)
