"""The cost of an export, by stage: python benchmarks/export_cost.py smollm2-135m [qwen3-0.6b ...] [--json FILE].

Each architecture is exported with seeded random weights in a separate process, with an empty stage cache. CPU time
counts all threads and child processes; the peak is the kernel's own mark of resident memory, reset at each stage.
With ``--gguf Q4_0`` the weights are first written to a file of that type, which is then exported as it is; of mapped
files the pages that were read count as resident. All numbers are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

ARCHITECTURES = Path(__file__).parent / "architectures"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclass(frozen=True)
class Cost:
    """The cost of one stage, or of one step inside a stage.

    Attributes:
        stage: the pipeline's name of it.
        step: the step inside it (a pass), or empty.
        cpu_s: user and system time of all threads and of finished child processes.
        wall_s: seconds on the clock.
        peak_bytes: most resident memory while it ran; None where the kernel does not report it.
        resident_bytes: resident memory at its end; None where the kernel does not report it.
    """

    stage: str
    step: str
    cpu_s: float
    wall_s: float
    peak_bytes: int | None
    resident_bytes: int | None


@dataclass(frozen=True)
class Settings:
    """How to export.

    Attributes:
        recipe, target: names.
        threads: torch's threads; the exporter's own work is single-threaded.
        context: positions to serve; None for the recipe's own.
        layers: how many of the first layers to keep; None for all.
        gguf: GGUF's name of the type that the weights are stored in; None: they are made in memory.
    """

    recipe: str = "4bit"
    target: str = "host"
    threads: int = 1
    context: int | None = None
    layers: int | None = None
    gguf: str | None = None

    @property
    def arguments(self) -> list[str]:
        """These settings as this script takes them."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return [text for name, value in given.items() for text in (f"--{name}", str(value))]


@dataclass(frozen=True)
class ExportCost:
    """The cost of one export.

    Attributes:
        bf16_bytes: two bytes for each weight of the model, tied ones counted once.
        peak_bytes: most resident memory of the whole process.
        file_bytes: of the GGUF file that was exported; 0 where there was none.
    """

    model: str
    recipe: str
    target: str
    threads: int
    context: int | None
    costs: tuple[Cost, ...]
    cpu_s: float
    wall_s: float
    peak_bytes: int | None
    bf16_bytes: int
    artifact_bytes: int
    file_bytes: int = 0

    @property
    def limit_bytes(self) -> float:
        """What an export may take: by the bytes of the file, or of random weights in bfloat16."""
        return (1.5 * self.file_bytes if self.file_bytes else 1.3 * self.bf16_bytes) + 1.5e9


@dataclass
class Meter:
    """OneSlot the exporter's progress events into costs."""

    costs: list[Cost] = field(default_factory=list)
    _stage: str = "import"
    _step: str = ""
    _cpu: float = 0.0
    _wall: float = field(default_factory=time.perf_counter)

    def __call__(self, event: Any) -> None:
        """Listen to progress: close the span before the event and begin the next."""
        step = event.detail if event.stage == "rewrite" else ""
        if (event.stage, step) != (self._stage, self._step):
            self._close()
            self._stage, self._step = event.stage, step

    def _close(self) -> None:
        cpu, wall = cpu_seconds(), time.perf_counter()
        spent = (round(cpu - self._cpu, 2), round(wall - self._wall, 2))
        self.costs.append(Cost(self._stage, self._step, *spent, _memory("VmHWM"), _memory("VmRSS")))
        self._cpu, self._wall = cpu, wall
        if _STATUS.exists():
            _CLEAR.write_text(_RESET_PEAK)


def cpu_seconds() -> float:
    """User and system time of this process, its threads and its finished children."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _memory(name: str) -> int | None:
    """A figure of the kernel's status file, in bytes."""
    if not _STATUS.exists():
        return None
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def architecture(name: str) -> Path:
    """The config.json of a name in ``architectures/``, or the given file."""
    named = ARCHITECTURES / f"{name}.json"
    return named if named.is_file() else Path(name)


