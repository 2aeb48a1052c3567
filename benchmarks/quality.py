"""The quality cost of compression on two trained models: python benchmarks/quality.py [--model NAME] [--json].

``--real`` and the options of real_models.py instead measure a chat model in every recipe beside llama.cpp's types.

Round-to-nearest against each algorithm at 8 to 1.58 bits, caches per context position, other tools' formats, pruning,
and the recovery by training with rounding. Held-out text, disjoint from the calibration text; every figure is measured
on this machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

if TYPE_CHECKING:
    from benchmarks.quality_parts.measure import Reference
    from benchmarks.quality_parts.subjects import Subject

Section = tuple[str, str, Iterable[Any], Callable[[Any], str]]
"""The title, the header, the rows and the function that prints a row."""
_ADAPTED = "benchmarks.quality_adapt"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    from benchmarks.quality_parts.subjects import SUBJECTS

    words = [*(sys.argv[1:] if arguments is None else arguments)]
    if "--real" in words:
        import_module("benchmarks.real_models").main([word for word in words if word != "--real"])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=[*SUBJECTS, "both"], default="both")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "adapted"], default=[*PARTS, "adapted"])
    parser.add_argument("--tokens", type=int, default=8192, help="held-out tokens")
    parser.add_argument("--known", type=int, default=16384, help="calibration tokens")
    parser.add_argument("--only", default="", help="rows of the weights' table that contain this text")
    parser.add_argument("--build", type=Path, default=Path("build/bench"), help="for GGUF files and plots")
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of tables")
    options = parser.parse_args(words)
    names = [*SUBJECTS] if options.model == "both" else [options.model]
    for name in names:
        _measure(SUBJECTS[name](options.tokens, options.known), options)
    if "adapted" in options.parts and find_spec(_ADAPTED):
        import_module(_ADAPTED).main(["--json"] if options.json else [])


def _measure(subject: Subject, options: argparse.Namespace) -> None:
    from benchmarks.quality_parts.measure import Reference

    reference = Reference.of(subject)
    about = f"{subject.evaluated:,} tokens of {subject.texts}; calibrated on {subject.calibrated:,} other tokens."
    for part in (part for part in options.parts if part in PARTS):
        for title, header, rows, line in PARTS[part](reference, options):
            if options.json:
                for row in rows:
                    print(json.dumps({"part": part, **asdict(row)}), flush=True)
                continue
            print(f"\n### {subject.name}: {title}\n\n{about}\n\n{header}\n|{'---|' * (header.count('|') - 1)}")
            for row in rows:
                print(line(row), flush=True)


def _weights(reference: Reference, options: argparse.Namespace) -> Iterator[Section]:
    from benchmarks.quality_parts.measure import HEADER, line
    from benchmarks.quality_parts.weights import rows

    yield "weights of the linear layers", HEADER, rows(reference, options.only), line


def _activations(reference: Reference, options: argparse.Namespace) -> Iterator[Section]:
    from benchmarks.quality_parts.activations import rows
    from benchmarks.quality_parts.measure import HEADER, line

    yield "inputs rounded to 8 bits as well", HEADER, rows(reference), line


def _cache(reference: Reference, options: argparse.Namespace) -> Iterator[Section]:
    from benchmarks.quality_parts.cache import HEADER, chart, line, rows

    cache_rows = rows(reference)
    options.build.mkdir(parents=True, exist_ok=True)
    (options.build / f"kv-cache-{reference.subject.name}.svg").write_text(chart(cache_rows))
    yield "KV cache by position", HEADER, cache_rows, line


def _formats(reference: Reference, options: argparse.Namespace) -> Iterator[Section]:
    from benchmarks.quality_parts.formats import fits_k_quants, k_quants, simulated
    from benchmarks.quality_parts.measure import HEADER, line

    yield "formats of others", HEADER, simulated(reference), line
    if fits_k_quants(reference.subject.folder):
        yield "llama.cpp, executed by llama.cpp", HEADER, k_quants(reference, options.build), line


def _pruning(reference: Reference, options: argparse.Namespace) -> Iterator[Section]:
    from benchmarks.quality_parts import measure, pruning

    yield "pruning", measure.HEADER, pruning.rows(reference), measure.line
    yield "gain of zeros on the CPU", pruning.HEADER, pruning.gains(reference), pruning.line


PARTS: Mapping[str, Callable[[Reference, argparse.Namespace], Iterator[Section]]] = {
    "weights": _weights,
    "activations": _activations,
    "cache": _cache,
    "formats": _formats,
    "pruning": _pruning,
}


if __name__ == "__main__":
    main()
