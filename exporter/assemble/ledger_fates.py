"""What became of a quantised checkpoint's matrices, beside the bytes that each takes in the artifact."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgec.bundle.checkpoint_matrices import CheckpointMatrix, fate_shares
from edgec.bundle.manifest import Ledger, LedgerRow

# What passes add to a parameter's name for its integers and what goes with them, and backends for rearranged ones.
_PART = re.compile(r"(_embedding)?(_int|_scale|_minimum|_zero_point|_table|_indices)?(_onnx|_float|_rows)?$")


def with_fates(ledger: Ledger, matrices: Sequence[CheckpointMatrix]) -> Ledger:
    """A ledger whose rows say what they were in the checkpoint, with the sums of each fate."""
    by_name = {matrix.name: matrix for matrix in matrices}
    rows = [_told(row, by_name.get(_PART.sub("", row.name))) for row in ledger.rows]
    fates = [
        share.model_copy(update={"artifact_bytes": sum(row.bytes for row in rows if row.fate == share.fate)})
        for share in fate_shares(matrices)
    ]
    return ledger.model_copy(update={"rows": rows, "fates": fates})


def _told(row: LedgerRow, matrix: CheckpointMatrix | None) -> LedgerRow:
    return row if matrix is None else row.model_copy(update={"found": matrix.found, "fate": matrix.fate})
