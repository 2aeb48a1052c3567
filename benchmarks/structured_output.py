"""Structured output: how long a mask takes at a large vocabulary, and what share of real schemas ends in valid text.

    python -m benchmarks.structured_output                               # masks, at 150,000 made-up tokens
    python -m benchmarks.structured_output --schemas DIR --count 1000    # schemas, such as JSONSchemaBench's data/

DIR is searched for .json files, each a schema; a sample of --count with a fixed seed is taken. Texts come from random
logits at temperature 1, of at most 512 tokens of a vocabulary of 16,000: the hardest case for ending. An ended text is
judged by jsonschema, by the draft that the schema names. Nothing of DIR is copied.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from edgec.errors import EdgecError, InputError
from edgec.runtime_py.sampling import Sampler, Sampling
from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.constraint import Constraint
from edgec.runtime_py.structured.engine import GrammarEngine
from edgec.runtime_py.structured.structures import CompiledStructure, Structures
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import wanted

TOKENS, SMALL, MOST = 150_000, 16_000, 512
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "email": {"type": "string", "format": "email"},
        "role": {"enum": ["user", "admin"]},
    },
    "required": ["name", "age", "tags", "email", "role"],
    "additionalProperties": False,
}
ASKED: dict[str, dict[str, Any]] = {
    "a person": {"schema": PERSON},
    "any JSON object": {"json": True},
    "regex [a-z ]{1,200}": {"regex": "[a-z ]{1,200}"},
}


def made_up(size: int, seed: int = 0) -> Vocabulary:
    """A byte-level vocabulary: every byte, JSON's punctuation joined, words of edgec's documents, and made-up ones."""
    rng = random.Random(seed)
    tokens = [b"<end>", *(bytes([byte]) for byte in range(256))]
    known = set(tokens)
    joined = [
        '{"',
        '":',
        '", "',
        '"}',
        '"]',
        '","',
        "}}",
        "]]",
        "},",
        '":"',
        '": "',
        "  ",
        "    ",
        "\n  ",
        '"},{"',
        "123",
        "00",
    ]
    for text in (text.encode() for text in joined):
        tokens.append(text)
        known.add(text)
    texts = [file.read_text() for file in sorted((Path(__file__).parents[1] / "docs").glob("*.md"))]
    counted = Counter(re.findall("[A-Z]?[a-z]+|[A-Z]+", " ".join(texts)))
    words = [word for word, _ in counted.most_common() if len(word) > 1]
    for text in (text.encode() for word in words for text in (word, f" {word}", word.title())):
        if text not in known and len(tokens) < size:
            known.add(text)
            tokens.append(text)
    letters = "eeeettaaooiinnsshhrrddllucmfwygpbvkxqjz"
    while len(tokens) < size:
        word = "".join(rng.choices(letters, k=rng.randint(2, 9)))
        text = rng.choice(["", " ", " "]).encode() + rng.choice([word, word, word.title()]).encode()
        if text not in known:
            known.add(text)
            tokens.append(text)
    return Vocabulary(tuple(tokens), frozenset({0}), frozenset({0}))


def measure_masks(engine: GrammarEngine, steps: int) -> None:
    """Print the time of a mask, and of all that a step costs besides the model."""
    print(f"masks at {TOKENS:,} tokens, {steps} steps of random text each (measured; one thread)")
    rng = np.random.default_rng(0)
    for name, asked in ASKED.items():
        one = wanted(**asked)
        assert one is not None
        begun = time.perf_counter()
        matcher = engine.compile(one.grammar)
        compiled, masks, wholes = (time.perf_counter() - begun) * 1e3, list[float](), list[float]()
        while len(masks) < steps:
            text = Constraint(matcher.fork(), Closer(engine.vocabulary), MOST)
            choose, place = Sampler(Sampling(1.0, seed=len(masks)), text), matcher.fork()
            for _ in range(MOST):
                logits = rng.standard_normal(TOKENS, dtype=np.float32)
                begun = time.perf_counter()
                place.packed()
                masks.append((time.perf_counter() - begun) * 1e3)
                begun = time.perf_counter()
                token = choose(logits, ())
                wholes.append((time.perf_counter() - begun) * 1e3)
                if token == 0 or not place.consume([token]) or place.stopped or len(masks) >= steps:
                    break
        high = quantiles(masks, n=100)
        print(
            f"  {name:20} compile {compiled:.1f} ms, mask median {median(masks):.3f} ms, 95 % {high[94]:.3f}, "
            f"99 % {high[98]:.3f}; with masking, sampling, closing: median {median(wholes):.2f} ms"
        )


def write(structure: CompiledStructure, rng: np.random.Generator) -> tuple[bytes, bool]:
    """Text from random logits, and whether it is whole."""
    rule, vocabulary = structure.begin(MOST), structure.matcher.vocabulary
    choose, tokens = Sampler(Sampling(1.0, seed=int(rng.integers(2**31))), rule), list[int]()
    size = len(vocabulary.tokens)
    while len(tokens) < MOST and not rule.ended(len(tokens)):
        token = choose(rng.standard_normal(size, dtype=np.float32) * 2, ())
        if token in vocabulary.eos:
            break
        tokens.append(token)
    return b"".join(vocabulary.tokens[token] for token in tokens), rule.is_whole(len(tokens))


def sample(folder: Path, count: int) -> Iterator[tuple[str, Any]]:
    """Schemas of a folder, by name, in an order of chance that is always the same."""
    files = sorted(folder.rglob("*.json"))
    random.Random(0).shuffle(files)
    for file in files[:count]:
        yield file.relative_to(folder).as_posix(), json.loads(file.read_text())


def measure_schemas(vocabulary: Vocabulary, folder: Path, count: int) -> None:
    """Print how many schemas are accepted, how many texts end, and how many of those are valid."""
    import jsonschema

    structures, rng = Structures(vocabulary), np.random.default_rng(0)
    counts, reasons, invalid = Counter[str](), Counter[str](), list[str]()
    begun = time.process_time()
    for name, schema in sample(folder, count):
        counts["schemas"] += 1
        try:
            one = wanted(schema=schema)
            assert one is not None
            text, whole = write(structures.compiled(one), rng)
        except EdgecError as error:
            if isinstance(error, InputError):
                reasons[f"{error.code} {error.what}"] += 1
            continue
        counts["accepted"] += 1
        if not whole:
            continue
        counts["ended"] += 1
        judge = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            valid = judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(one.value(text.decode()))
        except Exception as error:  # the judge's own: patterns that Python's re does not know, schemas that are none
            counts[f"not judged ({type(error).__name__})"] += 1
            continue
        counts["valid" if valid else "invalid"] += 1
        invalid += [] if valid else [name]
    print(f"{dict(counts)}, {time.process_time() - begun:.0f} CPU s")
    print(*(f"  refused {number:4} {reason}" for reason, number in reasons.most_common(12)), sep="\n")
    print(*(f"  INVALID {name}" for name in invalid), sep="\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, help="a folder of JSON Schemas")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    if options.schemas is None:
        measure_masks(GrammarEngine(made_up(TOKENS)), options.steps)
    else:
        measure_schemas(made_up(SMALL), options.schemas, options.count)


if __name__ == "__main__":
    main()
