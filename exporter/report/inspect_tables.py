"""Show a bundle's manifest at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.text import Text

from edgec.bundle.canonical import canonical_json
from edgec.bundle.entry_points import TensorInfo
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.bundle.hub.located import bundle_folder
from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.bundle.manifest import Manifest
from edgec.bundle.signature_file import is_signed
from edgec.terminal import WordTable, make_console

_LEDGER_ROWS = 10
_RIGHT = frozenset({"positions", "max", "KL mean", "same top-1", "count", "share", "bytes", "bits", "copies", "slots"})


def print_bundle(path: Path, as_json: bool) -> None:
    """Print a bundle's manifest after checking that every file is as listed.

    Args:
        path: the bundle's folder, or its address on the hub.
        as_json: the manifest itself instead of tables.

    Raises:
        InputError: E130 to E137, the bundle is not intact.
    """
    folder = bundle_folder(path)
    manifest = open_bundle(folder).manifest
    if as_json:
        print(canonical_json(manifest).decode(), end="")
        return
    console = make_console()
    for table in manifest_tables(manifest, signed=is_signed(folder)):
        console.print(table)
        console.print()


def manifest_tables(manifest: Manifest, signed: bool = False) -> list[WordTable]:
    """All parts of a manifest that are worth reading, as tables; empty ones are left out.

    ``signed``: the bundle has a signature, which was not checked.
    """
    tables = (
        _facts(manifest, signed),
        _methods(manifest),
        _adapters(manifest),
        _states(manifest),
        _passes(manifest),
        _parity(manifest),
        _delegation(manifest),
        _lint(manifest),
        _device_checks(manifest),
        _placement(manifest),
        _ledger(manifest),
    )
    return [table for table in tables if table.row_count]


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> WordTable:
    table = WordTable(title=Text(title, "bold"))
    table.min_width = len(title)
    for head in heads:
        table.add_column(head, justify="right" if head in _RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def _facts(manifest: Manifest, signed: bool) -> WordTable:
    model, limits, runtime = manifest.model, manifest.writing_limits, manifest.runtime
    rows = [
        ("model", f"{model.name} ({model.family}, {model.task}{'' if model.trained else ', random weights'})"),
        ("source", model.source + (f" at {model.revision}" if model.revision else "")),
        ("parameters", f"{model.parameters:,}"),
        ("licence of the model", model.licence or "not stated"),
        ("target, recipe", f"{manifest.target}, {manifest.recipe.get('name', 'unnamed')}"),
        ("files", f"{len(manifest.files)}, {sum(file.bytes for file in manifest.files):,} bytes (sha256 checked)"),
        ("runtime needed", f"{runtime.name} {runtime.version}, backends: {', '.join(runtime.backends) or 'none'}"),
        ("operators needed", ", ".join(runtime.operators) or "none outside delegates"),
        ("created", manifest.build.created),
        ("signature", "not checked here; edgec verify --public-key does" if signed else "none"),
    ]
    if manifest.layout != DEFAULT_LAYOUT:
        rows.append(("layout", f"{manifest.layout}, for {LAYOUTS[manifest.layout].reader}"))
    if manifest.build.not_emulated:
        rows.append(("arm64", f"not run under qemu: {manifest.build.not_emulated}"))
    if limits:
        calls = f"{limits.prefill_chunk:,} tokens and {limits.logit_rows:,} logit rows per call"
        rows.append(("limits", f"context {limits.context:,} tokens, {calls}"))
    if manifest.context_note:
        rows.append(("positions", manifest.context_note))
    if images := manifest.vision_language:
        tile = f"{images.channels} x {images.height} x {images.width}"
        rows.append(("images", f"in tiles of {tile} values, each {images.rows:,} tokens of the context"))
    if prompts := manifest.sentence_encoder:
        rows.append(("prompts", str(prompts)))
    if prefix := manifest.prefix:
        rows.append(("system prompt", f"{prefix.tokens:,} tokens ({prefix.form}), KV state {prefix.bytes:,} bytes"))
    return _table(manifest.name, ("", ""), rows)


def _methods(manifest: Manifest) -> WordTable:
    rows = [
        (m.name, _tensors(m.inputs), _tensors(m.outputs), ", ".join(f"{k} {a}..{b}" for k, (a, b) in m.dynamic.items()))
        for m in manifest.methods
    ]
    return _table("Methods", ("method", "inputs", "outputs", "dynamic"), rows)


def _adapters(manifest: Manifest) -> WordTable:
    rows = [
        (one.name, ", ".join(map(str, one.ranks)), f"{len(one.modules):,}", f"{one.bytes:,}", one.digest[:12])
        for one in manifest.adapters
    ]
    total = sum(one.bytes for one in manifest.adapters)
    title = f"Adapters: {total:,} bytes, counted from shapes; each method once more under each of them"
    return _table(title, ("adapter", "rank", "matrices", "bytes", "sha256"), rows)


def _tensors(tensors: Sequence[TensorInfo]) -> str:
    return "\n".join(f"{t.name} {t.dtype} [{', '.join(map(str, t.shape))}]" for t in tensors)


def _states(manifest: Manifest) -> WordTable:
    rows = [(s.name, s.layer, s.dtype, s.shape, s.layout, s.slots, f"{s.bytes:,}") for s in manifest.states]
    total = sum(state.bytes for state in manifest.states)
    heads = ("state", "layer", "dtype", "shape", "layout", "slots", "bytes")
    return _table(f"States: {total:,} bytes, counted from shapes", heads, rows)


def _passes(manifest: Manifest) -> WordTable:
    rows = [
        (p.name, p.effect, f"{p.nodes_before:,} -> {p.nodes_after:,}", f"{p.bytes_before:,} -> {p.bytes_after:,}")
        for p in manifest.passes
    ]
    return _table("Passes", ("pass", "claim", "nodes", "bytes held"), rows)


def _parity(manifest: Manifest) -> WordTable:
    heads = ("half", "stage", "against", "positions", "max", "KL mean", "same top-1", "verdict")
    rows = [
        (
            rung.half,
            rung.stage,
            rung.reference,
            f"{rung.positions:,}",
            _figure(rung.max_abs),
            _figure(rung.kl_mean),
            "unavailable" if rung.top1_agreement is None else f"{rung.top1_agreement:.1%}",
            _verdict(rung),
        )
        for rung in manifest.parity
    ]
    table = _table("Parity ladder (measured; KL in nats)", heads, rows)
    table.optional = ("positions", "half", "max", "KL mean", "against")
    return table


def _figure(value: float | None) -> str:
    return "unavailable" if value is None else f"{value:.2g}"


def _share(share: float) -> str:
    return "below 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _verdict(rung: Rung) -> Text:
    if not rung.gated:
        return Text("not gated", "dim")
    return Text("passed", "green") if rung.passed else Text("failed", "bold red")


def _delegation(manifest: Manifest) -> WordTable:
    inside = manifest.delegation
    if inside is None:
        return _table("Delegation", (), ())
    share = f"{inside.delegated_share:.1%} of the arithmetic of one token, counted from shapes"
    title = f"{inside.delegated_operators:,} operators in {inside.delegates:,} {inside.backend} delegates, {share}"
    rows = [(f.operator, f.count, _share(f.share), f.reason) for f in inside.fallbacks]
    heads = (f"outside {inside.backend}", "count", "share", "reason")
    return _table(f"Delegation: {title}", heads, rows or [("none", "", "", "")])


def _lint(manifest: Manifest) -> WordTable:
    rows = [(f.severity, f.rule, f.place, f.found, f.fix) for f in manifest.lint]
    return _table("Linter", ("severity", "rule", "place", "found", "fix"), rows)


def _device_checks(manifest: Manifest) -> WordTable:
    rows = [(check.name, check.status, check.machine, check.note) for check in manifest.device_checks]
    return _table("Checks on a Mac", ("check", "status", "machine", "note"), rows)


def _placement(manifest: Manifest) -> WordTable:
    placed = [row for check in manifest.device_checks for row in check.placement]
    rows = [(row.method, row.operator, row.unit, f"{row.count:,}") for row in placed]
    return _table("Placement by Core ML (from its compute plan)", ("method", "operator", "unit", "count"), rows)


def _ledger(manifest: Manifest) -> WordTable:
    book = manifest.ledger
    if book is None:
        return _table("Size ledger", (), ())
    rows: list[Sequence[object]] = [
        (row.name, row.dtype, f"{row.bits:g}", row.copies, f"{row.bytes:,}") for row in book.rows[:_LEDGER_ROWS]
    ]
    if rest := book.rows[_LEDGER_ROWS:]:
        rows.append((f"{len(rest):,} smaller tensors", "", "", "", f"{sum(row.bytes for row in rest):,}"))
    rows.append(("program, graphs, padding", "", "", "", f"{book.program_bytes:,}"))
    title = f"Size ledger: {book.artifact_bytes:,} bytes (measured) for {book.weight_bytes:,} bytes of weights"
    title += "" if book.active_bytes is None else f", {book.active_bytes:,} of which a token reads"
    return _table(title, ("tensor", "dtype", "bits", "copies", "bytes"), rows)
