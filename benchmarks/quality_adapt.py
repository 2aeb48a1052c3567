"""The quality that training recovers: python -m benchmarks.quality_adapt [--model NAME] [--only TEXT] [--json].

Each form (few bits, shared keys and values, both) is adapted by ``edgec adapt`` and compared with the float model that
was trained as long, on the same text in the same order, and with the best float model that any number of steps gave:
perplexity on text that neither saw. The teacher is a float model trained on that text, for fewer steps where more do
harm. ``before`` is the form without training, rounded by the recipe's algorithm. Every run leaves its curve in
``training.json``; a stopped one continues when the script is called again. All figures are measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.svg import Series

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RECIPES = ROOT / "benchmarks" / "recipes"
BASELINE = "float"


@dataclass(frozen=True)
class Form:
    """A form that a model is adapted to.

    Attributes:
        name: the name in the table.
        recipe: the recipe's name or file.
        goal: the most by which perplexity may exceed the float model's, as a share.
        settings: settings of training that replace the subject's.
    """

    name: str
    recipe: str
    goal: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


FORMS = (
    Form("float", BASELINE),
    Form("8-bit", "8bit"),
    Form("4-bit", "4bit", 0.01, settings={"learning_rate": 3e-4}),
    Form("3-bit", str(RECIPES / "three-bit.toml")),
    Form("2-bit", "balanced2", 0.10),
    Form("ternary", str(RECIPES / "ternary.toml")),
    Form("shared KV, reuse", str(RECIPES / "shared-reuse.toml"), 0.05),
    Form("shared KV, project", str(RECIPES / "shared-project.toml"), 0.03),
    Form("2-bit, shared KV", str(ROOT / "examples/tiny-stories-two-bit/two-bit-shared.toml"), 0.12),
)


@dataclass(frozen=True)
class Subject:
    """A trained model, its text, and the settings of its training.

    Attributes:
        taught_by: the subject whose float model is the teacher; empty: its own.
        only: the forms that are trained; empty: all.
    """

    name: str
    model: Path
    texts: tuple[Path, ...]
    settings: Mapping[str, Any]
    taught_by: str = ""
    only: tuple[str, ...] = ()


STORIES = Subject(
    "stories260K",
    DATA / "models" / "stories260K",
    (DATA / "text" / "tinystories_1000.json",),
    {"steps": 500, "batch": 8, "length": 128, "learning_rate": 1e-3, "scale_rate": 1e-3, "text_loss": 0.0},
)
# Twenty passes over the text: by then the float model has begun to memorise it, so the short one is the teacher.
STORIES_LONG = replace(
    STORIES,
    name="stories260K-long",
    settings={**STORIES.settings, "steps": 8000},
    taught_by=STORIES.name,
    only=tuple(form.name for form in FORMS if form.goal is not None),
)
# Its text is that of `python examples/train_stories.py text --work build/stories`.
TINY_STORIES = Subject(
    "tiny-stories",
    ROOT / "examples" / "tiny-stories",
    (ROOT / "build" / "stories" / "stories.txt",),
    {"steps": 500, "batch": 4, "length": 256, "learning_rate": 3e-4, "scale_rate": 1e-3},
)
SUBJECTS = {subject.name: subject for subject in (STORIES, STORIES_LONG, TINY_STORIES)}
TEXT_LOSS = 0.5
EVALUATIONS = 20
_LEAST = 0.1


@dataclass(frozen=True)
class Row:
    """The figures of one form of one model.

    Attributes:
        before: nats per token of held-out text without training.
        after: nats per token with training.
        baseline: nats per token of the float model, trained as long.
        best: the lowest nats per token that a float model reached during training, here or as the teacher.
        tokens: number of tokens trained on.
        curve: (tokens, nats) during training.
    """

    model: str
    form: str
    before: float
    after: float
    baseline: float
    best: float
    tokens: int
    goal: float | None
    curve: tuple[tuple[int, float], ...]

    @property
    def excess(self) -> float:
        """By how much perplexity exceeds the float model's, as a share."""
        return math.exp(self.after - self.baseline) - 1

    @property
    def excess_over_best(self) -> float:
        """By how much perplexity exceeds the best float model's, as a share."""
        return math.exp(self.after - self.best) - 1

    @property
    def tokens_to_goal(self) -> int | None:
        """The tokens after which the goal was met for good, or None."""
        if self.goal is None:
            return None
        met = [nats <= self.baseline + math.log1p(self.goal) for _, nats in self.curve]
        first = len(met) - next((i for i, good in enumerate(reversed(met)) if not good), len(met))
        return self.curve[first][0] if first < len(met) else None


def measure(subject: Subject, build: Path, only: str = "", steps: int | None = None) -> Iterator[Row]:
    """Measure the float model and every form whose name contains ``only``."""
    baseline = trained(subject, FORMS[0], build, None, steps)
    guide = teacher(subject, build, steps)
    yield compared(subject, FORMS[0], baseline, baseline, guide)
    for form in FORMS[1:]:
        if only in form.name and (form.name in subject.only or not subject.only):
            yield compared(subject, form, trained(subject, form, build, guide, steps), baseline, guide)


