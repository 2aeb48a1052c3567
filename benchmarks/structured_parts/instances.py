"""Instances of MaskBench: valid ones are let through, invalid ones are not, by Python's masks and by a bundle's."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.structured_parts.judge import sample, verdict
from edgec.bundle.schemas import token_bytes
from edgec.errors import EdgecError
from edgec.exporter.schemas.compiled import compile_schema
from edgec.runtime_py.engines.engine_structure import EngineStructure
from edgec.runtime_py.structured.engine import GrammarEngine, Matcher
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import normalised_schema, wanted

# Enough tokens for every instance, so that the bundle's masks never close one.
_BUDGET = 1 << 20
BYTES = Vocabulary((*(bytes([byte]) for byte in range(256)), b""), frozenset({256}), frozenset({256}))


@dataclass
class Tally:
    """Counts of one engine.

    Attributes:
        refused: refusals by their code and keyword.
        wrong: instances that are taken against their mark or the other way, as `file: which: judge's verdict`.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def judge(self, name: str, schema: Any, test: dict[str, Any], takes: Callable[[bytes], bool]) -> None:
        """Note whether an engine takes one instance."""
        kind = "valid" if test["valid"] else "invalid"
        self.counts[f"{kind} instances"] += 1
        try:
            taken = takes(_text(test))
        except EdgecError as error:
            self.counts[f"{kind}, stopped by {error.code}"] += 1
            return
        self.counts[f"{kind}, {'taken' if taken else 'rejected'}"] += 1
        if taken != test["valid"]:
            self.wrong.append(f"{kind} {name}: jsonschema says {verdict(schema, test['data'])}: {_text(test)[:200]!r}")

    def show(self, title: str) -> None:
        """Print the counts."""
        print(f"{title}: {dict(self.counts)}")
        print(*(f"  refused {number:5} {reason}" for reason, number in self.refused.most_common(16)), sep="\n")
        print(*(f"  {line}" for line in self.wrong), sep="\n")


def measure_instances(vocabulary: Vocabulary, folder: Path, count: int) -> None:
    """Judge the instances of ``count`` files, and print the counts and the time of a mask before each token."""
    engine, python, shipped = GrammarEngine(vocabulary), Tally(), Tally()
    compiles, masks = list[float](), list[float]()
    for name, case in sample(folder, count):
        python.counts["schemas"] += 1
        matcher = _compiled(engine, case["schema"], python, compiles)
        if matcher is None:
            continue
        for test in case["tests"]:
            python.judge(name, case["schema"], test, partial(_taken, matcher.fork(), masks))
        _judge_shipped(name, case, shipped)
    python.show(f"Python, {len(vocabulary.tokens):,} tokens")
    shipped.show("compiled at export, the engine's masks, of the schemas that Python accepts")
    for title, times in (("compile", compiles), ("mask", masks)):
        middle, high, highest = np.quantile(times, [0.5, 0.95, 0.999])
        print(f"{title}: {len(times):,}, median {middle:.3f} ms, 95 % {high:.3f}, 99.9 % {highest:.3f}")


def _text(test: dict[str, Any]) -> bytes:
    return json.dumps(test["data"], ensure_ascii=False).encode("utf-8", "surrogatepass")


def _compiled(engine: GrammarEngine, schema: Any, tally: Tally, times: list[float]) -> Matcher | None:
    begun = time.perf_counter()
    try:
        one = wanted(schema=schema)
        assert one is not None
        made = engine.compile(one.grammar)
    except EdgecError as error:
        tally.refused[f"{error.code} {error.what}"] += 1
        return None
    times.append((time.perf_counter() - begun) * 1e3)
    tally.counts["accepted"] += 1
    return made


def _taken(place: Matcher, masks: list[float], text: bytes) -> bool:
    """Whether a text, cut into its longest tokens, is whole; notes the time of each token's mask."""
    for token in place.vocabulary.spelled(text):
        begun = time.perf_counter()
        place.packed()
        masks.append((time.perf_counter() - begun) * 1e3)
        if not place.consume([token]):
            return False
    return place.accepting


def _judge_shipped(name: str, case: dict[str, Any], tally: Tally) -> None:
    tally.counts["schemas"] += 1
    try:
        grammar = compile_schema(normalised_schema(case["schema"])).to_bytes()
    except EdgecError as error:
        tally.refused[f"{error.code} {error.what}"] += 1
        return
    tally.counts["compiled"] += 1
    with TemporaryDirectory() as folder:
        files = Path(folder, "grammar"), Path(folder, "vocabulary")
        files[0].write_bytes(grammar)
        files[1].write_bytes(token_bytes(BYTES.tokens, BYTES.eos))
        structure = EngineStructure(*files)
    for test in case["tests"]:
        tally.judge(name, case["schema"], test, partial(_taken_by_engine, structure))


def _taken_by_engine(structure: EngineStructure, text: bytes) -> bool:
    """Whether a text is whole, byte by byte."""
    place, logits = structure.begin(_BUDGET), np.zeros(len(BYTES.tokens), np.float32)
    for byte in text:
        if place.mask(logits)[byte] != 0:
            return False
        place.take(byte)
    return bool(place.mask(logits)[256] == 0)
