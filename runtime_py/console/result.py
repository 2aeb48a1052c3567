"""What ``edgec run`` says of a text: one line of timings, or plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.speculation.speculator import SpeculationCounts


def as_json(result: Generation, load_ms: float, templated: bool) -> dict[str, Any]:
    """A generation as plain data; null is unavailable."""
    speeds = {
        "prefill_tokens_per_s": result.prefill_tokens_per_s,
        "decode_tokens_per_s": result.decode_tokens_per_s,
        "load_ms": load_ms,
    }
    counts = result.speculation
    drafts = asdict(counts) | {"tokens_per_call": counts.tokens_per_call} if counts else None
    plain = asdict(result)
    for name in ("value", "reasoning", "tool_calls"):  # Free text has none.
        if not plain[name] and (name != "value" or plain[name] is None):
            del plain[name]
    return plain | speeds | {"speculation": drafts} | {"chat_template": templated, "obtained": "measured"}


def without_speed(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A simulated answer with its times removed, because they are an interpreter's."""
    timed = ("ttft_ms", "token_ms", "load_ms", "prefill_tokens_per_s", "decode_tokens_per_s")
    return {**answer, **dict.fromkeys(timed), "obtained": "simulated"}


def simulated_summary(result: Generation, simulator: str) -> str:
    """One line that says what was computed; a simulator has no speed."""
    return (
        f"[simulated by {simulator}: prompt {result.prompt_tokens} tokens ({result.cached_tokens} cached), "
        f"{len(result.tokens)} new tokens, speed unavailable, finish: {result.finish_reason}]"
    )


def summary(result: Generation, load_ms: float) -> str:
    """One line that says what was computed and how fast, measured by wall clock."""
    decode = result.decode_tokens_per_s
    return (
        f"[measured: load {load_ms:.0f} ms, prompt {result.prompt_tokens} tokens ({result.cached_tokens} cached), "
        f"TTFT {result.ttft_ms:.1f} ms, prefill {result.prefill_tokens_per_s:.0f} tokens/s, "
        f"decode {'unavailable' if decode is None else f'{decode:.1f} tokens/s'}, "
        f"{len(result.tokens)} new tokens, {_speculation(result.speculation)}finish: {result.finish_reason}]"
    )


def _speculation(counts: SpeculationCounts | None) -> str:
    """How many drafted tokens were right; empty without drafts."""
    if counts is None or counts.acceptance is None or counts.tokens_per_call is None:
        return ""
    return f"{counts.tokens_per_call:.2f} per call ({counts.accepted} of {counts.drafted} drafted were right), "
