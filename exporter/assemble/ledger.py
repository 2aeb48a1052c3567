"""The size ledger: it attributes every byte of an artifact to a tensor, to a copy of one, or to the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from edgec.bundle.manifest import Ledger, LedgerRow
from edgec.bundle.pte_layout import ArtifactLayout, StoredBytes, read_layout
from edgec.errors import BudgetError

TOLERANCE = 0.05
# Numbers in code (``2 * x + 1``) are constants of an artifact too: of a module with few weights more than 5 %.
_NUMBERS_BYTES = 256
_FILL = "one value repeated, written by the converter: not a weight"


@dataclass(frozen=True)
class WeightRecord:
    """A tensor that the compiler put into the artifact.

    Attributes:
        name: as in the model.
        dtype: dtype of its values in the artifact (``int4``, ``float32``, ...).
        shape: shape of the values; ``int4`` counts two per byte.
        container_bits: stored bits per value.
        information_bits: bits per value that carry meaning (2 for two-bit values held as int4).
        bytes: what it should take, with its scales and zero points unless these have their own records.
        copies_reason: why it is rightly stored more than once in one place, if it is.
        active: the share (0..1) that one token reads.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    container_bits: float
    information_bits: float
    bytes: int
    copies_reason: str = ""
    active: float = 1.0

    @property
    def values(self) -> int:
        """The number of elements of the tensor."""
        return prod(self.shape)


@dataclass
class _Claims:
    """Which stored runs belong to which record; a run belongs to at most one."""

    free: dict[tuple[str, str], StoredBytes]
    taken: dict[int, list[StoredBytes]] = field(default_factory=dict)

    def take(self, record: int, run: StoredBytes) -> None:
        """Give a run to a record."""
        self.taken.setdefault(record, []).append(self.free.pop((run.place, run.key)))

    def scales(self, run: StoredBytes) -> list[StoredBytes]:
        """The unclaimed scales of a run."""
        return [self.free[run.place, key] for key in run.scale_keys if (run.place, key) in self.free]


def build_ledger(artifact: Path, records: Sequence[WeightRecord]) -> Ledger:
    """Attribute every byte of a .pte file.

    A record is matched to stored bytes by size and shape; the same content elsewhere in the file is a copy of it. A
    record without its own bytes (equal to another tensor, or folded away) has zero copies. Bytes that no record
    explains get a row named after their place.

    Args:
        artifact: the .pte file.
        records: all tensors the compiler wanted in it.

    Raises:
        InputError: E139, the file is not an ExecuTorch program.
    """
    return ledger_of(read_layout(artifact), records)


def ledger_of(layout: ArtifactLayout, records: Sequence[WeightRecord]) -> Ledger:
    """The ledger of an artifact whose layout is known; see ``build_ledger``."""
    claims = _claim(layout, records)
    rows = [_row(record, claims.taken.get(index, [])) for index, record in enumerate(records)]
    rows += [_unexplained_row(run) for run in claims.free.values()]
    program = layout.program_bytes + layout.graph_bytes + layout.padding_bytes
    expected = sum(record.bytes for record in records)
    ledger = Ledger(
        artifact_bytes=layout.artifact_bytes,
        weight_bytes=expected,
        program_bytes=program,
        active_bytes=round(sum(row.bytes * row.active for row in rows)),
        rows=sorted(rows, key=lambda row: (-row.bytes, row.name)),
    )
    over = layout.artifact_bytes - expected > TOLERANCE * expected
    return ledger.model_copy(update={"overhead_reasons": _reasons(ledger, layout)}) if over else ledger


def _claim(layout: ArtifactLayout, records: Sequence[WeightRecord]) -> _Claims:
    """Give each record one run; then give equal content and left-over scales to their owners."""
    claims = _Claims({(run.place, run.key): run for run in layout.stored})
    for index, record in enumerate(records):
        # An unclaimed run of the right size, if possible of the right shape too.
        sized = [run for run in claims.free.values() if record.bytes in _sizes(claims, run)]
        shaped = [run for run in sized if run.shape == record.shape]
        run = next(iter(shaped or sized), None)
        if run is not None:
            scales = claims.scales(run) if record.bytes != run.bytes else []
            for part in (run, *scales):
                claims.take(index, part)
    _claim_copies(claims)
    for index, runs in claims.taken.items():
        for scale in [scale for run in runs for scale in claims.scales(run)]:
            claims.take(index, scale)
    return claims


