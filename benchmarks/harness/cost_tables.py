"""The results as tables: exports, files, memory, long contexts, and whether all ran the same model."""

from __future__ import annotations

from benchmarks.harness import goals
from benchmarks.harness.grid import Grid, megabytes, number
from benchmarks.harness.results import ContextCurve, Export, Memory, Results


def export_grid(results: Results) -> Grid:
    """The cost of compiling, by model and subject."""
    heads = ("model", "subject", "CPU s", "wall s", "peak MB", "goal CPU s", "goal peak MB")
    rows = tuple(_export_row(export) for export in results.exports)
    notes = ("CPU time and peak memory of the export's process. Weights are random and made while exporting.",)
    return Grid("Export (measured)", heads, rows, notes)


def _export_row(export: Export) -> tuple[str, ...]:
    own = export.subject.startswith("edgec")
    goal = goals.EXPORT_CPU_S.get(export.model) if own else None
    peak = megabytes(goals.export_peak_bytes(export.bf16_bytes)) if own else ""
    spent = (number(export.cpu_s), number(export.wall_s), megabytes(export.peak_bytes))
    return (export.model, export.subject, *spent, number(goal) if goal else "", peak)


def memory_grid(results: Results) -> Grid:
    """The sizes of files and the peak memory, by model and subject."""
    heads = ("model", "subject", "file MB", "peak MB", "idle process MB", "peak over idle MB", "goal MB")
    rows = tuple(_memory_row(results, memory) for memory in results.memory)
    notes = ("Peak: load, prefill, a few tokens, in a separate process. The runner is C++ without Python.",)
    return Grid("Files and memory (measured)", heads, rows, notes)


def _memory_row(results: Results, memory: Memory) -> tuple[str, ...]:
    artifact = next(a for a in results.artifacts if (a.model, a.subject) == (memory.model, memory.subject))
    over = None if memory.idle_bytes is None else memory.peak_bytes - memory.idle_bytes
    goal = megabytes(goals.memory_peak_bytes(artifact.file_bytes, memory.kv_bytes)) if memory.kv_bytes else ""
    sizes = (artifact.file_bytes, memory.peak_bytes, memory.idle_bytes, over)
    return (memory.model, f"{memory.subject}, {memory.runtime}", *map(megabytes, sizes), goal)


def context_grid(results: Results) -> Grid:
    """Time to first token and decoding against context."""
    contexts = results.contexts[0].contexts if results.contexts else []
    heads = ("", *(f"{context:,}" for context in contexts))
    rows = tuple(row for curve in results.contexts for row in _context_rows(curve))
    threads = results.contexts[0].threads if results.contexts else 0
    notes = (f"Medians, {threads} threads. Model: 2 layers, so that 8192 positions end in reasonable time.",)
    return Grid("Long context (measured)", heads, rows, notes)


def _context_rows(curve: ContextCurve) -> list[tuple[str, ...]]:
    ttft = tuple(number(spread.median) for spread in curve.ttft_ms)
    decode = tuple(number(spread.median) for spread in curve.decode_ms)
    return [(f"{curve.subject}: TTFT, ms", *ttft), (f"{curve.subject}: ms/token", *decode)]


def agreement_grid(results: Results) -> Grid:
    """Whether a peer's form of a model gives the model's logits."""
    heads = ("model", "positions", "same top-1", "largest difference of a logit", "largest logit")
    rows = tuple(
        (a.model, str(a.positions), f"{a.top1_agreement:.1%}", number(a.max_abs), number(a.logits_max_abs))
        for a in results.agreements
    )
    return Grid("The same model: llama.cpp in float16 against transformers in float32", heads, rows)


def failure_grid(results: Results) -> Grid:
    """The measurements that failed, or took fewer rounds than wanted."""
    rows = tuple((failure.part, failure.what) for failure in results.failures)
    return Grid("Not measured, or less than wanted", ("part", "why"), rows)
