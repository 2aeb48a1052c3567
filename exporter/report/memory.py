"""The report on memory: the artifact's size ledger, and the KV cache over the context."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from edgec.bundle.entry_points import StateInfo
from edgec.bundle.manifest import Ledger, LedgerRow, Manifest
from edgec.exporter.report.layers import layer_bars
from edgec.exporter.report.parts import (
    REST,
    Line,
    PagePart,
    bar,
    code,
    percent,
    plot,
    section,
    size,
    stacked,
    table,
    ticks,
)

_LEDGER_ROWS = 8


def ledger(manifest: Manifest) -> str:
    """The section on what the artifact's bytes are used for."""
    if manifest.ledger is None:
        return ""
    book = manifest.ledger
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in book.overhead_reasons)
    active = "" if book.active_bytes is None else f" One token reads {size(book.active_bytes)} of them."
    return section(
        "Size ledger",
        f"<p>{size(book.artifact_bytes)} (measured) for {size(book.weight_bytes)} of weights at their bits."
        f"{active}</p>",
        stacked(_by_dtype(manifest)),
        layer_bars(book.rows),
        "<h3>The largest tensors</h3>",
        _tensor_bars(book),
        f"<h3>Why it is larger than its weights</h3><ul>{reasons}</ul>" if reasons else "",
    )


def _tensor_bars(book: Ledger) -> str:
    shown, others = book.rows[:_LEDGER_ROWS], book.rows[_LEDGER_ROWS:]
    largest = max([entry.bytes for entry in shown] + [sum(r.bytes for r in others), book.program_bytes, 1])
    bars = [bar(_tensor_label(r), r.bytes / largest, size(r.bytes) + _bits(r)) for r in shown]
    if others:
        total = sum(r.bytes for r in others)
        bars.append(bar(f"{len(others):,} smaller tensors", total / largest, size(total), REST))
    bars.append(bar("program, graphs, padding", book.program_bytes / largest, size(book.program_bytes), REST))
    return "\n".join(bars)


def _by_dtype(manifest: Manifest) -> list[PagePart]:
    book = manifest.ledger
    sums: dict[str, int] = {}
    for entry in book.rows if book else []:
        sums[entry.dtype] = sums.get(entry.dtype, 0) + entry.bytes
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    pairs = [*ordered, ("program", book.program_bytes if book else 0)]
    total = sum(count for _, count in pairs) or 1
    return [PagePart(name, count / total, f"{size(count)}, {percent(count / total)}") for name, count in pairs]


def _tensor_label(entry: LedgerRow) -> str:
    fate = f", {entry.found} {entry.fate}" if entry.fate else ""
    return f"{code(entry.name)}<small>{escape(entry.dtype)}, {entry.values:,} values{escape(fate)}</small>"


def _bits(entry: LedgerRow) -> str:
    bits = f"{entry.bits:.3g} bits" + (
        "" if entry.bits == entry.information_bits else f" ({entry.information_bits:.3g} used)"
    )
    return f"<small>{bits}{'' if entry.copies == 1 else f', stored {entry.copies}x'}</small>"


def kv_memory(manifest: Manifest) -> str:
    """The section on the KV bytes that n tokens occupy, compared with what is allocated."""
    if not manifest.states or manifest.writing_limits is None:
        return ""
    context, allocated = manifest.writing_limits.context, sum(state.bytes for state in manifest.states)
    knees = sorted({0, context, *(s.slots for s in manifest.states if s.slots < context)})
    used = Line([(n, kv_bytes(manifest.states, n)) for n in knees], "--c0")
    limit = Line([(0, allocated), (context, allocated)], "--c1", dashed=True)
    x_ticks = [context * quarter / 4 for quarter in range(5)]
    drawn = plot([used, limit], "tokens in the context", x_ticks, ticks(allocated))
    legend = (
        '<ul class="legend"><li><i style="background:var(--c0)"></i>holding keys and values</li>'
        '<li><i style="background:var(--c1)"></i>allocated from the start</li></ul>'
    )
    return section("KV memory", "<p>Counted from the states' shapes.</p>", legend, drawn, _state_table(manifest.states))


def kv_bytes(states: Sequence[StateInfo], tokens: int) -> float:
    """The bytes of the states that this many tokens occupy."""
    return sum(state.bytes * min(tokens, state.slots) / state.slots for state in states if state.slots)


def _state_table(states: Sequence[StateInfo]) -> str:
    groups: dict[tuple[str, str, str, str, str], list[StateInfo]] = {}
    for state in states:
        window = "full" if state.window is None else f"{state.window:,}"
        key = (state.role, state.dtype, str(state.shape), f"{state.layout}, {state.slots:,} slots", window)
        groups.setdefault(key, []).append(state)
    rows = [
        (*(escape(part) for part in key), _layers(group), size(sum(state.bytes for state in group)))
        for key, group in groups.items()
    ]
    return table(("state", "dtype", "shape", "layout", "window", "layers", "bytes"), rows, numeric=(6,))


def _layers(states: Sequence[StateInfo]) -> str:
    layers = sorted(state.layer for state in states)
    whole = layers == list(range(layers[0], layers[-1] + 1)) and len(layers) > 2
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
