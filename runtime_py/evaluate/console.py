"""The output of ``edgec eval`` on a terminal and into files."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

from edgec.bundle.atomic import typed_os_errors
from edgec.runtime_py.evaluate.evaluate import Bucket, Evaluation
from edgec.runtime_py.evaluate.intervals import Interval
from edgec.svg import Series, line_chart, stack
from edgec.terminal import WordTable, make_console


def report(evaluation: Evaluation, out: Path | None, as_json: bool) -> None:
    """Print the evaluation to stdout, and with ``out`` write it there as JSON, with a plot next to it.

    Raises:
        InputError: E121, ``out`` cannot be written.
    """
    if out is not None:
        with typed_os_errors(out):
            out.write_text(json.dumps(evaluation.to_json(), indent=2) + "\n")
            out.with_suffix(".svg").write_text(plot(evaluation))
    if as_json:
        print(json.dumps(evaluation.to_json()))
        return
    console = make_console()
    console.print(_table(evaluation))
    console.print("\n".join(summary_lines(evaluation)), soft_wrap=True)
    if out is not None:
        console.print(f"results: {out}\nplot: {out.with_suffix('.svg')}", soft_wrap=True)


def summary_lines(evaluation: Evaluation) -> list[str]:
    """Perplexity and bits per byte compared with the float model's, with 95 % intervals."""
    own, reference, ratio = evaluation.perplexity, evaluation.overall.reference_nll, evaluation.ratio
    lines = [f"perplexity {own.value:.4g}{_bounds(own)}"]
    if reference is not None and ratio is not None:
        lines[0] += f"; float model {exp(reference):.4g}: {ratio.value:.3f} times{_bounds(ratio)}"
    if evaluation.bits_per_byte is not None:
        floats = evaluation.reference_bits_per_byte
        lines.append(
            f"bits per byte {evaluation.bits_per_byte:.3f}" + (f"; float model {floats:.3f}" if floats else "")
        )
    return lines


def _bounds(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return " (the text is too short for an interval)"
    return f" (95 % interval {interval.low:.4g} to {interval.high:.4g})"


def _table(evaluation: Evaluation) -> WordTable:
    against = evaluation.reference or "unavailable (give --reference)"
    method = f"{evaluation.obtained}, teacher-forced; at: positions; loss and KL in nats"
    added = f"; adapter: {evaluation.adapter[:12]}" if evaluation.adapter else ""
    caption = f"{method}; text: {evaluation.text}; float model: {against}{added}"
    table = WordTable(title=evaluation.bundle, caption=caption)
    for column in ("at", "n", "perplexity", "nll", "float", "KL mean", "KL max", "top-1"):
        table.add_column(column, justify="right")
    for bucket in (*evaluation.buckets, evaluation.overall):
        table.add_row(*_row(bucket, bucket is evaluation.overall))
    return table


def _row(bucket: Bucket, overall: bool) -> tuple[str, ...]:
    values = (bucket.kl_mean, bucket.kl_max)
    shown = ["unavailable" if value is None else f"{value:.2g}" for value in values]
    floats = "unavailable" if bucket.reference_nll is None else f"{bucket.reference_nll:.4f}"
    top1 = "unavailable" if bucket.top1_agreement is None else f"{100 * bucket.top1_agreement:.1f} %"
    name = "all" if overall else f"{bucket.first}-{bucket.last}"
    return (name, str(bucket.predictions), f"{bucket.perplexity:.4g}", f"{bucket.nll:.4f}", floats, *shown, top1)


def plot(evaluation: Evaluation) -> str:
    """Plot loss and distance over the position, as one SVG document."""
    buckets = evaluation.buckets
    middle = tuple((b.first + b.last) / 2 for b in buckets)
    name = f"{evaluation.bundle} ({evaluation.obtained})"
    loss = [Series("bundle", middle, tuple(b.nll for b in buckets))]
    floats = tuple(b.reference_nll for b in buckets if b.reference_nll is not None)
    distance = tuple(b.kl_mean for b in buckets if b.kl_mean is not None)
    if len(floats) < len(buckets) or len(distance) < len(buckets):
        return stack([line_chart(f"Loss: {name}", "position", "nats per token", loss)])
    loss.append(Series("float model", middle, floats))
    kl = [Series("KL(float || bundle)", middle, distance)]
    charts = [line_chart(f"Loss: {name}", "position", "nats per token", loss)]
    return stack([*charts, line_chart(f"Distance from the float model: {name}", "position", "nats", kl)])
