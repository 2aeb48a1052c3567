"""The results file: one JSON object for one run of ``make bench``. docs/benchmarking.md explains it field by field.

Null is unavailable. Every figure was measured, except where a field's name says ``computed``.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
FOLDER = Path(__file__).resolve().parents[1] / "results"


class Part(BaseModel):
    """Base of all parts: immutable, unknown fields refused, no infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Spread(Part):
    """A summary of several values. ``low`` and ``high`` are the extremes, ``q1`` and ``q3`` the quartiles."""

    median: float
    low: float
    q1: float
    q3: float
    high: float
    count: int


class Machine(Part):
    """The machine of a run. ``features``: relevant instruction sets; ``load_average`` at the start and at the end."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    features: list[str]
    governor: str | None
    load_average: tuple[float | None, float | None]


class Limits(Part):
    """The highest rates that this machine reached with ``threads`` threads."""

    threads: int
    read_gb_per_s: float | None
    int8_gops: float | None
    fp32_gflops: float | None
    obtained: str


class ModelFacts(Part):
    """An architecture. ``matrix_values``: weights in the linear layers; ``vocab_values``: weights in the lm_head."""

    name: str
    about: str
    layers: int
    matrix_values: int
    vocab_values: int


class Artifact(Part):
    """The artifact that a subject runs.

    Attributes:
        subject: for instance ``llama.cpp Q4_0``.
        file_bytes: the artifact alone, without tokenizer and report.
        decode_bytes_computed: bytes of weights read for one token, from the bits of each matrix.
        note: how it differs from an exact counterpart of the others.
    """

    model: str
    subject: str
    file_bytes: int
    decode_bytes_computed: int | None
    note: str = ""


class Export(Part):
    """An export in a separate process. ``cpu_s``: with its children; ``peak_bytes``: most resident memory, VmHWM."""

    model: str
    subject: str
    cpu_s: float
    wall_s: float
    peak_bytes: int | None
    bf16_bytes: int


class Speed(Part):
    """The speed of one subject in one case of ``cases.py``. Times are of the whole case, per step where it has several.

    Attributes:
        tokens: tokens per call.
        wall_ms: wall time.
        cpu_ms: CPU time of all threads.
        others: CPUs that other processes kept busy meanwhile, in the worst round.
    """

    model: str
    subject: str
    threads: int
    case: str
    tokens: int
    wall_ms: Spread
    cpu_ms: Spread
    others: float | None


class Memory(Part):
    """Peak resident memory of a process that loads, prefills 512 tokens and decodes 8.

    Attributes:
        runtime: ``Python`` or ``C++ runner``; the former's peak includes the interpreter.
        idle_bytes: the same process with its libraries loaded, before the model.
        kv_bytes: size of the KV cache, from its shape; None for a peer's.
    """

    model: str
    subject: str
    runtime: str
    threads: int
    kv_bytes: int | None
    peak_bytes: int
    idle_bytes: int | None
    obtained: str


class ContextCurve(Part):
    """The cost by context: ``ttft_ms[i]`` for ``contexts[i]`` tokens, ``decode_ms[i]`` for one token after them."""

    subject: str
    threads: int
    contexts: list[int]
    ttft_ms: list[Spread]
    decode_ms: list[Spread]


class OperatorCost(Part):
    """The cost of an operator or kind of delegate, per prefill or per decoded token. ``share``: of the whole, 0..1."""

    operator: str
    calls: float
    ms: float
    share: float


class Profile(Part):
    """The time of a phase by operator: ``prefill`` of ``tokens`` tokens at once, or ``decode`` of one."""

    model: str
    subject: str
    threads: int
    phase: str
    tokens: int
    repetitions: int
    ms: float
    operators: list[OperatorCost]


class Agreement(Part):
    """The evidence that a peer runs the same model: its float16 form against transformers in float32."""

    model: str
    positions: int
    top1_agreement: float
    max_abs: float
    logits_max_abs: float


TIME = "time"


class Failure(Part):
    """Something that could not be measured, and why; with part ``TIME``, measured in fewer rounds than wanted.

    Attributes:
        optional: of a peer that is compared only where it can be installed and run.
    """

    part: str
    what: str
    optional: bool = False


class Results(Part):
    """The results of one run."""

    schema_version: Literal[1] = 1
    date: str
    quick: bool
    seconds: dict[str, float]
    versions: dict[str, str]
    machine: Machine
    models: list[ModelFacts] = []
    limits: list[Limits] = []
    agreements: list[Agreement] = []
    artifacts: list[Artifact] = []
    exports: list[Export] = []
    speeds: list[Speed] = []
    memory: list[Memory] = []
    contexts: list[ContextCurve] = []
    profiles: list[Profile] = []
    scripts: dict[str, Any] = {}
    failures: list[Failure] = []


def read_results(path: Path) -> Results:
    """Read one results file."""
    return Results.model_validate_json(path.read_text())


# Classes of processors whose figures are not compared, the richer one first.
PROCESSORS = ("avx512_vnni", "avx2")


def processor_of(machine: Machine) -> str:
    """The class of a machine's processor, by the richest of its instruction sets that decides about kernels."""
    return next((name for name in PROCESSORS if name in machine.features), "other")


def committed_runs(processor: str, folder: Path = FOLDER) -> list[tuple[Path, Results]]:
    """The runs of a class of processors in the repository, newest first, each with models that no newer one has."""
    runs, known = list[tuple[Path, Results]](), set[str]()
    for path in sorted(folder.glob("*.json"), reverse=True):
        results = read_results(path)
        own = {model.name for model in results.models} - known
        if processor_of(results.machine) == processor and own:
            runs.append((path, of_models(results, own)))
            known |= own
    return runs


def of_models(results: Results, names: Set[str]) -> Results:
    """The results of some models of a run."""
    kept = {
        "models": [model for model in results.models if model.name in names],
        "artifacts": [each for each in results.artifacts if each.model in names],
        "exports": [each for each in results.exports if each.model in names],
        "speeds": [each for each in results.speeds if each.model in names],
        "memory": [each for each in results.memory if each.model in names],
        "failures": [each for each in results.failures if each.part == TIME or each.part.split(":")[0] in names],
    }
    return results.model_copy(update=kept)
