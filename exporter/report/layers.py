"""The bytes of the artifact layer by layer, as bars whose pieces are attention, MLP and the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.bundle.manifest import LedgerRow
from edgec.exporter.report.parts import COLOURS, pieces, size

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")
_KINDS: Mapping[str, re.Pattern[str]] = {
    "attention": re.compile(r"attn|attention|mixer|conv"),
    "MLP": re.compile(r"mlp|expert|feed_?forward|ffn|fc\d"),
    "other": re.compile(""),
}


@dataclass(frozen=True)
class LayerBytes:
    """Consecutive layers that take the same bytes, by kind; ``name`` for what lies outside the layers."""

    first: int
    last: int
    kinds: tuple[int, ...]
    name: str = ""

    @property
    def label(self) -> str:
        """The layers in words."""
        if self.name:
            return self.name
        return f"layer {self.first}" if self.first == self.last else f"layers {self.first} to {self.last}, each"

    @property
    def total(self) -> int:
        """The bytes of one of these layers."""
        return sum(self.kinds)


def layer_bars(rows: Sequence[LedgerRow]) -> str:
    """The bars with their legend; "" where no tensor belongs to a layer."""
    groups = layer_groups(rows)
    if not any(not group.name for group in groups):
        return ""
    largest = max(group.total for group in groups) or 1
    bars = [
        pieces(
            group.label,
            [(count / largest, colour) for count, colour in zip(group.kinds, COLOURS, strict=False)],
            size(group.total),
        )
        for group in groups
    ]
    marks = zip(_KINDS, COLOURS, strict=False)
    legend = "".join(f'<li><i style="background:var({colour})"></i>{kind}</li>' for kind, colour in marks)
    return "<h3>By layer</h3>" + f'<ul class="legend">{legend}</ul>' + "\n".join(bars)


def layer_groups(rows: Sequence[LedgerRow]) -> list[LayerBytes]:
    """What lies outside the layers in one group, then the layers in order; equal neighbours are joined."""
    sums: dict[int, list[int]] = {}
    for row in rows:
        numbered = _LAYER.search(row.name)
        counts = sums.setdefault(int(numbered[1]) if numbered else -1, [0] * len(_KINDS))
        counts[_kind(row.name) if numbered else -1] += row.bytes
    groups: list[LayerBytes] = []
    for layer, counts in sorted(sums.items()):
        kinds, before = tuple(counts), groups[-1] if groups else None
        if before and not before.name and before.kinds == kinds and before.last == layer - 1:
            groups[-1] = LayerBytes(before.first, layer, kinds)
        else:
            groups.append(LayerBytes(layer, layer, kinds, "embedding, lm_head, norms" if layer < 0 else ""))
    return groups


def _kind(name: str) -> int:
    return next(index for index, pattern in enumerate(_KINDS.values()) if pattern.search(name))
