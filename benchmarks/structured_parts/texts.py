"""What share of real schemas is accepted, and of their texts by a model with random weights ends and is valid."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.structured_parts.judge import sample, verdict
from benchmarks.structured_parts.random_model import random_model
from edgec.errors import EdgecError
from edgec.runtime_py.structured.vocabulary import Vocabulary

MOST = 512


def measure_texts(vocabulary: Vocabulary, folder: Path, count: int) -> None:
    """Print how many schemas are accepted, how many texts end, and how many of those are valid."""
    counts, reasons, invalid = Counter[str](), Counter[str](), list[str]()
    begun = time.process_time()
    with TemporaryDirectory() as build:
        model = random_model(vocabulary, Path(build))
        for seed, (name, schema) in enumerate(sample(folder, count)):
            counts["schemas"] += 1
            try:
                found = _text(model, schema, seed)
            except EdgecError as error:
                reasons[f"{error.code} {error.what}"] += 1
                continue
            counts.update(["accepted", *found])
            invalid += [name] if "invalid" in found else []
    print(f"texts at {len(vocabulary.tokens):,} tokens, random weights, temperature 1, at most {MOST} tokens")
    print(f"{dict(counts)}, {time.process_time() - begun:.0f} CPU s")
    print(*(f"  refused {number:4} {reason}" for reason, number in reasons.most_common(12)), sep="\n")
    print(*(f"  INVALID {name}" for name in invalid), sep="\n")


def _text(model: Any, schema: Any, seed: int) -> list[str]:
    """What became of one text: ``ended`` and the judge's verdict, or ``cut``."""
    out = model.generate("x", schema=schema, max_new_tokens=MOST, temperature=1.0, seed=seed)
    if out.finish_reason not in ("complete", "eos"):
        return ["cut"]
    return ["ended", verdict(schema, out.value)]
