"""Put embedding tables on integer grids; rows are dequantised as they are looked up.

    embedding(W, tokens)
    ==>
    embedding(dequantize_affine(W_int, scale, 0), tokens)        or dequantize_minimum(W_int, scale, minimum)

Legality: W is a parameter. ExecuTorch fuses the pair into ``quantized_decomposed::embedding_{2bit,4bit,byte}``, which
reads only the rows it needs. A table tied to a matrix of the same scheme shares its integers, so that a backend may
store them once; otherwise it has its own integers. Tables of few rows stay in float. Measured on
stories260K with recipe 4bit: perplexity +7.2 % at 8 bits, +7.6 % at 4 bits in groups of 32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from edgec.ir.kernel_grids import KernelGrid, fit, lookup_kernels
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import (
    WEIGHT_FORMS,
    decisions_of,
    dequantized,
    drop_if_unused,
    matrix,
    parameter_name,
    parameter_of,
    record,
)
from edgec.ir.weight_decision import Decision, decide
from edgec.ir.weight_scheme import WeightScheme, require_supported
from edgec.passes.compress.rounding.placement import place_integers
from edgec.passes.compress.rounding.stored_integers import scheme_to_keep
from edgec.passes.compress.rounding.weight_grid import require_algorithm, without_inputs
from edgec.passes.contract import nodes_of

aten = torch.ops.aten


@dataclass(frozen=True)
class QuantizeEmbedding:
    """Store embedding tables as integers; approximate.

    Attributes:
        bits: 2, 4 or 8; with minimums 2 to 6.
        group_size: values of a row that share a scale; 0 for one scale per row.
        algorithm: how scales are chosen: ``rtn``, ``hqq`` or ``mse``, which the others are here.
        scale_bits: 32, or 16 for scales that bfloat16 can hold; with minimums 6 or 16.
        symmetric: integers lie around 0; else groups have minimums.
        kernels: what is read besides the groups of ``lookup_kernels``.
        min_rows: smaller tables (token types, a few positions) stay in float.
        keeps: whether integers that the checkpoint stores, and ``kernels`` read, are kept.
        alike: tables are read by ``kernels`` alone, as matrices are.
    """

    bits: int = 8
    group_size: int = 0
    algorithm: str = "mse"
    scale_bits: int = 32
    symmetric: bool = True
    kernels: tuple[KernelGrid, ...] = ()
    min_rows: int = 128
    keeps: bool = False
    alike: bool = False
    name: str = "quantize_embedding"
    effect: Effect = Effect.APPROXIMATE

    @property
    def scheme(self) -> WeightScheme:
        """The scheme asked for every table; a look-up has no activations."""
        return WeightScheme(self.bits, self.group_size, self.symmetric, activation_bits=0, scale_bits=self.scale_bits)

    def requires(self, program: Program) -> None:
        """Scheme and algorithm are known."""
        require_supported(self.scheme, self.name)
        require_algorithm(self.algorithm, self.name)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Quantise one table after the other."""
        decisions = []
        for lookup in nodes_of(graph, aten.embedding.default):
            parameter = parameter_of(lookup.args[0])
            if parameter is not None:
                decisions.append(self._quantize(graph, lookup, parameter))
        record(graph, decisions)
        return program.interface

    def _quantize(self, graph: GraphModule, lookup: Node, parameter: Node) -> Decision:
        decision = self.decision_for(graph, parameter)
        if decision.used is None:
            return decision
        decision, old = place_integers(graph, parameter, decision, without_inputs(self.algorithm)), lookup.args[0]
        with graph.graph.inserting_before(lookup):
            table = dequantized(graph, decision)
        # padding_idx and what follows it concern gradients only, and the fused operator has no place for them.
        lookup.args = (table, lookup.args[1])
        drop_if_unused(graph, old if isinstance(old, Node) else None, parameter)
        return decision

    def decision_for(self, graph: GraphModule, parameter: Node) -> Decision:
        """How a table will be stored."""
        name, (rows, width) = parameter_name(parameter), matrix(graph, parameter).shape
        kept = scheme_to_keep(graph, name, self.kernels, (self.scheme,)) if self.keeps else None
        if kept is not None and kept.stored:
            return decide(name, "embedding", (rows, width), kept, fit(kept, width, self.kernels))
        fitted: tuple[WeightScheme | None, str] = (None, f"only {rows} rows; left in float")
        if rows >= self.min_rows:
            fitted = fit(self.scheme, width, (*(() if self.alike else lookup_kernels(width)), *self.kernels))
        return decide(name, "embedding", (rows, width), self.scheme, fitted)

    def ensures(self, program: Program) -> None:
        """Every table that was to be quantised is read as integers."""
        lookups = nodes_of(program.graph, aten.embedding.default)
        quantized = sum(isinstance(n.args[0], Node) and n.args[0].target in WEIGHT_FORMS for n in lookups)
        decided = [d for d in decisions_of(program.graph) if d.role == "embedding" and d.used]
        assert quantized >= len(decided)
