"""The tensors that an artifact should hold, and in how many bits: the size ledger is checked against them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.fx import Node

from edgec.errors import BudgetError
from edgec.exporter.stages.active_share import active_shares
from edgec.exporter.stages.compiled import WeightFact, dtype_name
from edgec.ir.attributes import attribute
from edgec.ir.float_islands import kept_constants
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of, parameter_name
from edgec.ir.weight_decision import Decision
from edgec.passes.graph.stored_bits import stored_bits
from edgec.passes.static.add_adapter import is_added

if TYPE_CHECKING:
    from edgec.backends.cpu.regions.delegate import DelegateConstant

_BITS = {"float32": 32, "int8": 8, "int6": 6, "int5": 5, "int4": 4, "int3": 3, "int2": 2, "bfloat16": 16}


def weight_facts(program: Program, stored: Sequence[DelegateConstant]) -> list[WeightFact]:
    """Every constant of the artifact: inside delegates as stored there, outside as the graph holds them."""
    every = decisions_of(program.graph)
    decisions = {name: d for d in every for name in d.buffers}
    inside: dict[str, WeightFact] = {}
    for constant in stored:
        inside.setdefault(constant.key, _inside(constant, decisions))
    readers = Counter(name for d in every for name in d.buffers)
    delegated = Counter(name for constant in stored for name in (constant.name, *constant.inside))
    states = {state.buffer for state in program.interface.states}
    outside = [
        _outside(name, attribute(program.graph, name), decisions)
        for name in sorted({str(n.target) for n in program.graph.graph.nodes if n.op == "get_attr"})
        # a table that reads a delegated matrix's integers may run outside delegates: then it is stored once more
        if delegated[name] < max(1, readers[name]) and name not in states and not name.endswith("_zero_point")
    ]
    shares = active_shares(program.graph)
    return [f.model_copy(update={"active": shares.get(f.name, 1.0)}) for f in (*inside.values(), *outside)]


def expected_bytes(facts: Iterable[WeightFact], program: Program) -> int:
    """The bytes that the tensors should take by the recipe's bits, even where a weight wrongly stayed in float.

    A tensor that no decision covers counts as it is stored; one that a decision covers counts what was decided, its
    scales included, once for every place it is stored in. Of a tied tensor both may be there: a matrix of integers, and
    the float table that the recipe or its few rows leave. Scales count as the format holds them: in ONNX in float32.
    """
    facts, decisions = list(facts), [decision for decision in decisions_of(program.graph) if decision.used]
    covered = {name: decision for decision in decisions for name in decision.buffers}
    unasked = {decision.name for decision in decisions} - {name for name, _ in _float_readers(program, asked=True)}
    floats = sum(f.bytes for f in facts if f.name not in covered and f.name.removeprefix("decoder.") not in unasked)
    places = Counter(fact.name for fact in facts)
    scales = sum(_beyond_recipe(fact, covered[fact.name]) for fact in facts if fact.name in covered)
    rounded = sum(d.bytes * max(1, places[d.buffers[0]]) for d in {id(d): d for d in covered.values()}.values())
    return floats + rounded + scales


def _beyond_recipe(fact: WeightFact, decision: Decision) -> int:
    """Bytes beyond the recipe's scheme: of stored scales, or of the row sums and filled-up rows of a layout."""
    if decision.used is None:
        return 0
    if not fact.name.endswith("_scale"):
        rounded = fact.dtype.startswith("int") and fact.container_bits <= decision.container_bits
        return max(0, fact.bytes - decision.bytes) if rounded else 0
    return max(0, fact.bytes - prod(fact.shape) * decision.used.scale_bits // 8)


def require_rounded(program: Program) -> None:
    """Refuse, before lowering, a graph that reads floats where integers or tables were decided on.

    Raises:
        BudgetError: E210.
    """
    for name, reader in _float_readers(program, asked=False):
        raise BudgetError(
            f"The weight {name} stayed in float.",
            where=reader.name,
            why="the recipe rounds it, and a layer of the rewritten graph reads its floats",
            fix="report it with the model's architecture and the recipe; --recipe float exports without rounding",
            code="E210",
        )


def _float_readers(program: Program, asked: bool) -> Iterator[tuple[str, Node]]:
    """Float parameters with a reader: where floats were asked for, or where a decision rounds them.

    A tied parameter has two decisions: one as a table that is looked up, one as a matrix.
    """
    rounded = {(d.name, d.role == "embedding") for d in decisions_of(program.graph) if d.used}
    for node in program.graph.graph.nodes:
        if node.op == "get_attr" and _is_float(program, node):
            name = original(parameter_name(node))
            for reader in node.users:
                if ((name, _looks_up(reader)) not in rounded) == asked:
                    yield name, reader


def _is_float(program: Program, node: Node) -> bool:
    value = attribute(program.graph, str(node.target))
    return isinstance(value, Tensor) and value.is_floating_point()


def _looks_up(reader: Node) -> bool:
    """Whether rows are looked up, possibly after a cast of the table."""
    if reader.target is torch.ops.aten.to.dtype:
        return any(map(_looks_up, reader.users))
    return reader.target is torch.ops.aten.embedding.default


def _inside(constant: DelegateConstant, decisions: dict[str, Decision]) -> WeightFact:
    bits = _BITS[constant.encoding]
    decision = decisions.get(constant.name)
    return WeightFact(
        name=constant.name,
        dtype=constant.encoding,
        shape=[constant.values or constant.bytes * 8 // bits],
        container_bits=bits,
        information_bits=_information(constant.name, bits, decision),
        bytes=constant.bytes,
        reason="" if decision is None else decision.reason,
    )


def _information(name: str, bits: int, decision: Decision | None) -> float:
    return min(bits, decision.information_bits) if decision is not None and name.endswith("_int") else bits


def _outside(name: str, value: Tensor, decisions: dict[str, Decision]) -> WeightFact:
    decision = decisions.get(name)
    packed = decision.container_bits if decision is not None and name.endswith("_int") else value.element_size() * 8
    return WeightFact(
        name=name,
        dtype=dtype_name(value.dtype) if packed == value.element_size() * 8 else f"int{packed}",
        shape=list(value.shape),
        container_bits=packed,
        information_bits=_information(name, packed, decision),
        bytes=value.numel() * packed // 8,
        reason="" if decision is None else decision.reason,
    )


_VIEWS = re.compile(r"(_part\d+|_conv|_channels)+$")
_HALF_BITS, _FLOAT_BITS = 16, 32


def static_weight_facts(methods: Mapping[str, Program], half: bool = True, index_bits: int = 0) -> list[WeightFact]:
    """Every constant of the methods, counted once, as floats (``half``: float16), packed integers and indices.

    Floats that only layers in float32 read are float32.

    Pieces and views of a matrix count as what they are taken from: a matrix that two methods cut in the same way is
    stored once.
    """
    held: dict[str, dict[str, WeightFact]] = {}
    for program in methods.values():
        states, kept = {state.buffer for state in program.interface.states}, kept_constants(program.graph)
        for node in program.graph.graph.nodes:
            if node.op == "get_attr" and node.users and str(node.target) not in states:
                narrow = half and node.target not in kept
                fact = _fact(program, node, _HALF_BITS if narrow else _FLOAT_BITS, index_bits)
                held.setdefault(original(fact.name), {})[fact.name] = fact
    return [_join(name, list(parts.values())) for name, parts in sorted(held.items())]


def original(name: str) -> str:
    """The name of the tensor that a piece or view was taken from."""
    return _VIEWS.sub("", name)


def _fact(program: Program, node: Node, float_bits: int, index_bits: int) -> WeightFact:
    value: Tensor = attribute(program.graph, str(node.target))
    bits = stored_bits(program, node, float_bits, index_bits)
    size = -(-value.numel() * bits // 8)
    dtype = f"{'u' if value.dtype.itemsize == 1 and not value.dtype.is_signed else ''}int{bits}"
    return WeightFact(
        name=str(node.target),
        dtype=f"float{float_bits}" if value.is_floating_point() else dtype,
        shape=list(value.shape),
        container_bits=bits,
        information_bits=bits,
        bytes=size,
        # The model as it is reads nothing of an adapter.
        active=0.0 if is_added(str(node.target)) else 1.0,
    )


def _join(name: str, parts: list[WeightFact]) -> WeightFact:
    """One fact for a matrix, from the facts of its pieces."""
    if len(parts) == 1:
        return parts[0].model_copy(update={"name": name})
    values = sum(part.bytes * 8 // int(part.container_bits) for part in parts)
    update = {"name": name, "shape": [values], "bytes": sum(part.bytes for part in parts)}
    return parts[0].model_copy(update=update)
