"""Lower each distinct region once; equal regions reuse the result with their own constants.

XNNPACK's serialised graph names its constants by 64-digit keys and keeps their bytes outside. A region's *template* is
lowered by ExecuTorch with made-up constants, all different, so that every key can be traced to one constant and one
encoding (float32, int8, packed int4, bfloat16 scales). An instance is the template with its keys replaced and its bytes
encoded from the real constants. Measured here: 1.3 to 2.5 s of CPU time per template, 3 ms per instance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.xnnpack.utils.quant_utils import is_dequant, tag_as_implicit_q_dq
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_api import to_backend
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.regions.clusters import LINEAR
from edgec.backends.cpu.regions.outline import LoweredBackendModule, outline_of
from edgec.backends.cpu.regions.region import DelegateRegion
from edgec.errors import InputError

aten = torch.ops.aten
torchao_ops = torch.ops.torchao
ALIGNMENT = 64
_PACKED_ROWS = 4096


def pack_int4(values: Tensor) -> Tensor:
    """Pack two 4-bit values into a byte, low nibble first, offset by 8: uint8 [N, ceil(K / 2)] from int8 [N, K]."""
    packed = torch.empty(values.shape[0], (values.shape[1] + 1) // 2, dtype=torch.uint8)
    # By blocks: the intermediate tensors of a whole lm_head were the peak of an export's memory.
    for rows, into in zip(values.split(_PACKED_ROWS), packed.split(_PACKED_ROWS), strict=True):
        offset = torch.nn.functional.pad(rows, (0, rows.shape[1] % 2)).view(torch.uint8) ^ 8
        torch.bitwise_or(offset[:, ::2] & 15, offset[:, 1::2] << 4, out=into)
    return packed


ENCODINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "float32": lambda t: t.to(torch.float32),
    "int8": lambda t: t.to(torch.int8),
    "int4": pack_int4,
    "bfloat16": lambda t: t.to(torch.bfloat16),
}


@dataclass(frozen=True)
class TensorSlot:
    """One constant of a template: its key, which buffer of the region it comes from, and how it is encoded."""

    key: str
    constant: int
    encoding: str


@dataclass(frozen=True)
class Template:
    """A lowered region without its constants."""

    blob: bytes
    slots: tuple[TensorSlot, ...]


@dataclass(frozen=True)
class DelegateConstant:
    """A constant as the artifact stores it.

    Attributes:
        name: outer attribute name.
        encoding: how its values are stored.
        bytes: what it takes in the file.
        key: its name among the program's named data.
        values: how many values it holds; 0: as many as fit its bytes.
        inside: names of other tensors that lie between its values (the scales of a packed matrix).
        matrix: rows and width, where edgec's kernels multiply by it and an adapter may change the product.
    """

    name: str
    encoding: str
    bytes: int
    key: str
    values: int = 0
    inside: tuple[str, ...] = ()
    matrix: tuple[int, int] | None = None


def lower_template(region: DelegateRegion, largest: Mapping[str, int]) -> Template:
    """Lower a region through ExecuTorch.

    Args:
        region: the cluster.
        largest: each varying dimension's largest size, by symbol.

    Raises:
        InputError: E723, XNNPACK refuses the region.
        RuntimeError: it stores a constant in an unknown way.
    """
    stand_ins = _stand_ins(region.module)
    root = torch.nn.Module()
    for name, value in stand_ins.items():
        root.register_buffer(name, value)
    module = GraphModule(root, region.module.graph)
    # XNNPACK's graph holds upper bounds and is given the sizes of each call: traced at the largest sizes it is the same
    # as traced with symbols, byte for byte, in half the time.
    with torch.no_grad():
        shapes = [[_largest(d, largest) for d in node.meta["val"].shape] for node in region.inputs]
        examples = tuple(
            torch.rand(shape).to(n.meta["val"].dtype) for n, shape in zip(region.inputs, shapes, strict=True)
        )
        exported = torch.export.export(module, examples, strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True, preserve_ops=[LINEAR])
    edge = to_edge(exported, compile_config=config).exported_program()
    _tag_quantised_inputs(edge.graph)
    try:
        lowered = to_backend(XnnpackBackend.__name__, edge, [])
    except RuntimeError as error:
        raise _refused(region, error) from error
    return Template(lowered.processed_bytes, _slots(lowered, stand_ins))


def _tag_quantised_inputs(graph: Graph) -> None:
    """Mark what quantises a layer's input as part of it, as ExecuTorch's partitioner does: a bias asks for it."""
    for node in graph.nodes:
        source = node.args[0] if "linear" in str(node.target) else None
        if isinstance(source, Node) and is_dequant(source):
            for part in (source, source.args[0]):
                tag_as_implicit_q_dq(part)


def _largest(size: int | torch.SymInt, largest: Mapping[str, int]) -> int:
    """A size, or what follows from the largest inputs: every third sample of N is ``(N - 1) // 3 + 1``."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression.subs({symbol: largest[str(symbol)] for symbol in expression.free_symbols}))


