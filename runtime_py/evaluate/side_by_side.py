"""Several bundles of one model side by side: what each takes, how alike it is to the float model, how fast it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from edgec.bundle.atomic import typed_os_errors
from edgec.devices.simulators import simulator_of
from edgec.errors import InputError
from edgec.quiet import quiet
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.evaluate.reference import OpenReference
from edgec.runtime_py.model import Model, load
from edgec.svg import Points, point_chart, stack
from edgec.terminal import WordTable, make_console

GENERATIONS, NEW_TOKENS = 5, 64
PROMPT = "The"
FIGURES = ("MB", "same top-1", "perplexity", "tokens/s")


@dataclass(frozen=True)
class SideBySide:
    """One bundle; None is unavailable, everything else measured on this machine.

    Attributes:
        bundle: its path.
        name: in tables and charts.
        size_bytes: of the artifact.
        perplexity: on the text.
        kl_mean: mean KL(float || bundle) there, nats.
        same_top1: share of places with the float model's most likely token, 0..1.
        tokens_per_s: while generating 64 tokens, the median of five; None where an interpreter stands in for the unit.
    """

    bundle: str
    name: str
    size_bytes: int
    perplexity: float | None
    kl_mean: float | None
    same_top1: float | None
    tokens_per_s: float | None

    def cells(self) -> list[str]:
        """The figures as a table shows them, in the order of `FIGURES`."""
        share = None if self.same_top1 is None else 100 * self.same_top1
        figures = ((share, ".0f", " %"), (self.perplexity, ".4g", ""), (self.tokens_per_s, ",.0f", ""))
        shown = ["unavailable" if value is None else f"{value:{form}}{unit}" for value, form, unit in figures]
        return [f"{self.size_bytes / 1e6:.1f}", *shown]


@quiet()
def side_by_side(
    bundles: Sequence[Path],
    text: Path | None = None,
    *,
    reference: str | None = None,
    tokens: int = 2048,
    threads: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    opens: OpenReference | None = None,
) -> list[SideBySide]:
    """Measure bundles of language models one after the other.

    Args:
        bundles: folders, two or more.
        text: UTF-8 text for the quality; None leaves it out.
        reference: folder or hub id of the float model; None takes each bundle's source where that is a local folder.
        tokens: the most tokens of the text to use.
        threads: CPU threads of the runtime.
        say: told about the progress.
        opens: opens the float model; None: transformers alone, which reads no GGUF file.

    Raises:
        InputError: E130 to E137, E155 for a bundle; E164 for the text; E165 for the reference.
    """
    measured = []
    for place in bundles:
        say(f"measuring {place.name}")
        measured.append(_measured(place, text, reference, tokens, threads, opens))
    return measured


def _measured(
    place: Path, text: Path | None, reference: str | None, tokens: int, threads: int | None, opens: OpenReference | None
) -> SideBySide:
    model = load(place, threads)
    speed = None if simulator_of(model.bundle.manifest) else _speed(model)
    score = None
    if text:
        score = evaluate(place, text, tokens=tokens, reference=reference, threads=threads, opens=opens).overall
    return SideBySide(
        str(place),
        f"{model.bundle.manifest.recipe_name}, {model.bundle.manifest.target}",
        sum(path.stat().st_size for path in model.bundle.artifact_files),
        score.perplexity if score else None,
        score.kl_mean if score else None,
        score.top1_agreement if score else None,
        speed,
    )


def _speed(model: Model) -> float | None:
    made = [model.generate(PROMPT, max_new_tokens=NEW_TOKENS).decode_tokens_per_s for _ in range(GENERATIONS)]
    speeds = [speed for speed in made if speed is not None]
    return median(speeds) if speeds else None


def report(rows: Sequence[SideBySide], chart: Path | None, as_json: bool) -> None:
    """Print the table to stdout, and with ``chart`` write quality against size there (SVG).

    Raises:
        InputError: E121, the chart cannot be written; E164, there is no quality to draw.
    """
    if chart is not None:
        drawn = quality_chart(rows)
        with typed_os_errors(chart):
            chart.write_text(drawn)
    if as_json:
        print(json.dumps({"bundles": [asdict(row) for row in rows], "chart": str(chart) if chart else None}))
        return
    console = make_console()
    console.print(side_by_side_table(rows))
    if chart is not None:
        console.print(f"chart: {chart}", soft_wrap=True, markup=False)


def side_by_side_table(rows: Sequence[SideBySide]) -> WordTable:
    """One row per bundle."""
    table = WordTable("bundle", caption="measured here; same top-1: as the float model")
    for head in FIGURES:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(Path(row.bundle).name, *row.cells())
    return table


def quality_chart(rows: Sequence[SideBySide]) -> str:
    """Perplexity against size on logarithmic axes, each point labelled by its recipe, as one SVG document.

    Raises:
        InputError: E164, no bundle has a perplexity.
    """
    places = [(row.size_bytes / 1e6, row.perplexity, row.name.partition(",")[0]) for row in rows]
    known = tuple((megabytes, quality, name) for megabytes, quality, name in places if quality is not None)
    if not known:
        raise InputError("There are no quality figures.", where="--chart", fix="give a text with --text", code="E164")
    points = Points("bundles", tuple(one[:2] for one in known), tuple(one[2] for one in known), ())
    return stack(
        [point_chart("Quality against size (measured)", "artifact, MB", "perplexity (lower is better)", [points])]
    )
