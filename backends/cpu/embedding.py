"""Token tables as delegates of edgec's own backend, so that a tied lm_head is stored once.

    tokens -> embedding(dequantize_affine(W_int, scale))      ==>      tokens -> EdgecEmbedding(keys of W_int and scale)

With edgec's linear kernels the integers lie in their layout (linear/layout.py), as the lm_head's do.

Otherwise the table lies in the program's named data under the hash of its bytes, in the encoding from which XNNPACK
packs the lm_head: where both are the same integers, both delegates name the same data. Legality: float32, 8 bits with
one scale per row, or 4 bits in groups with scales that bfloat16 holds; symmetric. Other tables stay with ExecuTorch's
kernels. Measured on 8 layers of Qwen3-0.6B with 4-bit table and lm_head: 97 of 316 MB (notes on stock ExecuTorch) are
not stored a second time.
"""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.linear.weights import StoredMatrix, keep_matrix, matrix_fields, stored_matrix
from edgec.backends.cpu.regions.delegate import ALIGNMENT, ENCODINGS, DelegateConstant, raw_bytes
from edgec.backends.cpu.regions.outline import LoweredBackendModule, Outline, OutlinedOutput
from edgec.backends.cpu.regions.shelf import put_on_shelf
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
BACKEND = "EdgecEmbedding"


@dataclass(frozen=True)
class EmbeddingTable:
    """A token table: named tensors with their encodings, weights first."""

    bits: int
    group: int
    parts: tuple[tuple[str, str, Tensor], ...]


def replace_embeddings(
    graph: GraphModule, block_rows: BlockRows | None = None, shelf: Path | None = None
) -> tuple[DelegateConstant, ...]:
    """Replace the tables that the backend reads with delegates, and return what these store.

    Args:
        graph: a decoder's graph.
        block_rows: store integers in this layout of edgec's linear kernels; None: as XNNPACK packs its weights from.
        shelf: a folder for their data (``put_on_shelf``).
    """
    stored: list[DelegateConstant] = []
    for index, node in enumerate(filter(_looks_up_row, nodes_of(graph, aten.embedding.default))):
        matrix = stored_matrix(graph, node.args[0]) if block_rows else None
        table = _table(graph, node.args[0]) if matrix is None else None
        if matrix is not None and block_rows is not None:
            module, kept = _packed_delegate(graph, node, matrix, block_rows)
        elif table is not None:
            module, kept = _delegate(node, table)
        else:
            continue
        put_on_shelf(module, shelf)
        name = f"embedding_{index}"
        graph.add_module(name, module)
        with graph.graph.inserting_before(node):
            result = _call(graph, name, node)
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        graph.graph.erase_node(node)
        stored.extend(kept)
    return tuple(stored)


def _call(graph: GraphModule, name: str, node: Node) -> Node:
    """Call a delegate, which reads indices [1, S]; those of positions may be [S]."""
    indices: Any = node.args[1]
    flat = indices.meta["val"].dim() == 1
    rows = graph.graph.call_function(aten.unsqueeze.default, (indices, 0)) if flat else indices
    if flat:
        rows.meta = {**indices.meta, "val": indices.meta["val"].unsqueeze(0)}
    result = graph.graph.call_function(operator.getitem, (graph.graph.call_module(name, (rows,)), 0))
    return graph.graph.call_function(aten.squeeze.dim, (result, 0)) if flat else result


def _looks_up_row(node: Node) -> bool:
    """Whether the indices are [1, S], or [S] of positions; a table of biases is looked up by pairs of positions."""
    indices: Any = node.args[1]
    shape = indices.meta["val"].shape
    return len(shape) in (1, 2) and all(isinstance(size, int) and size == 1 for size in shape[:-1])


def _table(graph: GraphModule, source: Any) -> EmbeddingTable | None:
    if source.op == "get_attr":
        weight = attribute(graph, str(source.target))
        return EmbeddingTable(32, weight.shape[1], ((str(source.target), "float32", weight),))
    if source.target is not DEQUANTIZE or any(n.op != "get_attr" for n in source.all_input_nodes):
        return None
    integers, scale, zero = (attribute(graph, str(source.args[i].target)) for i in (0, 2, 3))
    names = [str(source.args[i].target) for i in (0, 2)]
    bits, group = int(source.args[6] - source.args[5] + 1).bit_length() - 1, int(source.args[1][1])
    if zero.any() or (bits, group) not in ((8, integers.shape[1]), (4, group)) or integers.shape[1] % group:
        return None
    if bits == 4 and not torch.equal(scale.bfloat16().float(), scale.float()):
        return None
    encodings = {8: ("int8", "float32"), 4: ("int4", "bfloat16")}[bits]
    return EmbeddingTable(bits, group, tuple(zip(names, encodings, (integers, scale), strict=True)))


def _delegate(node: Node, table: EmbeddingTable) -> tuple[LoweredBackendModule, list[DelegateConstant]]:
    store = NamedDataStore()
    stored: list[DelegateConstant] = []
    for name, encoding, tensor in table.parts:
        data = raw_bytes(ENCODINGS[encoding](tensor))
        # XNNPACK's names: the hash of the bytes, scales marked as such.
        key = ("scale_" if stored else "") + hashlib.sha256(data).hexdigest()
        store.add_named_data(key, data, alignment=ALIGNMENT)
        stored.append(DelegateConstant(name, encoding, len(data), key))
    output = store.get_named_data_store_output()
    return LoweredBackendModule(_outline(node), BACKEND, _blob(table, stored), [], output), stored


def _packed_delegate(
    graph: GraphModule, node: Node, matrix: StoredMatrix, block_rows: BlockRows
) -> tuple[LoweredBackendModule, list[DelegateConstant]]:
    """A table in the layout of the linear kernels: that of a tied lm_head has the same bytes and is stored once."""
    store = NamedDataStore()
    shape, kept = keep_matrix(graph, matrix, block_rows, store)
    fields = {"edgec.embedding": 4, **matrix_fields(shape), "data": kept.key}
    blob = "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
    return LoweredBackendModule(_outline(node), BACKEND, blob, [], store.get_named_data_store_output()), [kept]


def _blob(table: EmbeddingTable, stored: list[DelegateConstant]) -> bytes:
    """The delegate's description, as text that ``engine/kernels/embedding_backend.cpp`` reads."""
    rows, width = table.parts[0][2].shape
    scales = stored[1].key if len(stored) > 1 else ""
    fields = {"edgec.embedding": 1, "bits": table.bits, "rows": rows, "width": width, "group": table.group}
    keys = {"weights": stored[0].key, "scales": scales}
    return "".join(f"{name}={value}\n" for name, value in {**fields, **keys}.items()).encode()


def _outline(node: Node) -> Outline:
    graph = Graph()
    graph.output((graph.call_function(aten.embedding.default, (graph.placeholder("x0"),)),))
    width = int(node.meta["val"].shape[-1])
    return Outline(graph, (OutlinedOutput(torch.float32, (1, (0, 1), width)),))