def _refused(region: DelegateRegion, error: RuntimeError) -> InputError:
    operators = sorted({str(node.target) for node in region.module.graph.nodes if node.op == "call_function"})
    return InputError(
        what="XNNPACK cannot compute a part of this model with the weights that the recipe gives it",
        where=", ".join(operators)[:300],
        why=" ".join(str(error).split())[:300],
        fix="export with --recipe float, or leave the layer's weights in float by a rule of the recipe",
        code="E723",
    )


def instantiate(
    template: Template, region: DelegateRegion
) -> tuple[LoweredBackendModule, tuple[DelegateConstant, ...]]:
    """Make a delegate of a template with the region's own constants, and list what it stores."""
    store, blob, stored = NamedDataStore(), template.blob, []
    constants = [buffer for _, buffer in region.module.named_buffers(remove_duplicate=False)]
    for slot in template.slots:
        data = raw_bytes(ENCODINGS[slot.encoding](constants[slot.constant]))
        # A key of the same length and prefix as the template's.
        digest = _digest(data)
        key = slot.key[: len(slot.key) - len(digest)] + digest
        blob = blob.replace(slot.key.encode(), key.encode())
        store.add_named_data(key, data, alignment=ALIGNMENT)
        stored.append(DelegateConstant(region.constants[slot.constant], slot.encoding, len(data), key))
    output = store.get_named_data_store_output()
    outlined = outline_of(region.inputs, region.outputs, region.module.graph)
    return LoweredBackendModule(outlined, XnnpackBackend.__name__, blob, [], output), tuple(stored)


def keep(
    store: NamedDataStore, name: str, encoding: str, data: bytes, values: int, inside: tuple[str, ...] = ()
) -> DelegateConstant:
    """Put a constant among a delegate's named data under the hash of its bytes; the rest is as in its record."""
    key = _digest(data)
    store.add_named_data(key, data, alignment=ALIGNMENT)
    return DelegateConstant(name, encoding, len(data), key, values, inside)


def raw_bytes(value: Tensor) -> bytes:
    """A tensor's contents as they lie in memory."""
    flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
    return flat.numpy().tobytes()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _slots(lowered: Any, stand_ins: dict[str, Tensor]) -> tuple[TensorSlot, ...]:
    output = lowered.named_data_store_output
    entries = {} if output is None else output.pte_data
    encoded = {
        _digest(raw_bytes(encode(value))): (index, name)
        for index, value in enumerate(stand_ins.values())
        for name, encode in ENCODINGS.items()
        if _encodable(value, name)
    }
    slots = []
    for key, entry in entries.items():
        data = output.buffers[entry.buffer_index]
        digest = _digest(data)
        if digest not in encoded:
            raise RuntimeError(f"XNNPACK stores constant {key[:12]} in an unknown encoding ({len(data)} bytes)")
        slots.append(TensorSlot(key, *encoded[digest]))
    return tuple(slots)


def _encodable(value: Tensor, encoding: str) -> bool:
    if value.is_floating_point():
        return encoding in ("float32", "bfloat16")
    low, high = value.aminmax()
    return encoding == "int8" or (encoding == "int4" and value.dim() == 2 and int(low) >= -8 and int(high) <= 7)


def _stand_ins(module: GraphModule) -> dict[str, Tensor]:
    """Make distinct values of each constant's dtype, shape and legal range; zero points stay zero."""
    generator = torch.Generator().manual_seed(0)
    ranges = _integer_ranges(module)
    return {
        name: _stand_in(buffer, ranges.get(name), generator)
        for name, buffer in module.named_buffers(remove_duplicate=False)
    }


def _stand_in(buffer: Tensor, limits: tuple[int, int] | None, generator: torch.Generator) -> Tensor:
    if buffer.is_floating_point():
        return torch.rand(buffer.shape, generator=generator, dtype=torch.float32).add_(0.5).to(buffer.dtype)
    if limits is None:
        return torch.zeros_like(buffer)
    return torch.randint(limits[0], limits[1] + 1, buffer.shape, generator=generator, dtype=buffer.dtype)


def _integer_ranges(module: GraphModule) -> dict[str, tuple[int, int]]:
    """The grid of each integer weight, from the node that dequantises it."""
    return {
        str(source.target): (int(node.args[5]), int(node.args[6]))
        for node in module.graph.nodes
        if node.target is torchao_ops.dequantize_affine.default
        for source in [node.args[0]]
        if isinstance(source, Node) and source.op == "get_attr"
    }
