"""The tensors of a GGUF file from a rewritten graph, each in the smallest type that holds it exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fx import GraphModule

from edgec.backends.gguf.block_types import BlockType, GridMatrix, type_of
from edgec.backends.gguf.file import FileTensor, type_bytes
from edgec.backends.gguf.graph_tensors import EMBEDDING, LM_HEAD, GraphTensor, graph_tensors
from edgec.backends.gguf.packed_blocks import packed
from edgec.errors import InputError
from edgec.exporter.gguf_file.architectures import unwritten
from edgec.exporter.gguf_file.places import GgufPlace
from edgec.ir.quantized_form import decisions_of

# Small matrices that llama.cpp's kernels read in float32, besides vectors.
_FLOAT32 = ("ffn_gate_inp.weight", "shortconv.conv.weight")
_FLOATS = (("F16", torch.float16), ("BF16", torch.bfloat16), ("F32", torch.float32))
_COMPARED = 1 << 22


@dataclass(frozen=True)
class WrittenTensor:
    """A tensor of a file, and what it is made of.

    Attributes:
        place: in the file.
        source: in the graph.
        type: GGUF's name of its type.
        kind: of its blocks; None of floats.
    """

    place: GgufPlace
    source: GraphTensor
    type: str
    kind: BlockType | None = None

    @property
    def bytes(self) -> int:
        """Of the file."""
        return type_bytes(self.type, self.place.shape)

    def grid(self, graph: GraphModule) -> GridMatrix:
        """Its integers, rows as they lie in the file."""
        matrix = self.source.grid(graph)
        order = self.place.order(len(matrix.codes))
        return matrix if order is None else matrix.with_rows(order)

    def floats(self, graph: GraphModule) -> Tensor:
        """Its values in its type [rows, width] or [width], rows as they lie in the file."""
        value = self.source.floats(graph).reshape(-1, *self.place.shape[-1:] * (len(self.place.shape) > 1))
        order = self.place.order(len(value))
        value = value if order is None else value[order]
        value = value.float() + 1.0 if self.place.centred else value
        return value.to(dict(_FLOATS)[self.type]).contiguous()

    def values(self, graph: GraphModule) -> Tensor:
        """What it means, float32."""
        return self.grid(graph).values() if self.kind else self.floats(graph).float()

    def file_tensor(self, graph: GraphModule) -> FileTensor:
        """The tensor on its way into the file."""
        return FileTensor(self.place.name, self.type, self.place.shape, partial(self._data, graph))

    def _data(self, graph: GraphModule) -> NDArray[np.uint8]:
        if self.kind is not None:
            return packed(self.grid(graph), self.kind)
        return self.floats(graph).view(torch.uint8).numpy()


def written_tensors(graph: GraphModule, places: Sequence[GgufPlace]) -> list[WrittenTensor]:
    """Every tensor of the file; a tied lm_head stands there once, as the embedding.

    Args:
        graph: after all passes.
        places: of all parameters.

    Raises:
        InputError: E825, the graph lacks a parameter or has others: the recipe changes the model; E827, no type holds
            a matrix.
    """
    held = graph_tensors(graph)
    _check_names(graph, held, places)
    tied = EMBEDDING in held and LM_HEAD in held and held[EMBEDDING].buffers == held[LM_HEAD].buffers
    if LM_HEAD in held and not tied and not any(place.parameter == LM_HEAD for place in places):
        why = "the recipe rounds it in another way than the embedding, and this architecture has one tensor for both"
        raise unwritten(LM_HEAD, why)
    return [_written(graph, place, held[place.parameter]) for place in places if not tied or place.parameter != LM_HEAD]


def _check_names(graph: GraphModule, held: Mapping[str, GraphTensor], places: Sequence[GgufPlace]) -> None:
    wanted = {place.parameter for place in places}
    known = wanted | {LM_HEAD}  # of a tied one there may be no place
    made = {decision.name for decision in decisions_of(graph) if decision.used}
    made |= {name.removeprefix("decoder.") for name, _ in graph.named_parameters()}
    absent, others = sorted(wanted - held.keys()), sorted(made - known)
    if absent or others:
        why = f"the rewritten graph has no {absent[0]}" if absent else f"the rewritten graph has {others[0]} besides"
        raise unwritten((absent or others)[0], f"{why}: what the recipe does to the model has no form in GGUF")


def _written(graph: GraphModule, place: GgufPlace, source: GraphTensor) -> WrittenTensor:
    if not source.is_grid:
        return WrittenTensor(place, source, _float_type(place, source.floats(graph)))
    bare = WrittenTensor(place, source, "")
    kind = type_of(bare.grid(graph))
    if kind is None:
        raise InputError(
            what="No type of GGUF holds this matrix exactly.",
            where=place.parameter,
            why=f"{place.name} would have to be rounded again: its scales or minimums are not float16 numbers",
            fix="use a recipe with groups of 32 (4bit, 8bit), or --recipe float",
            code="E827",
        )
    return WrittenTensor(place, source, kind.name, kind)


def _float_type(place: GgufPlace, value: Tensor) -> str:
    """The smallest type of floats that holds all values; float32 for vectors and what llama.cpp reads so."""
    if len(place.shape) < 2 or place.name.endswith(_FLOAT32) or place.centred:
        return "F32"
    return next(name for name, dtype in _FLOATS if _holds(value, dtype))


def _holds(value: Tensor, dtype: torch.dtype) -> bool:
    if value.dtype == dtype:
        return True
    parts: Sequence[Tensor] = value.reshape(-1).split(_COMPARED)
    return all(torch.equal(part.to(dtype).float(), part.float()) for part in parts)


def most_common_type(tensors: Sequence[WrittenTensor]) -> str:
    """The type of most bytes."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        sizes[tensor.type] = sizes.get(tensor.type, 0) + prod(tensor.place.shape)
    return max(sizes, key=lambda name: sizes[name])
