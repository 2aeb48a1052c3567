"""Where the bytes of a .pte lie whose delegates are graphs, with their weights as named data beside them or inside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgec.bundle.pte_layout import DELEGATE, ArtifactLayout, read_layout


def delegated_layout(path: Path) -> ArtifactLayout:
    """The artifact's bytes; a delegate's blob counts as its graph."""
    whole = read_layout(path)
    blobs = [run for run in whole.stored if run.place == DELEGATE]
    graphs = whole.graph_bytes + sum(run.bytes for run in blobs)
    return replace(whole, graph_bytes=graphs, stored=tuple(run for run in whole.stored if run not in blobs))
