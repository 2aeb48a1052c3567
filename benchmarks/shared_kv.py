"""The savings of shared KV: python -m benchmarks.shared_kv [--model NAME] [--prompt N] [--json].

Each architecture (random weights) is exported with and without ``shared_kv``; both are measured by ``edgec bench`` on
this machine, in turns, each job in a separate process. With b the boundary and L the layers: KV bytes must be exactly
b/L of before, TTFT at most b/L + 0.03 of before, and the artifact as large as ``edgec plan`` says, within 3 %. Bytes
are those of the artifacts and of the states in their manifests; times are medians over all repetitions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.harness.grid import Grid
from benchmarks.harness.models import Q8L, QWEN3, SEED, SMOL, TINY, Model, write_config
from benchmarks.harness.subjects import EQUAL

if TYPE_CHECKING:
    from edgec.exporter.recipes.recipe import Recipe

MODELS = {model.name: model for model in (SMOL, QWEN3, Q8L, TINY)}
BOUNDARY, SLACK, SIZE_TOLERANCE = 0.625, 0.03, 0.03
ROUNDS = 3
_WAYS: Mapping[str, Mapping[str, Any]] = {"plain": {}, "shared": {"shared_kv": "reuse", "boundary": BOUNDARY}}
# The target by which ``edgec plan`` describes what the host executes.
_PLANNED_TARGET = "android-cpu"


@dataclass(frozen=True)
class Way:
    """The figures of one bundle.

    Attributes:
        file_bytes: size of the artifact.
        planned_bytes: size of the artifact by ``edgec plan``, estimated.
        kv_bytes: size of all states.
        ttft_ms: time to the first token, measured, one entry for each repetition.
    """

    file_bytes: int
    planned_bytes: int
    kv_bytes: int
    ttft_ms: tuple[float, ...]

    @property
    def size_error(self) -> float:
        """The error of the plan, as a share."""
        return self.planned_bytes / self.file_bytes - 1


@dataclass(frozen=True)
class Row:
    """The figures of one model of which ``kept`` of ``layers`` layers have their own keys and values."""

    model: str
    layers: int
    kept: int
    prompt: int
    threads: int
    plain: Way
    shared: Way

    @property
    def kv_ratio(self) -> float:
        """The KV bytes as a share of those without sharing."""
        return self.shared.kv_bytes / self.plain.kv_bytes

    @property
    def ttft_ratio(self) -> float:
        """The median time to first token as a share of that without sharing."""
        return median(self.shared.ttft_ms) / median(self.plain.ttft_ms)

    @property
    def least_ttft_ratio(self) -> float:
        """The ratio of the fastest repetitions, which other processes on the machine disturb least."""
        return min(self.shared.ttft_ms) / min(self.plain.ttft_ms)

    @property
    def goals(self) -> dict[str, bool]:
        """Whether each goal is met."""
        return {
            "kv": self.shared.kv_bytes * self.layers == self.plain.kv_bytes * self.kept,
            "ttft": self.ttft_ratio <= self.kept / self.layers + SLACK,
            "size": max(abs(way.size_error) for way in (self.plain, self.shared)) <= SIZE_TOLERANCE,
        }


def measure(model: Model, build: Path, prompt: int, threads: int, rounds: int = ROUNDS) -> Row:
    """Export both ways, then measure them in turns."""
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.recipes.recipe import with_changes
    from edgec.ir.kv_donors import kept_layers

    config = write_config(model, build / model.name)
    recipes = {way: with_changes(load_recipe(EQUAL), **changes) for way, changes in _WAYS.items()}
    bundles = {way: _exported(config, recipe, build / f"{model.name}-{way}.edgec") for way, recipe in recipes.items()}
    times: dict[str, list[float]] = {way: [] for way in bundles}
    for _ in range(rounds):
        for way, bundle in bundles.items():
            times[way] += _ttft(bundle, prompt, threads)
    layers = int(model.config["num_hidden_layers"])
    ways = {way: _way(bundle, model, recipes[way], times[way]) for way, bundle in bundles.items()}
    return Row(model.name, layers, kept_layers(BOUNDARY, layers), prompt, threads, **ways)


def _exported(config: Path, recipe: Recipe, out: Path) -> Path:
    import edgec

    return edgec.export(config, recipe=recipe, random_weights=True, seed=SEED, out=out, force=True)


def _ttft(bundle: Path, prompt: int, threads: int) -> list[float]:
    from edgec.runtime_py.bench.bench import bench
    from edgec.runtime_py.bench.record import RepetitionRecord

    result = bench(bundle, prompt_tokens=prompt, new_tokens=2, threads=threads)
    return [record.ttft_ms for record in result.records if isinstance(record, RepetitionRecord)]


def _way(bundle: Path, model: Model, recipe: Recipe, times: Sequence[float]) -> Way:
    from edgec.bundle.folder import open_bundle
    from edgec.devices.prediction.forecast import plan
    from edgec.devices.targets import load_target
    from edgec.exporter.dimensions.parameters import decoder_shape
    from edgec.exporter.recipes.recipe import for_backend
    from edgec.exporter.resolve.widths import recipe_widths

    opened = open_bundle(bundle, check_files=False)
    target = load_target(_PLANNED_TARGET)
    planned = plan(decoder_shape(model.config), target, recipe_widths(for_backend(recipe, target.backend)))
    states = opened.manifest.states
    size = opened.artifact_path.stat().st_size
    return Way(size, round(planned.footprint.size_bytes.mid), sum(state.bytes for state in states), tuple(times))


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    heads = (
        "model",
        "layers with their own",
        "KV, MB",
        "KV ratio (goal b/L)",
        "TTFT, ms",
        f"TTFT ratio (goal b/L + {SLACK:g})",
        "of the fastest repetitions",
        f"plan against file (goal {SIZE_TOLERANCE:.0%})",
        "goals",
    )
    return Grid("", heads, tuple(map(_cells, rows))).markdown(0)


def _cells(row: Row) -> tuple[str, ...]:
    kept = row.kept / row.layers
    missed = [name for name, met in row.goals.items() if not met]
    return (
        row.model,
        f"{row.kept} of {row.layers}",
        f"{row.plain.kv_bytes / 1e6:.2f} -> {row.shared.kv_bytes / 1e6:.2f}",
        f"{row.kv_ratio:.4f} ({kept:.4f})",
        f"{median(row.plain.ttft_ms):.1f} -> {median(row.shared.ttft_ms):.1f}",
        f"{row.ttft_ratio:.3f} ({kept + SLACK:.3f})",
        f"{min(row.plain.ttft_ms):.1f} -> {min(row.shared.ttft_ms):.1f}: {row.least_ttft_ratio:.3f}",
        f"{row.plain.size_error:+.1%}, {row.shared.size_error:+.1%}",
        f"missed: {', '.join(missed)}" if missed else "met",
    )


def main(write: Callable[[str], None] = print) -> None:
    """Export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", choices=tuple(MODELS), action="append", help="repeatable; default: smol, qwen3")
    parser.add_argument("--build", type=Path, default=Path("build/bench/shared_kv"))
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [MODELS[name] for name in options.model or (SMOL.name, QWEN3.name)]
    rows = [measure(model, options.build, options.prompt, options.threads, options.rounds) for model in chosen]
    plain_rows = [
        {
            **asdict(row),
            "kv_ratio": row.kv_ratio,
            "ttft_ratio": row.ttft_ratio,
            "least_ttft_ratio": row.least_ttft_ratio,
            **row.goals,
        }
        for row in rows
    ]
    write(
        json.dumps({"obtained": "measured; planned_bytes estimated", "rows": plain_rows})
        if options.json
        else table(rows)
    )


if __name__ == "__main__":
    main()
