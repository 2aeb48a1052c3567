"""What an export prints at its end: the ladder, the size, and where the arithmetic runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from edgec.bundle.checkpoint_matrices import fates_in_words
from edgec.bundle.findings import Rung
from edgec.bundle.golden import read_golden
from edgec.bundle.manifest import Build, Manifest
from edgec.exporter.report.bits import bit_search_table
from edgec.exporter.sources.tokenizer import round_trips
from edgec.terminal import WordTable, between_words, make_console


def summary_json(manifest: Manifest) -> dict[str, Any]:
    """A summary of the manifest as plain data, for machines."""
    return {
        "digest": manifest.digest,
        "target": manifest.target,
        "layout": manifest.layout,
        "target_choice": manifest.target_choice,
        "artifact_bytes": manifest.ledger.artifact_bytes if manifest.ledger else None,
        "parity": [rung.model_dump(mode="json") for rung in manifest.parity],
        "not_emulated": manifest.build.not_emulated,
        "delegated_share": manifest.delegation.delegated_share if manifest.delegation else None,
        "context_note": manifest.context_note,
        "limits": manifest.writing_limits.model_dump() if manifest.writing_limits else None,
        "prefix": manifest.prefix.model_dump() if manifest.prefix else None,
        "calibration": manifest.calibration.model_dump() if manifest.calibration else None,
        "judged_on": manifest.judged_on or None,
        "more_bits": manifest.bits_line or None,
        "wider_layers": manifest.wider_layers or None,
        "checkpoint": fates_in_words(manifest.checkpoint) or None,
        "fates": [share.model_dump() for share in manifest.ledger.fates] if manifest.ledger else [],
        "bit_search": manifest.bit_search.model_dump() if manifest.bit_search else None,
        "seconds": manifest.build.seconds,
        "peak_bytes": manifest.build.peak_bytes,
    }


def print_summary(path: Path, manifest: Manifest, waited_s: float, console: Console | None = None) -> None:
    """Print a summary of the manifest and of the time that somebody waited for it, for people."""
    console = console or make_console()
    console.print(ladder_table(manifest.parity))
    if manifest.build.not_emulated:
        console.print(f"arm64   not run under qemu: {manifest.build.not_emulated}", highlight=False, soft_wrap=True)
    if manifest.bit_search:
        console.print(bit_search_table(manifest.bit_search))
    for line in (*_lines(manifest), export_line(manifest.build, waited_s)):
        console.print(between_words(line, console, _INSET), highlight=False, markup=False, soft_wrap=True)
    if (golden := path / "golden.json").is_file() and (texts := read_golden(golden).texts):
        console.print(f"tokens  {round_trips(texts)}", highlight=False, soft_wrap=True)
    console.print(f"bundle  {path}\nreport  {path / 'report.html'}", highlight=False, soft_wrap=True)


def ladder_table(rungs: list[Rung]) -> WordTable:
    """One row per rung; lowering rungs compare with the stage above, quality rungs with the float model."""
    table = WordTable(title="parity ladder (measured on this machine)")
    table.optional = ("against", "max diff", "KL, nats", "top-1")
    for name in ("stage", "against", "max diff", "KL, nats", "top-1", "result"):
        figures = name in ("max diff", "KL, nats", "top-1")
        table.add_column(name, justify="right" if figures else "left", no_wrap=name == "result")
    for rung in rungs:
        table.add_row(*_cells(rung))
    return table


def _cells(rung: Rung) -> tuple[str, ...]:
    result = f"{rung.half} {'ok' if rung.passed else 'MISSED'}" + ("" if rung.gated else ", not gated")
    return (
        rung.stage,
        rung.reference.split()[0],
        "" if rung.in_words else _number(rung.max_abs),
        "" if rung.top1_agreement is None or rung.in_words else with_error(rung),
        "" if rung.top1_agreement is None else f"{rung.top1_agreement:.1%}",
        result,
    )


def with_error(rung: Rung) -> str:
    """The mean divergence of a rung, with its error where that is known: ``0.051 ± 0.006``."""
    error = "" if rung.kl_error is None else f" ± {rung.kl_error:.1g}"
    return f"{_number(rung.kl_mean)}{error}"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


# Further findings are in the report.
# What a token reads is told where it is less than this share of the weights: with experts, or large tables.
_MOST = 0.9
_LINTED = 3
_INSET = len("outside ")


def _lines(manifest: Manifest) -> list[str]:
    lines = [f"target  {manifest.target_choice}"] if manifest.target_choice else []
    lines += [f"values  {rung.stage}: {rung.values}" for rung in manifest.parity if rung.values]
    lines += [f"text    calibrated on {manifest.calibration}"] if manifest.calibration else []
    lines += [f"inputs  {manifest.judged_on}"] if manifest.judged_on else []
    lines += [f"bits    {manifest.bits_line}"] if manifest.bits_line else []
    lines += [f"wider   {manifest.wider_layers}"] if manifest.wider_layers else []
    if manifest.ledger:
        size = manifest.ledger
        part = size.active_bytes is not None and size.active_bytes < _MOST * size.weight_bytes
        active = f", of which a token reads {size.active_bytes:,}" if part else ""
        lines.append(f"size    {size.artifact_bytes:,} bytes, of which weights {size.weight_bytes:,}{active}")
    if manifest.checkpoint:
        lines.append(f"stored  {fates_in_words(manifest.checkpoint)}")
    if manifest.delegation:
        where = manifest.delegation
        outside = ", ".join(f"{f.operator} x{f.count} {f.share:.1%}" for f in where.fallbacks[:3])
        share = f"{where.delegated_share:.1%} of the arithmetic"
        lines.append(f"inside  {share} in {where.delegates} {where.backend} delegates")
        lines.append(f"outside {outside or 'nothing'}")
    lines += [f"lint    {finding.rule}: {finding.place}: {finding.found}" for finding in manifest.lint[:_LINTED]]
    if manifest.writing_limits:
        cache = sum(state.bytes for state in manifest.states)
        lines.append(f"context {manifest.writing_limits.context} tokens, KV cache {cache:,} bytes")
    if prompts := manifest.sentence_encoder:
        lines.append(f"prompts {prompts}")
        lines += [f"        {manifest.context_note}"] if manifest.context_note else []
    if prefix := manifest.prefix:
        lines.append(f"prefix  {prefix.tokens} tokens of system prompt, KV state {prefix.bytes:,} bytes")
    return lines


def export_line(build: Build, waited_s: float) -> str:
    """From the command's begin to the finished bundle, with what is waited for only once on a machine."""
    engine_s = build.seconds.get("engine", 0.0)
    once = f", of which {engine_s:.1f} s compiled the engine (once)" if engine_s else ""
    peak = f", peak memory {build.peak_bytes / 1e6:.0f} MB" if build.peak_bytes else ""
    return f"export  {waited_s:.1f} s{once}{peak} (measured)"
