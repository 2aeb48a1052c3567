"""The settings that matter for training at two bits: python -m benchmarks.quality_ablation [--model NAME] [--json].

The 2-bit form of ``benchmarks.quality_adapt``, trained for few steps, one setting changed at a time against the first
row. The teacher is that benchmark's teacher, trained now unless it exists. Held-out loss, measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.quality_adapt import RECIPES, SUBJECTS, Form, Subject, teacher, trained

STEPS = 200
_TWO_BITS = "balanced2"
_FIRST = {"text_loss": 0.5}
VARIATIONS = (
    Form("half teacher, half text", _TWO_BITS),
    Form("weights learn 3 times faster", _TWO_BITS, settings={"learning_rate": 3e-3}),
    Form("weights learn 3 times slower", _TWO_BITS, settings={"learning_rate": 3e-4}),
    Form("scales learn 10 times slower", _TWO_BITS, settings={"scale_rate": 1e-4}),
    Form("scales learn 5 times faster", _TWO_BITS, settings={"scale_rate": 5e-3}),
    Form("teacher alone", _TWO_BITS, settings={"text_loss": 0.0}),
    Form("text alone", _TWO_BITS, settings={"text_loss": 1.0}),
    Form("attention outputs matched", _TWO_BITS, settings={"hidden_loss": 0.5}),
    Form("average of the weights, 0.98", _TWO_BITS, settings={"ema": 0.98}),
    Form("half the batch, twice the steps", _TWO_BITS, settings={"batch": 4, "steps": 2 * STEPS}),
    Form("adapters of rank 16 in place of the weights", _TWO_BITS, settings={"low_rank": 16, "merge": True}),
    Form("down projections in 8 bits", str(RECIPES / "two-bit-down8.toml")),
    Form("attention in 8 bits", str(RECIPES / "two-bit-attention8.toml")),
    Form("4 integers in groups of 32", str(RECIPES / "two-bit-groups.toml")),
)


@dataclass(frozen=True)
class Row:
    """The figures of one variation: nats per token of held-out text before and after training."""

    model: str
    name: str
    before: float
    after: float
    tokens: int


def measure(subject: Subject, build: Path, only: str = "") -> Iterator[Row]:
    """Measure every variation whose name contains ``only``."""
    guide = teacher(subject, build)
    changed = (replace(form, settings={**_FIRST, **form.settings}) for form in VARIATIONS)
    for form in changed:
        if only in form.name:
            folder = trained(subject, form, build / "ablation", guide, form.settings.get("steps", STEPS))
            curve = json.loads((folder / "training.json").read_text())["curve"]
            yield Row(subject.name, form.name, curve[0]["held_out"], curve[-1]["held_out"], curve[-1]["tokens"])


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table; perplexity against the first row of the same model."""
    first: dict[str, float] = {}
    lines = ["| model | changed | nats/token | perplexity | tokens |", "|---|---|---|---|---|"]
    for row in rows:
        change = math.exp(row.after - first.setdefault(row.model, row.after)) - 1
        lines.append(f"| {row.model} | {row.name} | {row.after:.4f} | {change:+.1%} | {row.tokens:,} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] = print) -> None:
    """Train the missing models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", choices=tuple(SUBJECTS), action="append", help="repeatable; default: stories260K")
    parser.add_argument("--only", default="", help="variations whose name contains this text")
    parser.add_argument("--build", type=Path, default=Path("build/bench/adapt"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [SUBJECTS[name] for name in options.model or ("stories260K",)]
    rows = [row for subject in chosen for row in measure(subject, options.build, options.only)]
    result = {"obtained": "measured", "rows": [asdict(row) for row in rows]}
    write(json.dumps(result) if options.json else table(rows))


if __name__ == "__main__":
    main()
