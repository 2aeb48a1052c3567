"""The output of ``edgec run --score``: how likely each text is after the prompt, one line each, and one of timings."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from time import perf_counter

from edgec.devices.simulators import simulator_of
from edgec.runtime_py.model import Model
from edgec.runtime_py.scoring.scores import Score


def print_scores(model: Model, prompt: str, continuations: Sequence[str], as_json: bool) -> None:
    """Print the score of each continuation.

    Args:
        model: a decoder.
        prompt: the text before, as it is.
        continuations: at least one.
        as_json: a JSON object for each.

    Raises:
        InputError: as `Model.score`.
    """
    started = perf_counter()
    scores = model.score(prompt, continuations)
    seconds = perf_counter() - started
    for score in scores:
        print(json.dumps(asdict(score), ensure_ascii=False) if as_json else _line(score))
    simulator = simulator_of(model.bundle.manifest)
    took = f"simulated by {simulator}" if simulator else f"{seconds * 1e3:.1f} ms (measured)"
    tokens = sum(score.tokens for score in scores)
    print(f"{len(scores):,} texts, {tokens:,} tokens after the prompt, {took}", file=sys.stderr)


def _line(score: Score) -> str:
    """Nats, tokens, and the text as JSON writes it, so that blanks show."""
    counted = f"{score.tokens:,} token{'' if score.tokens == 1 else 's'}"
    likeliest = ", the likeliest" if score.greedy else ""
    return f"{score.logprob:.4f} nats  {json.dumps(score.text, ensure_ascii=False)}  ({counted}{likeliest})"
