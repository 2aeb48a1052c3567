"""The tensors that an artifact of static methods should hold, and in how many bits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor
from torch.fx import Node

from edgec.exporter.stages.compiled import WeightFact
from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.passes.graph.stored_bits import stored_bits

_VIEWS = re.compile(r"(_part\d+|_conv|_channels)+$")
_HALF_BITS, _FLOAT_BITS = 16, 32


def static_weight_facts(methods: Mapping[str, Program], half: bool = True) -> list[WeightFact]:
    """Every constant of the methods, counted once, as floats (``half``: float16) and packed integers.

    Pieces and views of a matrix count as what they are taken from: a matrix that two methods cut in the same way is
    stored once.
    """
    held: dict[str, dict[str, WeightFact]] = {}
    for program in methods.values():
        states = {state.buffer for state in program.interface.states}
        for node in program.graph.graph.nodes:
            if node.op == "get_attr" and node.users and str(node.target) not in states:
                fact = _fact(program, node, _HALF_BITS if half else _FLOAT_BITS)
                held.setdefault(original(fact.name), {})[fact.name] = fact
    return [_join(name, list(parts.values())) for name, parts in sorted(held.items())]


def original(name: str) -> str:
    """The name of the tensor that a piece or view was taken from."""
    return _VIEWS.sub("", name)


def _fact(program: Program, node: Node, float_bits: int) -> WeightFact:
    value: Tensor = attribute(program.graph, str(node.target))
    bits = stored_bits(program, node, float_bits)
    size = -(-value.numel() * bits // 8)
    dtype = f"{'u' if value.dtype.itemsize == 1 and not value.dtype.is_signed else ''}int{bits}"
    return WeightFact(
        name=str(node.target),
        dtype=f"float{float_bits}" if value.is_floating_point() else dtype,
        shape=list(value.shape),
        container_bits=bits,
        information_bits=bits,
        bytes=size,
    )


def _join(name: str, parts: list[WeightFact]) -> WeightFact:
    """One fact for a matrix, from the facts of its pieces."""
    if len(parts) == 1:
        return parts[0].model_copy(update={"name": name})
    values = sum(part.bytes * 8 // int(part.container_bits) for part in parts)
    update = {"name": name, "shape": [values], "bytes": sum(part.bytes for part in parts)}
    return parts[0].model_copy(update=update)
