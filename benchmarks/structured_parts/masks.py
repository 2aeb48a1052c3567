"""How long a mask takes, and all that a step costs besides the model, on random text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from statistics import median, quantiles
from typing import Any

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.structured.engine import GrammarEngine, Matcher
from edgec.runtime_py.structured.structures import CompiledStructure, Structures
from edgec.runtime_py.structured.wanted import wanted

MOST = 512
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


def measure_masks(engine: GrammarEngine, steps: int) -> None:
    """Print the time of a mask in the library's process, and of all that a step costs besides the model outside it."""
    size, structures = len(engine.vocabulary.tokens), Structures(engine.vocabulary)
    print(f"masks at {size:,} tokens, {steps} steps of random text each (measured; one thread)")
    for name, asked in ASKED.items():
        one = wanted(**asked)
        assert one is not None
        matcher = engine.compile(one.grammar)
        structures.compiled(wanted(regex=name))  # type: ignore[arg-type]  # starts the process that others are forked from
        begun = time.perf_counter()
        structure = structures.compiled(one)
        compiled, masks, wholes = (time.perf_counter() - begun) * 1e3, list[float](), list[float]()
        while len(masks) < steps:
            for mask_ms, whole_ms in islice(_steps(matcher, structure, seed=len(masks)), steps - len(masks)):
                masks.append(mask_ms)
                wholes.append(whole_ms)
        high = quantiles(masks, n=100)
        print(
            f"  {name:20} compile {compiled:.1f} ms, mask median {median(masks):.3f} ms, 95 % {high[94]:.3f}, "
            f"99 % {high[98]:.3f}; with masking, sampling, closing: median {median(wholes):.2f} ms"
        )


def _steps(matcher: Matcher, structure: CompiledStructure, seed: int) -> Iterator[tuple[float, float]]:
    """Write one random text; yields the ms of each token's mask, and of all that choosing it took."""
    vocabulary, rng = matcher.vocabulary, np.random.default_rng(seed)
    choose, place = Sampler(Sampling(1.0, seed=seed), structure.begin(MOST)), matcher.fork()
    for _ in range(MOST):
        logits = rng.standard_normal(len(vocabulary.tokens), dtype=np.float32)
        begun = time.perf_counter()
        place.packed()
        masked = time.perf_counter()
        token = choose(logits, ())
        yield (masked - begun) * 1e3, (time.perf_counter() - masked) * 1e3
        if token in vocabulary.eos or not place.consume([token]) or place.stopped:
            return
