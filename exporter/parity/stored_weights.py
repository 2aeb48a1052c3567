"""Whether an artifact for CPUs stores the very weights of its graph: integers, scales and minimums to the bit.

    text of a delegate + its bytes  ->  read_back  ->  compared with the attributes of the rewritten graph

Logits tell this up to the noise of rounded activations alone: two blocks of 512 bytes that change places in one matrix
of a real model move them less (KL 0.004) than another order of sums does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgec.backends.edgec_linear.read_back import matrix_of, read_back
from edgec.backends.edgec_linear.scale_forms import Affine
from edgec.bundle.delegates import PackedText
from edgec.bundle.pte_layout import read_packed
from edgec.errors import BudgetError
from edgec.ir.attributes import attribute
from edgec.ir.program import Program

if TYPE_CHECKING:
    from edgec.backends.xnnpack.delegate import DelegateConstant


def check_stored_weights(
    artifact: Path, programs: Mapping[str, Program], stored: Mapping[str, Iterable[DelegateConstant]]
) -> int:
    """Compare every packed matrix of an artifact with its graph; returns how many there are.

    Args:
        artifact: a .pte.
        programs: what was lowered, by the methods' names.
        stored: what its delegates store, by the same names.

    Raises:
        BudgetError: E840, a matrix is another one.
    """
    constants = {one.key: (programs[method], one) for method, each in stored.items() for one in each}
    count = 0
    for text, data in read_packed(artifact):
        program, constant = constants[text.key]
        if not _equal(text, data, program, constant):
            raise BudgetError(
                "The artifact stores other weights than its graph has.",
                where=constant.name,
                why="integers, scales and minimums were read back and compared, to the bit",
                fix="report this: the layout of the matrix is at fault, not your model",
                code="E840",
            )
        count += 1
    return count


def _equal(text: PackedText, data: bytes, program: Program, constant: DelegateConstant) -> bool:
    integers, *beside = (attribute(program.graph, name) for name in (constant.name, *constant.inside))
    tables = [integers, *(table.reshape(len(integers), -1).float() for table in beside)]
    shape = matrix_of(text)
    if len(data) != shape.bytes or text.width != integers.shape[1]:
        return False
    read, done = read_back(shape, torch.frombuffer(bytearray(data), dtype=torch.uint8)), 0
    for values, affine in read:
        own, rows = rows_of_graph(text, torch.arange(done, done + len(values)))
        if not all(torch.equal(a[own], b[rows]) for a, b in zip(_tables(values, affine), tables, strict=True)):
            return False
        done += len(values)
    return done == text.rows


def rows_of_graph(text: PackedText, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of a layout are not filling behind an expert, and which rows of the graph's matrix they are."""
    expert, inside = rows // text.rows_of_expert, rows % text.rows_of_expert
    count = text.rows if text.expert_rows is None else text.expert_rows
    own = inside < count
    return own, (expert * count + inside)[own]


def _tables(values: Tensor, affine: Affine) -> list[Tensor]:
    return [values.to(torch.int8), affine.scales, *([] if affine.minimums is None else [affine.minimums])]
