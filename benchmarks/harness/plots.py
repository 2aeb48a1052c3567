"""Plots as self-contained SVG."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.results import Results, Speed
from edgec.svg import Series, labelled_chart, line_chart, stack

_FORWARD = "forward "
# Calls that read tokens, from one to a whole prompt; the other cases load, or decode at other positions.
_ONE_ROW = ("decode at 128", "last row 4", "last row 8", "last row 16", "prefill 128", "prefill 512")
_ALL_ROWS = ("decode at 128", "forward 2", "forward 4", "forward 8", "forward 16", "prefill 128", "prefill 512")


def context_plot(results: Results) -> str:
    """Plot the time to the first token, and the time of one decoded token, against context."""
    return stack(_context_charts(results))


def all_plots(results: Results) -> str:
    """The plot over contexts, and for each model the cost of a call against its tokens; "" where neither exists."""
    forward = [chart for model in results.models for chart in _forward_charts(results, model.name)]
    charts = [*(_context_charts(results) if results.contexts else []), *forward]
    return stack(charts) if charts else ""


def speed_plot(results: Results, model: str, subjects: Sequence[str], threads: int) -> str:
    """Plot tokens per second against the tokens of a call, one line for each runtime, with one row of logits each.

    Results from before there were such cases have as many rows as tokens.
    """
    lines = []
    reading = _ONE_ROW if any(s.case in _ONE_ROW[1:4] for s in results.speeds) else _ALL_ROWS
    for subject in subjects:
        read = {s.case: s for s in results.speeds if (s.model, s.subject, s.threads) == (model, subject, threads)}
        speeds = [read[case] for case in reading if case in read]
        rates = tuple(s.tokens / s.wall_ms.median * 1e3 for s in speeds)
        lines.append(Series(_short(subject), tuple(s.tokens for s in speeds), rates))
    title = f"Tokens per second on {results.machine.cpu}, {_threads(threads)}, measured"
    ticks = sorted({x for line in lines for x in line.x})
    return stack([labelled_chart(title, "tokens in one call", "tokens/s", lines, ticks)])


def _context_charts(results: Results) -> list[str]:
    curves = results.contexts
    ttft = [Series(_short(c.subject), tuple(c.contexts), tuple(s.median / 1e3 for s in c.ttft_ms)) for c in curves]
    decode = [Series(_short(c.subject), tuple(c.contexts), tuple(s.median for s in c.decode_ms)) for c in curves]
    where = f"{results.machine.cpu}, {_threads(curves[0].threads)}, measured"
    # The short ones lie too close together to be named.
    ticks = [curves[0].contexts[0], *(c for c in curves[0].contexts if 8 * c >= curves[0].contexts[-1])]
    return [
        line_chart(f"Time to first token ({where})", "prompt, tokens", "s", ttft, ticks),
        line_chart(f"Decoding ({where})", "context, tokens", "ms per token", decode, ticks),
    ]


def _forward_charts(results: Results, model: str) -> list[str]:
    """Chart the cost of verifying drafted tokens, one chart for each number of threads."""
    speeds = [s for s in results.speeds if s.model == model and s.case.startswith(_FORWARD)]
    return [
        line_chart(
            f"{model}: one call of k tokens, {_threads(threads)}, measured",
            "k",
            "ms",
            _forward_lines(speeds, threads),
            sorted({speed.tokens for speed in speeds}),
        )
        for threads in sorted({speed.threads for speed in speeds})
    ]


def _forward_lines(speeds: list[Speed], threads: int) -> list[Series]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for speed in speeds:
        if speed.threads == threads:
            lines.setdefault(speed.subject, []).append((speed.tokens, speed.wall_ms.median))
    return [
        Series(_short(name), tuple(tokens for tokens, _ in points), tuple(ms for _, ms in points))
        for name, points in lines.items()
    ]


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _short(subject: str) -> str:
    """A subject's name, shortened for the legend."""
    return subject.replace(", ", " ").replace(" KV", "").replace(" of 1024", "")