def measure(name: str, settings: Settings, cache: Path | None = None) -> ExportCost:
    """Export in this process and record its cost; call it once per process.

    ``cache``: a cache folder that holds the compiled engine; it is compiled once per machine, not per export.
    """
    meter, started = Meter(), time.perf_counter()
    import torch

    from edgec import export
    from edgec.bundle.folder import read_manifest

    torch.set_num_threads(settings.threads)
    with TemporaryDirectory() as folder:
        os.environ["EDGEC_CACHE_DIR"] = f"{folder}/cache"
        if cache is not None:
            copytree(cache, f"{folder}/cache")
        config = cut(architecture(name), settings.layers, Path(folder))
        out = Path(folder) / "model.edgec"
        asked: dict[str, Any] = {key: getattr(settings, key) for key in ("recipe", "target", "context")}
        size = 0
        if settings.gguf:
            file = Path(folder) / "model.gguf"
            _write_gguf(config, settings.gguf, file)
            # The file's own integers; of random weights nothing is asked but that the artifact computes its graph.
            config, size = file, file.stat().st_size
            asked |= {"recipe": None, "budgets": {"kl_mean": 100.0, "top1_agreement": 0.0}}
        export(config, **asked, out=out, random_weights=not settings.gguf, emulate=False, progress=meter)
        manifest = read_manifest(out)
        artifact = (out / manifest.artifact).stat().st_size
    peaks = [cost.peak_bytes for cost in meter.costs if cost.peak_bytes is not None]
    return ExportCost(
        model=architecture(name).stem + (f", {settings.layers} layers" if settings.layers else ""),
        **{key: value for key, value in asdict(settings).items() if key not in ("layers", "gguf")},
        costs=tuple(meter.costs),
        cpu_s=round(cpu_seconds(), 2),
        wall_s=round(time.perf_counter() - started, 2),
        peak_bytes=max(peaks, default=None),
        bf16_bytes=2 * manifest.model.parameters,
        artifact_bytes=artifact,
        file_bytes=size,
    )


def _write_gguf(config: Path, kind: str, out: Path) -> None:
    """Write random weights in another process, whose memory is none of the export's."""
    command = [sys.executable, "-m", "benchmarks.random_gguf", str(config), kind, str(out)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[1])


def cut(config: Path, layers: int | None, folder: Path) -> Path:
    """Write the config with its first layers only."""
    told = json.loads(config.read_text())
    changed = folder / config.name
    changed.write_text(json.dumps({**told, **({"num_hidden_layers": layers} if layers else {})}))
    return changed


def table(cost: ExportCost) -> str:
    """One export as a Markdown table, the steps of a stage below it."""
    rows = [_line(f"{c.stage} {c.step}".strip(), c.cpu_s, c.wall_s, c.peak_bytes, c.resident_bytes) for c in cost.costs]
    rows.append(_line("**all**", cost.cpu_s, cost.wall_s, cost.peak_bytes, None))
    heads = "| stage | CPU s | wall s | peak MB | resident after, MB |\n|---|---|---|---|---|"
    title = f"{cost.model}, recipe {cost.recipe}, target {cost.target}, {cost.threads} thread(s), measured"
    of = f"1.5 x file of {cost.file_bytes / 1e6:.0f} MB" if cost.file_bytes else "1.3 x bf16 weights"
    artifact = f"artifact {cost.artifact_bytes / 1e6:.1f} MB"
    goal = f"memory goal {of} + 1.5 GB = {cost.limit_bytes / 1e6:.0f} MB; {artifact}"
    return "\n".join([title, "", heads, *rows, "", goal])


def _line(name: str, cpu_s: float, wall_s: float, peak: int | None, resident: int | None) -> str:
    cells = (name, f"{cpu_s:.1f}", f"{wall_s:.1f}", _megabytes(peak), _megabytes(resident))
    return f"| {' | '.join(cells)} |"


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:.0f}"


def _in_own_process(arguments: Sequence[str]) -> dict[str, Any]:
    from edgec.engine.compile.build import build_runner

    with TemporaryDirectory() as folder:
        copytree(build_runner().folder.parent, f"{folder}/runner")
        command = [sys.executable, __file__, *arguments, "--here", "--cache", folder]
        result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


def export_cost(name: str, settings: Settings | None = None) -> ExportCost:
    """Export an architecture, a name in ``architectures/`` or a config.json, in a separate process."""
    result = _in_own_process([name, *(settings or Settings()).arguments])
    return ExportCost(**{**result, "costs": tuple(Cost(**cost) for cost in result["costs"])})


def main(write: Callable[[str], None] = print) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", help="names in architectures/ or config.json files")
    parser.add_argument("--recipe", default="4bit")
    parser.add_argument("--target", default="host", help="its artifact is made and executed here")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int)
    parser.add_argument("--layers", type=int, help="only the first layers")
    parser.add_argument("--gguf", help="write the weights to a GGUF file of this type, Q4_0 or Q8_0, and export that")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    parser.add_argument("--cache", type=Path, help="with --here: a cache folder that holds the compiled engine")
    options = parser.parse_args()
    settings = Settings(**{field.name: getattr(options, field.name) for field in fields(Settings)})
    if options.here:
        write(json.dumps(asdict(measure(options.models[0], settings, options.cache))))
        return
    costs = [export_cost(name, settings) for name in options.models]
    for cost in costs:
        write(table(cost) + "\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=1))


if __name__ == "__main__":
    main()
