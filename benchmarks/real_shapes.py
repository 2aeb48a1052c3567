"""Published hybrids and mixtures of experts, exported with random weights: python -m benchmarks.real_shapes [NAME ...].

Each is exported in 4 bits for this machine in a process of its own, layers cut where memory or time ask for it, and
then runs in ``edgec-runner``: what the export took, and the memory of running it against the forecast of ``edgec
plan`` before it existed. Forecasts are estimated; everything else is measured. Processor seconds count all threads.
With ``--peers``, llama.cpp reads and writes as many tokens with the same shape in Q4_0, where it knows the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.export_cost import Meter, architecture, cpu_seconds
from benchmarks.forecasts import export_peak_forecast, planned_footprint
from benchmarks.harness.artifacts import Workshop
from benchmarks.harness.grid import Grid
from benchmarks.harness.machine import identity
from benchmarks.harness.models import Model
from benchmarks.harness.processes import run_worker
from benchmarks.harness.subjects import LLAMA, llama

CONTEXT, PROMPT, NEW_TOKENS = 2048, 200, 24


@dataclass(frozen=True)
class Shape:
    """A file of ``architectures/``; ``layers`` keeps only the first ones, ``in_llama_cpp`` has a form for that peer."""

    name: str
    layers: int | None = None
    changes: tuple[tuple[str, Any], ...] = ()
    in_llama_cpp: bool = True

    @property
    def title(self) -> str:
        """The name in the table."""
        return self.name + (f", {self.layers} layers" if self.layers else "")

    @property
    def model(self) -> Model:
        """The same for the peers of the benchmark."""
        return Model(self.title.replace(", ", "-").replace(" ", "-"), self.name, self.title, self.layers, self.changes)

    def config(self) -> dict[str, Any]:
        """The transformers config."""
        told: dict[str, Any] = json.loads(architecture(self.name).read_text())
        layers = self.layers or told["num_hidden_layers"]
        kinds = {"layer_types": told["layer_types"][:layers]} if "layer_types" in told else {}
        return {**told, **kinds, "num_hidden_layers": layers, **dict(self.changes)}


# Gemma's last layers read the caches of earlier ones: half of those that are kept, as in the whole model.
SHAPES = (
    Shape("lfm2-1.2b"),
    Shape("qwen3.5-0.8b"),
    Shape("gemma4-e2b", 10, (("num_kv_shared_layers", 5),), in_llama_cpp=False),
    Shape("qwen3-30b-a3b", 2),
    Shape("gpt-oss-20b", 2),
)


@dataclass(frozen=True)
class Row:
    """One shape. All but ``planned_*`` and ``forecast_peak_bytes`` is measured.

    Attributes:
        cpu_s: of the export.
        peak_bytes: most resident memory of the export, and what it forecast before it began.
        planned_bytes: low and high end of the forecast of memory when it runs.
        running_bytes: most resident memory of the runner beyond what it took before the load.
        active_bytes: of the artifact's weights that one token reads.
        state_bytes: of what recurrences remember, as exported and as planned.
        peer_bytes: llama.cpp's file, and what it takes beyond its idle process; None where it was not asked.
    """

    shape: str
    cpu_s: float
    peak_bytes: int | None
    forecast_peak_bytes: int
    artifact_bytes: int
    planned_artifact_bytes: int
    planned_bytes: tuple[int, int]
    running_bytes: int
    active_bytes: int | None
    state_bytes: int
    planned_state_bytes: int
    peer_bytes: tuple[int, int] | None = None

    @property
    def within(self) -> bool:
        """Whether running it takes no more than the high end of the forecast."""
        return self.running_bytes <= self.planned_bytes[1]


def measured(shape: Shape, folder: Path) -> Row:
    """Export and run a shape in this process; call it once per process."""
    from edgec import export
    from edgec.bundle.folder import read_manifest

    meter, config, out = Meter(), folder / "config.json", folder / "model.edgec"
    config.write_text(json.dumps(shape.config()))
    forecast = export_peak_forecast(config, "4bit")
    export(config, recipe="4bit", context=CONTEXT, out=out, random_weights=True, progress=meter)
    cpu_s, manifest = cpu_seconds(), read_manifest(out)
    peaks = [cost.peak_bytes for cost in meter.costs if cost.peak_bytes is not None]
    planned, ledger = planned_footprint(shape.config(), "4bit", CONTEXT), manifest.ledger
    assert ledger is not None
    recurrent = [state for state in manifest.states if state.layout == "recurrent"]
    return Row(
        shape=shape.title,
        cpu_s=round(cpu_s, 1),
        peak_bytes=max(peaks, default=None),
        forecast_peak_bytes=forecast,
        artifact_bytes=ledger.artifact_bytes,
        planned_artifact_bytes=round(planned.size_bytes.high),
        planned_bytes=(round(planned.peak_bytes.low), round(planned.peak_bytes.high)),
        running_bytes=_running_bytes(out, manifest.model.vocab_size or 2),
        active_bytes=ledger.active_bytes,
        state_bytes=sum(state.bytes for state in recurrent),
        planned_state_bytes=planned.state_bytes,
    )


def _running_bytes(bundle: Path, vocab_size: int) -> int:
    """The most memory of the runner, which reads a prompt and writes some tokens, beyond that before the load."""
    from edgec.engine.compile.build import build_runner

    tokens = ",".join(str(token * 7919 % vocab_size) for token in range(PROMPT))
    command = [str(build_runner().runner), "--bundle", str(bundle), "--tokens", tokens]
    told = subprocess.run([*command, "--new-tokens", str(NEW_TOKENS)], check=True, stdout=subprocess.PIPE).stdout
    loaded, generated = (json.loads(line) for line in told.decode().splitlines()[:2])
    return int(generated["peak_rss_bytes"] - loaded["baseline_rss_bytes"])


def _with_peer(row: Row, shape: Shape, shop: Workshop) -> Row:
    """The row with the figures of llama.cpp, which gets a model of the same shape and as many tokens."""
    if not shape.in_llama_cpp:
        return row
    made = shop.made(llama(shape.model, "llama.cpp, all Q4_0", "equal"))
    job = {"kind": "memory", "artifact": str(made.path), "threads": 1, "context": CONTEXT}
    told = run_worker(LLAMA, {**job, "prompt_tokens": PROMPT, "new_tokens": NEW_TOKENS}, python=shop.peers)
    return replace(row, peer_bytes=(made.file_bytes, int(told["peak_bytes"] - told["idle_bytes"])))


def _in_own_process(shape: Shape) -> Row:
    command = [sys.executable, "-m", "benchmarks.real_shapes", shape.name, "--here"]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    return Row(**{**told, "planned_bytes": tuple(told["planned_bytes"])})


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, in MB."""
    heads = (
        "4 bits",
        "export, CPU s",
        "its peak (forecast), MB",
        "artifact (planned, at most)",
        "a token reads",
        "states (planned)",
        "running (planned)",
        "within",
        "llama.cpp's file, running",
    )
    return Grid("", heads, tuple(map(_cells, rows))).markdown(0)


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.planned_bytes
    return (
        row.shape,
        f"{row.cpu_s:.0f}",
        f"{_mb(row.peak_bytes)} ({_mb(row.forecast_peak_bytes)})",
        f"{_mb(row.artifact_bytes)} ({_mb(row.planned_artifact_bytes)})",
        _mb(row.active_bytes),
        f"{_mb(row.state_bytes)} ({_mb(row.planned_state_bytes)})",
        f"{_mb(row.running_bytes)} ({_mb(low)} to {_mb(high)})",
        "yes" if row.within else "no",
        "not measured" if row.peer_bytes is None else ", ".join(map(_mb, row.peer_bytes)),
    )


def _mb(size: int | None) -> str:
    return "unavailable" if size is None else f"{size / 1e6:,.1f}"


def main(write: Callable[[str], None] = print) -> None:
    """Export, run, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=", ".join(shape.name for shape in SHAPES))
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--peers", action="store_true", help="also llama.cpp, whose files take gigabytes")
    parser.add_argument("--build", type=Path, default=Path("build/bench"), help="where its environment and files are")
    parser.add_argument("--here", action="store_true", help="measure one in this process and print JSON")
    options = parser.parse_args()
    shapes = [shape for shape in SHAPES if not options.names or shape.name in options.names]
    if options.here:
        with TemporaryDirectory() as folder:
            write(json.dumps(asdict(measured(shapes[0], Path(folder)))))
        return
    rows = [_in_own_process(shape) for shape in shapes]
    if options.peers:
        shop = Workshop(options.build, identity())
        rows = [_with_peer(row, shape, shop) for row, shape in zip(rows, shapes, strict=True)]
    write(table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
