"""Whether an artifact of static methods stores the very integers and tables of its graphs, whatever its format.

    W_index uint8 [N, K] -> bits one after the other, the lowest first      found in one of the artifact's files
    W_int   int8  [N, K] -> bytes, or two in a byte; or [K, N] as ONNX has it          ditto
    tables, scales       -> float16, or float32                                        ditto

Converters name constants as they like, or not at all, so that bytes are looked for and not names. Which matrix a layer
reads is left to the logits: there another one shows, which a few rows in a wrong place hardly do where the artifact is
executed with sums in float16.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.exporter.parity.stored_weights import other_weights
from edgec.ir.attributes import attribute
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of

Encodings = Sequence[bytes]
"""The ways in which one tensor may be written."""
_BYTE = 8


def check_stored_tables(artifact: Path, methods: Mapping[str, Program]) -> int:
    """Look for every rounded matrix of the graphs in the artifact's files; returns how many there are.

    Args:
        artifact: a file or a folder.
        methods: the graphs that were lowered.

    Raises:
        BudgetError: E840, the file has not the integers or the tables of one.
    """
    files = [artifact] if artifact.is_file() else [file for file in artifact.rglob("*") if file.is_file()]
    with ExitStack() as stack:
        held = [_mapped(file, stack) for file in files if file.stat().st_size]
        names = set()
        for program in methods.values():
            for node in nodes_of(program.graph, DEQUANTIZE, DEQUANTIZE_LUT):
                if isinstance(node.args[0], Node) and node.args[0].op == "get_attr":
                    name = str(node.args[0].target)
                    if name not in names and not all(_found(each, held) for each in _tensors(program.graph, node)):
                        raise other_weights(name)
                    names.add(name)
    return len(names)


def _mapped(file: Path, stack: ExitStack) -> mmap.mmap:
    stream = stack.enter_context(file.open("rb"))
    return stack.enter_context(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _found(encodings: Encodings, files: Sequence[mmap.mmap]) -> bool:
    return any(file.find(each) >= 0 for each in encodings for file in files)


def _tensors(graph: GraphModule, node: Node) -> Iterator[Encodings]:
    """The integers or indices of a matrix, then its scales or tables."""
    given: Any = node.args
    held = [attribute(graph, str(each.target)).detach() if isinstance(each, Node) else each for each in given]
    if node.target is DEQUANTIZE_LUT:
        indices, table, scale, group_rows = held[:4]
        yield [_packed(indices, int(table.shape[1] - 1).bit_length())]
        scaled = [] if scale is None else [table.repeat_interleave(group_rows, 0) * scale.view(-1, 1).to(table.dtype)]
        yield _floats([table, *scaled])
        return
    yield _integers(held[0], (int(held[5]), int(held[6])))
    yield _floats(_both_ways(held[2]))
    if held[3] is not None and held[3].any():
        yield [_packed(held[3], _wide(int(held[6]).bit_length()))]


def _integers(integers: Tensor, bounds: tuple[int, int]) -> Encodings:
    bits = (bounds[1] - bounds[0]).bit_length()
    if bounds[0] == 0:
        return [_packed(integers, _wide(bits))]
    # ONNX Runtime's blocks hold integers plus half their range.
    return [_packed(each, bits) for each in (*_both_ways(integers), integers + (1 << bits - 1))]


def _wide(bits: int) -> int:
    """The bits in which integers from 0 on are stored."""
    return _BYTE // 2 if bits <= _BYTE // 2 else _BYTE


def _both_ways(value: Tensor) -> list[Tensor]:
    """A matrix [N, K], and [K, N]."""
    return [value, value.flatten(1).t()] if value.dim() > 1 else [value]


def _floats(values: Sequence[Tensor]) -> Encodings:
    return [
        value.to(dtype).contiguous().numpy().tobytes() for value in values for dtype in (torch.float16, torch.float32)
    ]


def _packed(value: Tensor, bits: int) -> bytes:
    """The lowest ``bits`` of each integer, one after the other, the lowest bit first."""
    codes = value.contiguous().numpy().view(np.uint8).reshape(-1)
    if bits == _BYTE:
        return codes.tobytes()
    if bits * 2 == _BYTE and len(codes) % 2 == 0:
        return ((codes[::2] & 15) | (codes[1::2] << 4)).tobytes()
    each = (codes[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(each.reshape(-1), bitorder="little").tobytes()
