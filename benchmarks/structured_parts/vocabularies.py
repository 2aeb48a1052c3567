"""Vocabularies to mask: made-up ones of any size, and a published one from its file of ranks."""

from __future__ import annotations

import base64
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edgec.runtime_py.structured.vocabulary import Vocabulary

SMALL = 16_000
DOCS = Path(__file__).parents[2] / "docs"
_JOINED = (
    *(b'{"', b'":', b'", "', b'"}', b'"]', b'","', b"}}", b"]]", b"},", b'":"', b'": "', b'"},{"', b"123", b"00"),
    *(b"  ", b"    ", b"\n  "),
)
_LETTERS = "eeeettaaooiinnsshhrrddllucmfwygpbvkxqjz"


def published(file: Path) -> Vocabulary:
    """The vocabulary of a tiktoken file, lines of a token in base64 and its rank; one more token ends a text."""
    ranks = [line.split() for line in file.read_bytes().splitlines() if line.strip()]
    tokens = [b""] * len(ranks)
    for text, rank in ranks:
        tokens[int(rank)] = base64.b64decode(text)
    return Vocabulary((*tokens, b"<end>"), frozenset({len(tokens)}), frozenset({len(tokens)}))


def made_up(size: int, seed: int = 0) -> Vocabulary:
    """A byte-level vocabulary: every byte, JSON's punctuation joined, words of edgec's documents, and made-up ones."""
    tokens = dict.fromkeys([b"<end>", *(bytes([byte]) for byte in range(256)), *_JOINED])
    for text in islice(_words(), size - len(tokens)):
        tokens.setdefault(text)
    made = _made_up_words(random.Random(seed))
    while len(tokens) < size:
        tokens.setdefault(next(made))
    return Vocabulary(tuple(tokens), frozenset({0}), frozenset({0}))


def _words() -> Iterator[bytes]:
    """The words of edgec's documents, frequent ones first, also with a blank before them or a capital letter."""
    texts = [file.read_text() for file in sorted(DOCS.glob("*.md"))]
    counted = Counter(re.findall("[A-Z]?[a-z]+|[A-Z]+", " ".join(texts)))
    words = [word for word, _ in counted.most_common() if len(word) > 1]
    return (text.encode() for word in words for text in (word, f" {word}", word.title()))


def _made_up_words(rng: random.Random) -> Iterator[bytes]:
    while True:
        word = "".join(rng.choices(_LETTERS, k=rng.randint(2, 9)))
        yield rng.choice([b"", b" ", b" "]) + rng.choice([word, word, word.title()]).encode()
