"""The page of supported models, written from the outcomes of the coverage benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.coverage_parts.check import COLUMNS, CONTEXT, Outcome
from benchmarks.coverage_parts.spoken import NEW_TOKENS

_TITLES = {
    "equal": "Equal",
    "refused": "Refused",
    "different": "Different tokens",
    "failed": "Failed",
    "timeout": "Not finished in time",
    "no config": "Without a tiny configuration",
    "not run": "Not run",
}
_GOOD = ("equal", "passed")
# Title of a column -> heading and explanation.
_HOST_COLUMNS = {
    "host 4bit": (
        "In 4 bits, against the rounded graph's own tokens",
        """The graph reads what the bundle said, and each of the 24 tokens must have the best logit, or tie with it as
on `host`. Activations are rounded to 8 bits: where one lies midway between two of them, the last bits of a sum
decide, and in rows as narrow as these all that follows moves by a percent. Where tokens differ, the graph is given
the bundle's activations wherever it rounds them. Such a type is equal if the graph then says the same, and if its own
activations agreed with each of these to within 1e-3 of the largest in the row, half of the rows to within 5e-5.""",
    ),
    "host wider": (
        "Half as wide again, other weights",
        "As on `host`, with half as many heads again and rows half as wide again, and another seed.",
    ),
}


def page(kinds: Sequence[str], outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """docs/models.md: counts first, then every type with its result on ``host``, then the other targets."""
    rows = [outcomes.get((kind, "host"), Outcome(kind=kind, result="not run")) for kind in sorted(kinds)]
    counts = Counter(row.result for row in rows)
    summary = [f"| {_TITLES[result].lower()} | {counts[result]} |" for result in _TITLES if counts[result]]
    parts = [_HEAD, "| result | types |", "|---|---|", *summary, ""]
    for result, title in _TITLES.items():
        parts += _section(title, [row for row in rows if row.result == result])
    return "\n".join(parts + _variations(kinds, outcomes) + _targets(sorted(kinds), outcomes))


def _variations(kinds: Sequence[str], outcomes: Mapping[tuple[str, str], Outcome]) -> list[str]:
    """What the other columns of ``host`` found: counts, and each type that is not plainly equal."""
    lines = []
    for title, (heading, about) in _HOST_COLUMNS.items():
        rows = sorted((o for (_, at), o in outcomes.items() if at == title), key=lambda row: row.kind)
        counts = Counter(row.result for row in rows)
        told = ", ".join(f"{counts[result]} {name.lower()}" for result, name in _TITLES.items() if counts[result])
        rest = [f"| `{row.kind}` | {cell(row)} | {plain(row.reason)} |" for row in rows if row.reason]
        if rows:
            head = ["| type | result | reason |", "|---|---|---|"] if rest else []
            run = f"Of {len(rows)} types" + (f" that were run, of {len(kinds)}" if len(rows) < len(kinds) else "")
            lines += [f"## {heading}", "", about, "", f"{run}: {told}.", "", *head, *rest, ""]
    return lines


def _targets(kinds: Sequence[str], outcomes: Mapping[tuple[str, str], Outcome]) -> list[str]:
    """Every type that was exported for another target than ``host``, a column each."""
    titles = [title for title in COLUMNS if title != "host" and title not in _HOST_COLUMNS]
    run = [kind for kind in kinds if any((kind, title) in outcomes for title in titles)]
    if not run:
        return []
    good = {title: [o for (_, at), o in outcomes.items() if at == title and o.result in _GOOD] for title in titles}
    lines = [f"| `{kind}` | {' | '.join(cell(outcomes.get((kind, title))) for title in titles)} |" for kind in run]
    counts = [f"{len(good[title])} of {sum(at == title for _, at in outcomes)}" for title in titles]
    head = [f"| type | {' | '.join(f'`{title}`' for title in titles)} |", "|---" * (len(titles) + 1) + "|"]
    return [_TARGETS, *head, f"| all that were run | {' | '.join(counts)} |", *lines, ""]


def cell(outcome: Outcome | None) -> str:
    """A result as a cell of a table; empty where a type was not run."""
    if outcome is None:
        return ""
    return f"{outcome.result} {outcome.code}".strip()


def _section(title: str, rows: Sequence[Outcome]) -> list[str]:
    if not rows:
        return []
    if not any(row.reason for row in rows):
        return [f"## {title}", "", ", ".join(f"`{row.kind}`" for row in rows), ""]
    lines = [f"| `{row.kind}` | {row.code} | {plain(row.reason)} |" for row in rows]
    return [f"## {title}", "", "| type | code | reason |", "|---|---|---|", *lines, ""]


def plain(reason: str) -> str:
    """A reason as a cell of a table: no columns, no markup, no names of files on the machine that ran it."""
    words = [word if "/tmp/" not in word else "the model" for word in reason.split()]
    return " ".join(words).replace("|", "/").replace("<", "&lt;").replace("`", "'").replace("[", "(").replace("]", ")")


_HEAD = f"""# Models

Every model type for which transformers has a class that generates text, tested as a tiny model with random weights:
exported for `host` without rounding at a context of {CONTEXT}, then {NEW_TOKENS} greedy tokens compared with
transformers' own `generate` (eager attention, float32). "Equal" means that every token agrees with `generate` or, where
that numbers positions differently, with the model's own forward. A refusal has a code of [errors.md](errors.md).
Layers that choose keys by an indexer keep as many here as the context has; where a context has more, E740 says so.
Written by `python -m benchmarks.coverage --table` from `benchmarks/coverage_parts/outcomes.json`.
"""

_TARGETS = """## Phones and other runtimes

The same models, without rounding, for the other targets: `onnx` is ONNX Runtime for `android-cpu`, `iphone pte`
ExecuTorch's Core ML delegate, `iphone mlpackage` a Core ML package, both in float16. "Equal" is as above, from the
executed artifact: edgec's interpreter stands for Core ML here. `snapdragon` is `snapdragon-8-elite` at `8bit`: "passed"
means that the context, executed in Qualcomm's emulation, kept the ladder's budgets. A code says why a target was
refused; an empty cell was not run. No phone has run these.
"""
