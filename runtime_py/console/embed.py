"""The output of ``edgec run --embed``: a JSON array for each text on stdout, one line of timings on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from time import perf_counter

from edgec.errors import InputError
from edgec.runtime_py.model import Model


def print_vectors(
    model: Model, texts: Sequence[str], truncate: bool, as_json: bool, prompt_name: str | None = None
) -> None:
    """Print the vector of each text.

    Args:
        model: a sentence encoder.
        texts: at least one.
        truncate: as for `Model.embed`.
        as_json: an object with the number of tokens, instead of the bare array.
        prompt_name: as for `Model.embed`.

    Raises:
        InputError: as `Model.embed`; E156, there is no text.
    """
    if not texts:
        raise InputError(
            "There is no text.", where="edgec run", fix="give -p TEXT, or pipe a text per line", code="E156"
        )
    started = perf_counter()
    vectors = model.embed(texts, truncate=truncate, prompt_name=prompt_name)
    seconds = perf_counter() - started
    counts = [model.embedded_tokens(text, truncate=truncate, prompt_name=prompt_name) for text in texts]
    for vector, count in zip(vectors, counts, strict=True):
        # Nine digits tell any two float32 values apart.
        values = [float(f"{value:.9g}") for value in vector]
        print(json.dumps({"tokens": count, "embedding": values} if as_json else values))
    said = _prompt(model, prompt_name) + (f"{len(texts):,} texts" if len(texts) > 1 else "1 text")
    print(
        f"{said}, {sum(counts):,} tokens, {vectors.shape[1]:,} values each, {seconds * 1e3:.1f} ms (measured)",
        file=sys.stderr,
    )


def _prompt(model: Model, name: str | None) -> str:
    """What went before each text, in words; empty where nothing did."""
    before, _ = model.prompts.named(name)
    chosen = model.prompts.default_prompt if name is None else name
    return f"prompt {chosen}: {before!r}, " if before else ""
