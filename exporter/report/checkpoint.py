"""What became of the matrices of a quantised checkpoint: a section of the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from edgec.bundle.checkpoint_matrices import CheckpointMatrix, FateShare, fate_shares, fates_in_words
from edgec.bundle.manifest import Manifest
from edgec.exporter.report.parts import percent, section, size, table

_HEADS = (
    "in the checkpoint",
    "in the artifact",
    "what became of it",
    "matrices",
    "bytes there",
    "largest error",
    "why",
)


_SUMS = ("what became of it", "matrices", "bytes in the checkpoint", "share of them", "bytes in the artifact")


def checkpoint(manifest: Manifest) -> str:
    """Matrices by their form before and after; "" where the checkpoint stores floats."""
    if not manifest.checkpoint:
        return ""
    groups: dict[tuple[str, str, str, str], list[CheckpointMatrix]] = {}
    for matrix in manifest.checkpoint:
        groups.setdefault((matrix.found, matrix.used, matrix.fate, matrix.reason), []).append(matrix)
    rows = [_row(*key, part) for key, part in sorted(groups.items())]
    about = (
        f"<p>{escape(fates_in_words(manifest.checkpoint))}. Measured on the graph that was lowered, against the values "
        "that the library of the checkpoint's format computes; errors are relative to the norm of a matrix.</p>"
    )
    shares = (manifest.ledger.fates if manifest.ledger else []) or fate_shares(manifest.checkpoint)
    sums = table(_SUMS, [_sum(share) for share in shares], numeric=(1, 2, 3, 4))
    return section("The checkpoint's own integers", about, sums, table(_HEADS, rows, numeric=(3, 4, 5), told=True))


def _sum(share: FateShare) -> tuple[str, ...]:
    here = size(share.artifact_bytes) if share.artifact_bytes else "unavailable"
    return escape(share.fate), f"{share.matrices:,}", size(share.bytes), percent(share.share), here


def _row(found: str, used: str, fate: str, reason: str, part: Sequence[CheckpointMatrix]) -> tuple[str, ...]:
    worst = max(matrix.error for matrix in part)
    told = [escape(found), escape(used), escape(fate), f"{len(part):,}", size(sum(matrix.bytes for matrix in part))]
    return (*told, f"{worst:.2%}" if worst else "none", escape(reason))
