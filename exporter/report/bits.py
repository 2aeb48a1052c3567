"""Show the trade-off between bits per weight and divergence that a search measured: a chart and a table."""

from __future__ import annotations

from collections import Counter

from edgec.bundle.manifest import BitSearch, Manifest
from edgec.exporter.report.parts import section, table
from edgec.svg import Series, line_chart, stack
from edgec.terminal import WordTable

_HEADS = ("bits/weight", "expected KL, nats", "measured KL, nats", "")


def bit_search(manifest: Manifest) -> str:
    """The report's section on the search; "" where there was none."""
    search = manifest.bit_search
    if search is None:
        return ""
    about = (
        f"<p>{search.target_bits:g} bits per weight were asked for, {search.bits:.2f} are used, scales included. "
        f"Chosen on {search.tokens:,} tokens; divergence measured on {search.held_out_tokens:,} others, with the "
        "linear layers compressed and nothing else. Expected: from each layer's sensitivity, as if losses added up.</p>"
    )
    widths = ", ".join(f"{scheme}: {count}" for scheme, count in sorted(Counter(search.layers.values()).items()))
    return section("Bits per layer", about, stack([_chart(search)]), table(_HEADS, _rows(search)), f"<p>{widths}</p>")


def bit_search_table(search: BitSearch) -> WordTable:
    """The trade-off as a table for the terminal."""
    shown = WordTable(title="bits per weight against divergence")
    for head in _HEADS:
        shown.add_column(head, justify="right" if head else "left")
    for row in _rows(search):
        shown.add_row(*row)
    return shown


def _rows(search: BitSearch) -> list[tuple[str, ...]]:
    return [
        (f"{p.bits:.2f}", f"{p.expected_kl:.2g}", f"{p.measured_kl:.2g}", "chosen" if p.bits == search.bits else "")
        for p in search.curve
    ]


def _chart(search: BitSearch) -> str:
    bits = tuple(point.bits for point in search.curve)
    measured = Series("measured", bits, tuple(point.measured_kl for point in search.curve))
    expected = Series("expected", bits, tuple(point.expected_kl for point in search.curve))
    return line_chart("Divergence from the float model", "bits per weight", "KL, nats per token", [measured, expected])
