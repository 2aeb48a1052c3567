"""Plots as self-contained SVG."""

from __future__ import annotations

from benchmarks.harness.results import Results
from edgec.runtime_py.svg import Series, line_chart, stack


def context_plot(results: Results) -> str:
    """Time to first token, and time for one decoded token, against context."""
    curves = results.contexts
    ttft = [Series(_short(c.subject), tuple(c.contexts), tuple(s.median / 1e3 for s in c.ttft_ms)) for c in curves]
    decode = [Series(_short(c.subject), tuple(c.contexts), tuple(s.median for s in c.decode_ms)) for c in curves]
    where = f"{results.machine.cpu}, {curves[0].threads} threads, measured"
    return stack(
        [
            line_chart(f"Time to first token ({where})", "prompt, tokens", "s", ttft),
            line_chart(f"Decoding ({where})", "context, tokens", "ms per token", decode),
        ]
    )


def _short(subject: str) -> str:
    """For the legend."""
    return subject.replace(", ", " ").replace(" KV", "").replace(" of 1024", "")
