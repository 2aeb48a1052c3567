"""Which tensors an artifact should hold, and in how many bits: what the size ledger is checked against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from edgec.exporter.capture.decoder import attribute
from edgec.exporter.program import Program
from edgec.exporter.stages.compiled import WeightFact, dtype_name
from edgec.passes.quantized_form import decisions_of
from edgec.passes.weight_scheme import Decision

if TYPE_CHECKING:
    from edgec.backends.xnnpack.delegate import Stored

_BITS = {"float32": 32, "int8": 8, "int4": 4, "bfloat16": 16}


def weight_facts(program: Program, stored: Sequence[Stored]) -> list[WeightFact]:
    """Every constant of the artifact: inside delegates as stored there, outside as the graph holds them."""
    every = decisions_of(program.graph)
    decisions = {name: d for d in every for name in d.buffers}
    inside: dict[str, WeightFact] = {}
    for constant in stored:
        inside.setdefault(constant.key, _inside(constant, decisions))
    readers = Counter(name for d in every for name in d.buffers)
    delegated = Counter(constant.name for constant in stored)
    states = {state.buffer for state in program.interface.states}
    outside = [
        _outside(name, attribute(program.graph, name), decisions)
        for name in sorted({str(n.target) for n in program.graph.graph.nodes if n.op == "get_attr"})
        # a table that reads a delegated matrix's integers may itself be no delegate: then it is stored once more
        if delegated[name] < max(1, readers[name]) and name not in states and not name.endswith("_zero_point")
    ]
    return [*inside.values(), *outside]


def expected_bytes(facts: Iterable[WeightFact], decisions: Iterable[Decision]) -> int:
    """What the tensors should take by the recipe's bits: a weight that stayed in float does not raise it.

    A tensor that no decision covers counts as it is stored; one that a decision covers counts what was decided, its
    scales included, once for every place it is stored in.
    """
    facts = list(facts)
    covered = {name: decision for decision in decisions if decision.used for name in decision.buffers}
    floats = sum(fact.bytes for fact in facts if fact.name not in covered and not _replaced(fact.name, covered))
    places = Counter(fact.name for fact in facts)
    return floats + sum(d.bytes * max(1, places[d.buffers[0]]) for d in {id(d): d for d in covered.values()}.values())


def _replaced(name: str, covered: dict[str, Decision]) -> bool:
    """A float tensor whose integers were decided on: its bytes should not be there."""
    return f"{name}_int" in covered


def _inside(constant: Stored, decisions: dict[str, Decision]) -> WeightFact:
    bits = _BITS[constant.encoding]
    decision = decisions.get(constant.name)
    return WeightFact(
        name=constant.name,
        dtype=constant.encoding,
        shape=[constant.bytes * 8 // bits],
        container_bits=bits,
        information_bits=_information(constant.name, bits, decision),
        bytes=constant.bytes,
        reason="" if decision is None else decision.reason,
    )


def _information(name: str, bits: int, decision: Decision | None) -> float:
    return decision.information_bits if decision is not None and name.endswith("_int") else bits


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