def teacher(subject: Subject, build: Path, steps: int | None = None) -> Path:
    """The float model that the forms learn from."""
    return trained(SUBJECTS[subject.taught_by or subject.name], FORMS[0], build, None, steps)


def trained(subject: Subject, form: Form, build: Path, guide: Path | None, steps: int | None = None) -> Path:
    """The adapted model's folder, trained now unless it exists."""
    from edgec.exporter.adapt.adapt import adapt
    from edgec.exporter.adapt.settings import Settings

    folder = build / subject.name
    out = folder / form.name.replace(",", "").replace(" ", "-").lower()
    given = {"text_loss": TEXT_LOSS, **subject.settings, **form.settings}
    given["steps"] = steps or given["steps"]
    settings = Settings(
        evaluate_every=max(1, given["steps"] // EVALUATIONS),
        held_out_tokens=8192,
        checkpoint_every=100,
        **{**given, **({} if guide else {"text_loss": 1.0})},
    )
    if not out.is_dir():
        texts = [_plain(text, folder) for text in subject.texts]
        adapt(subject.model, recipe=form.recipe, text=texts, teacher=guide, out=out, settings=settings)
    return out


def compared(subject: Subject, form: Form, run: Path, baseline: Path, guide: Path) -> Row:
    """Compare a run with the float model that saw as many tokens, and with the best one."""
    curves = (json.loads((each / "training.json").read_text())["curve"] for each in (run, baseline, guide))
    curve, plain, taught = curves
    points = tuple((point["tokens"], point["held_out"]) for point in curve)
    last = curve[-1]
    if last["tokens"] != plain[-1]["tokens"]:
        seen = f"{run.name} saw {last['tokens']:,} tokens, {baseline.name} {plain[-1]['tokens']:,}"
        raise SystemExit(f"{seen}: not comparable; remove one of the folders to train it again")
    best = min(point["held_out"] for point in (*plain, *taught))
    figures = (curve[0]["held_out"], last["held_out"], plain[-1]["held_out"], best, last["tokens"])
    return Row(subject.name, form.name, *figures, form.goal, points)


def _plain(text: Path, folder: Path) -> Path:
    """Turn stories, which come as one JSON list, into the plain text that ``adapt`` reads."""
    if text.suffix != ".json":
        return text
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / f"{text.stem}.txt"
    plain.write_text("\n\n".join(json.loads(text.read_text())))
    return plain


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    heads = ["model", "form", "before, nats/token", "adapted", "float, as long", "perplexity over it"]
    heads += ["over the best float", "goal", "tokens to the goal", "tokens"]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *map(_line, rows)])


def _line(row: Row) -> str:
    goal = "" if row.goal is None else f"{row.goal:.0%}"
    reached = "" if row.goal is None else "not reached" if row.tokens_to_goal is None else f"{row.tokens_to_goal:,}"
    cells = [row.model, row.form, f"{row.before:.4f}", f"{row.after:.4f}", f"{row.baseline:.4f}"]
    cells += [f"{row.excess:+.1%}", f"{row.excess_over_best:+.1%}"]
    return f"| {' | '.join([*cells, goal, reached, f'{row.tokens:,}'])} |"


def plot(rows: Sequence[Row]) -> str:
    """Plot each form's distance from the best float model over the tokens of training: a chart for each model."""
    from edgec.svg import log_chart, stack

    charts = []
    forms = [row for row in rows if row.form != FORMS[0].name]
    for model in dict.fromkeys(row.model for row in forms):
        lines = [_distance(row) for row in forms if row.model == model]
        title = f"{model}: perplexity over the best float model's (measured)"
        charts.append(log_chart(title, "tokens", f"per cent; {_LEAST:g} where it is less", lines))
    return stack(charts)


def _distance(row: Row) -> Series:
    from edgec.svg import Series

    points = row.curve[1:]
    excess = (100 * math.expm1(nats - row.best) for _, nats in points)
    return Series(row.form, tuple(float(tokens) for tokens, _ in points), tuple(max(_LEAST, each) for each in excess))


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] = print) -> None:
    """Train the missing models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", choices=tuple(SUBJECTS), action="append", help="repeatable; default: all")
    parser.add_argument("--only", default="", help="forms whose name contains this text")
    parser.add_argument("--steps", type=int, help="updates, in place of the model's own")
    parser.add_argument("--build", type=Path, default=Path("build/bench/adapt"))
    parser.add_argument("--plot", type=Path, help="write the learning curves as SVG")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [SUBJECTS[name] for name in options.model or SUBJECTS]
    rows = [row for subject in chosen for row in measure(subject, options.build, options.only, options.steps)]
    if options.plot:
        options.plot.write_text(plot(rows))
    plain_rows = [{**asdict(row), "excess": row.excess, "tokens_to_goal": row.tokens_to_goal} for row in rows]
    write(json.dumps({"obtained": "measured", "rows": plain_rows}) if options.json else table(rows))


if __name__ == "__main__":
    main()
