"""Tokens per second of an artifact that this machine is the target of, measured briefly for the report's headline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgec.bundle.entry_points import Limits
from edgec.exporter.report.sections import ReportSamples
from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.executor import Executor
from edgec.runtime_py.engines.open_artifact import open_executor

_ROUNDS, _TOKENS, _PROMPT = 5, 32, 8
# A large model ends after fewer rounds.
_LIMIT_S = 4.0


def brief_speed(artifact: Path, limits: Limits, operators: tuple[str, ...]) -> ReportSamples | None:
    """Decode 32 tokens after 8, up to five times in at most about four seconds; None where the context is too short.

    It is a first impression: other work of the machine counts, and nothing waits for it to be idle as ``bench`` does.
    """
    if limits.context < _PROMPT + _TOKENS or limits.prefill_chunk < _PROMPT:
        return None
    executor = open_executor(choose_engine(operators), artifact)
    _decode(executor)  # memory is touched for the first time
    values = tuple(_TOKENS / seconds for seconds in _rounds(executor))
    return ReportSamples("decode_tokens_per_s", "tokens/s", values, "on this machine, measured during the export")


def _rounds(executor: Executor) -> Iterator[float]:
    begun = time.perf_counter()
    for _ in range(_ROUNDS):
        yield _decode(executor)
        if time.perf_counter() - begun > _LIMIT_S:
            return


def _decode(executor: Executor) -> float:
    """Seconds for the tokens after a prompt, each the likeliest after the last."""
    token = _step(executor, list(range(_PROMPT)), 0)
    begun = time.perf_counter()
    for position in range(_PROMPT, _PROMPT + _TOKENS):
        token = _step(executor, [token], position)
    return time.perf_counter() - begun


def _step(executor: Executor, tokens: list[int], start: int) -> int:
    places = np.arange(start, start + len(tokens))
    (logits, *_) = executor.run([np.array([tokens]), places, np.array([len(tokens) - 1])])
    return int(logits.argmax())
