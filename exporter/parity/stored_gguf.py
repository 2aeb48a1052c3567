"""Whether a GGUF file stores the very weights of its graph: every tensor dequantised by ``gguf.quants`` and compared.

Written apart from the writer: places and bytes are read from the file's own table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch.fx import GraphModule

from edgec.bundle.gguf_header import read_gguf_header
from edgec.errors import BudgetError
from edgec.exporter.gguf_file.contents import WrittenTensor
from edgec.exporter.sources.gguf.rows import float_rows


def check_stored_gguf(file: Path, graph: GraphModule, tensors: Sequence[WrittenTensor]) -> int:
    """Compare every tensor of a file with the graph; returns how many of them are matrices of integers.

    Args:
        file: as it was written.
        graph: that it was made from.
        tensors: what was written.

    Raises:
        BudgetError: E841, a tensor is another one.
    """
    stored = {tensor.name: tensor for tensor in read_gguf_header(file).tensors}
    for tensor in tensors:
        found = stored.get(tensor.place.name)
        if found is None or found.type != tensor.type or found.shape != tensor.place.shape:
            raise _other(tensor.place.name, "it is absent, or of another type or shape")
        wanted, done = tensor.values(graph).reshape(-1, found.shape[-1]), 0
        for rows in float_rows(found):
            if not np.array_equal(rows, wanted[done : done + len(rows)].numpy()):
                raise _other(tensor.place.name, f"rows {done} to {done + len(rows) - 1} have other values")
            done += len(rows)
    return sum(tensor.kind is not None for tensor in tensors)


def _other(name: str, why: str) -> BudgetError:
    return BudgetError(
        "The GGUF file stores other weights than its graph has.",
        where=name,
        why=f"{why}; values were read back by the gguf package and compared, to the bit",
        fix="report this: the layout of the tensor is at fault, not your model",
        code="E841",
    )