def _claim_copies(claims: _Claims) -> None:
    owners = {run.sha256: index for index, runs in claims.taken.items() for run in runs}
    for run in [run for run in claims.free.values() if run.sha256 in owners]:
        claims.take(owners[run.sha256], run)


def _sizes(claims: _Claims, run: StoredBytes) -> tuple[int, int]:
    """The size of a run without and with its unclaimed scales."""
    return run.bytes, run.bytes + sum(scale.bytes for scale in claims.scales(run))


def _row(record: WeightRecord, runs: Sequence[StoredBytes]) -> LedgerRow:
    scales = {key for run in runs for key in run.scale_keys}
    bodies = [run for run in runs if run.key not in scales]
    return LedgerRow(
        name=record.name,
        dtype=record.dtype,
        values=record.values,
        bits=record.container_bits,
        information_bits=record.information_bits,
        copies=len(bodies),
        bytes=sum(run.bytes for run in runs),
        reason=_copies_reason(record, bodies),
        active=record.active,
    )


def _copies_reason(record: WeightRecord, bodies: Sequence[StoredBytes]) -> str:
    """Why a record is stored more than once; places cannot share bytes, so one copy in each is explained."""
    places = sorted({run.place for run in bodies})
    if len(bodies) > 1 and len(places) == len(bodies):
        return f"read from {' and from '.join(places)}, which cannot share bytes"
    return record.copies_reason if len(bodies) > 1 else ""


def _unexplained_row(run: StoredBytes) -> LedgerRow:
    count = prod(run.shape) if run.shape else run.bytes
    bits = 8 * run.bytes / count if count else 0.0
    kind = f"{run.dtype} {list(run.shape)}" if run.shape else "bytes of unknown shape"
    return LedgerRow(
        name=f"({run.place}: {run.key[:18]}, {kind})",
        dtype=run.dtype or "unknown",
        values=count,
        bits=bits,
        information_bits=bits,
        copies=1,
        bytes=run.bytes,
        reason=_FILL if run.fill else "",
    )


def _copy_bytes(row: LedgerRow) -> int:
    """Bytes of a tensor beyond its first copy; all bytes of a row that is not a weight."""
    if row.reason == _FILL:
        return row.bytes
    return row.bytes - row.bytes // row.copies if row.copies > 1 else 0


def _reasons(ledger: Ledger, layout: ArtifactLayout) -> list[str]:
    parts = (
        f"program {layout.program_bytes:,}, delegate graphs {layout.graph_bytes:,}, padding {layout.padding_bytes:,}"
    )
    copies = [f"{row.name}: {_copy_bytes(row):,} bytes, {row.reason}" for row in ledger.rows if row.reason]
    return [f"structure: {ledger.program_bytes:,} bytes ({parts})", *copies]


def unexplained_bytes(ledger: Ledger, expected_weight_bytes: int) -> int:
    """Bytes beyond the expected weights, the artifact's structure, and copies and fills that have a reason."""
    copies = sum(_copy_bytes(row) for row in ledger.rows if row.reason)
    return ledger.artifact_bytes - expected_weight_bytes - ledger.program_bytes - copies


def check_ledger(ledger: Ledger, expected_weight_bytes: int) -> None:
    """Refuse an artifact that is over 5 % and 256 bytes larger than the sum of its bits, unless the ledger says why.

    Args:
        ledger: the artifact's ledger.
        expected_weight_bytes: the sum of the bits the recipe asked for, in bytes.

    Raises:
        BudgetError: E210, with the rows that take more than they should.
    """
    over = unexplained_bytes(ledger, expected_weight_bytes)
    if over <= max(_NUMBERS_BYTES, TOLERANCE * expected_weight_bytes):
        return
    suspects = [row for row in ledger.rows if not row.reason and (row.name.startswith("(") or _copy_bytes(row))]
    raise BudgetError(
        f"The artifact holds {over:,} bytes that its weights do not explain.",
        where=", ".join(f"{row.name} {row.bytes:,} bytes, {row.copies}x" for row in suspects[:3]) or "the artifact",
        why=f"{ledger.artifact_bytes:,} bytes against {expected_weight_bytes:,} expected from the recipe's bits",
        fix="look at the size ledger: a weight kept in float, or stored twice, is the usual cause",
        code="E210",
    )
