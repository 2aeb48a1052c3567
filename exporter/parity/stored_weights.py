"""Whether an artifact for CPUs stores the very weights of its graph: integers, scales and minimums to the bit.

    edgec's kernels  text of a delegate + its bytes  ->  read_back  ->  compared with the rewritten graph's tensors
    XNNPACK          bytes by the delegate's key     ->  values     ->  the same

Logits tell this up to the noise of rounded activations alone: two blocks of 512 bytes that change places in one matrix
of a real model move them less (KL 0.004) than another order of sums does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgec.backends.cpu.linear.read_back import matrix_of, read_back
from edgec.backends.cpu.linear.scale_forms import Affine
from edgec.bundle.delegates import PackedText
from edgec.bundle.pte_layout import read_named, read_packed
from edgec.errors import BudgetError
from edgec.ir.attributes import attribute
from edgec.ir.program import Program

if TYPE_CHECKING:
    from edgec.backends.cpu.regions.delegate import DelegateConstant


def check_stored_weights(
    artifact: Path, programs: Mapping[str, Program], stored: Mapping[str, Iterable[DelegateConstant]]
) -> int:
    """Compare every matrix that delegates of an artifact store with its graph; returns how many there are.

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
            raise other_weights(constant.name)
        count += 1
    return count + _check_plain(artifact, programs, stored)


def _check_plain(
    artifact: Path, programs: Mapping[str, Program], stored: Mapping[str, Iterable[DelegateConstant]]
) -> int:
    """Compare what XNNPACK stores, which is each tensor by itself; returns how many matrices of integers it has.

    What lowering makes of nothing (the ones of a mean) has no name in the graph, and is left to the logits.
    """
    plain: dict[str, list[tuple[DelegateConstant, Tensor]]] = {}
    for method, each in stored.items():
        held = {**programs[method].graph.state_dict(keep_vars=True), **dict(programs[method].graph.named_buffers())}
        for one in each:
            if one.encoding in _VALUES and one.matrix is None and not one.inside and one.name in held:
                plain.setdefault(one.key, []).append((one, held[one.name]))
    for key, data in read_named(artifact, plain):
        for constant, value in plain[key]:
            if not torch.equal(_VALUES[constant.encoding](data, value), value):
                raise other_weights(constant.name)
    return sum(value.dtype == torch.int8 for (_, value), *_ in plain.values())


def _halves(data: bytes, like: Tensor) -> Tensor:
    """Integers of 4 bits, two in a byte, the lower bits first, 8 above their value; every row fills whole bytes."""
    held = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(len(like), -1)
    both = torch.stack([held & 15, held >> 4], dim=2).flatten(1)[:, : like.shape[1]]
    return both.to(torch.int8) - 8


def _typed(dtype: torch.dtype) -> Callable[[bytes, Tensor], Tensor]:
    return lambda data, like: torch.frombuffer(bytearray(data), dtype=dtype).reshape(like.shape).to(like.dtype)


_VALUES: Mapping[str, Callable[[bytes, Tensor], Tensor]] = {
    "int4": _halves,
    "int8": _typed(torch.int8),
    "bfloat16": _typed(torch.bfloat16),
    "float32": _typed(torch.float32),
}


def other_weights(name: str) -> BudgetError:
    """The error for a matrix that an artifact stores otherwise than its graph, or not at all (E840)."""
    return BudgetError(
        "The artifact stores other weights than its graph has.",
        where=name,
        why="integers, scales, minimums and tables were read back and compared, to the bit",
        fix="report this: the layout or the conversion of the matrix is at fault, not your model",
        code="E840",
    )


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
