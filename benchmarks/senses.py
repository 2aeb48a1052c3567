"""Vision, audio, encoders beside other runtimes: python -m benchmarks.senses [--only NAME ...] [--rounds N] [--json].

Whisper (a window of 30 s, then 64 tokens), ViT-B/16, MiniLM-L6 and SmolVLM-256M (an image to its first token), with
random weights: edgec's bundles for this machine in float, 8 and 4 bits, ONNX Runtime in float and 8 bits, and for
Whisper CTranslate2 in float and 8 bits. All get the same tensors and inputs; before anything is timed the outputs of
each are compared with transformers', and what differs by more than a tolerance is not timed. Subjects take turns, each
measurement in a fresh process; docs/benchmarking.md says what the cases are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.machine import host_facts
from benchmarks.harness.store import Store
from benchmarks.senses_parts.models import MODELS, TINY, SenseModel, with_repeats
from benchmarks.senses_parts.result import SenseResult
from benchmarks.senses_parts.run import Comparison, Settings
from benchmarks.senses_parts.tables import markdown, plot


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] = print) -> int:
    """Make, measure, print; returns 1 where something could not be measured that is not an optional peer."""
    given = _options(arguments)
    if given.table:
        write(markdown(SenseResult.model_validate_json(given.table.read_text())))
        return 0
    build, load_before = given.build.resolve(), host_facts().load_average
    os.environ["EDGEC_CACHE_DIR"] = str(build / "cache")
    kept = build / "senses"
    if not given.resume:
        shutil.rmtree(kept, ignore_errors=True)
    settings = Settings(
        Workshop(build, _identity()), _models(given), given.rounds, tuple(given.threads), not given.no_peers, _say
    )
    comparison = Comparison(settings, Store(kept))
    if given.prepare:
        comparison.prepare()
        for failure in comparison.failures:
            write(f"{failure.part}: {failure.what}")
        return 1 if comparison.failures else 0
    result = comparison.run(load_before)
    if given.plot:
        given.plot.write_text(plot(result))
    write(result.model_dump_json(indent=1) if given.json else markdown(result))
    return 1 if any(not failure.optional for failure in result.failures) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [model.name for model in (*MODELS, *TINY)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.senses", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, help="how often a process times each case (by default 2 to 5 times)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--no-peers", action="store_true", help="edgec alone")
    parser.add_argument("--quick", action="store_true", help="tiny models: checks the harness, measures nothing")
    parser.add_argument("--prepare", action="store_true", help="make environments and artifacts, and measure nothing")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run measured")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, help="write a chart of the ratios to this SVG file")
    parser.add_argument("--table", type=Path, help="print the tables of a saved JSON result, and measure nothing")
    parser.add_argument("--build", type=Path, default=Path("build/bench"))
    return parser.parse_args(arguments)


def _models(given: argparse.Namespace) -> tuple[SenseModel, ...]:
    every = TINY if given.quick else MODELS
    chosen = [model for model in (*MODELS, *TINY) if model.name in given.only] if given.only else every
    return tuple(with_repeats(model, given.repeats) if given.repeats else model for model in chosen)


def _identity() -> str:
    """A digest of what makes edgec's artifacts; how they are measured does not change them."""
    from edgec.exporter.provenance import source_digest

    stages = ("encoder_decoder", "module", "vision_language")
    modules = ("edgec.exporter.api", *(f"edgec.exporter.stages.{name}" for name in stages))
    return source_digest(modules, without=())[:12]


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
