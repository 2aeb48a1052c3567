"""Put the matrices that recurrent layers multiply their hidden state with on 8 bits, a scale for each row.

    edgec::lstm(given, h, c, W)    ==>    edgec::lstm(given, h, c, dequantize_affine(W_int, scale [rows], 0))

The kernel reads bytes in place of floats, and the hidden state in float: what is rounded is the weight alone. The
matrix that reads the input is a linear layer like others. Recipes of fewer bits get 8, and the decision says so: an
error of the hidden state is multiplied again at every step. Legality: a weight that is a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch.fx import GraphModule, Node

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
from edgec.ir.recurrent_layers import WEIGHT
from edgec.ir.weight_decision import Decision, decide
from edgec.ir.weight_scheme import SchemeRule, WeightScheme
from edgec.passes.compress.rounding.placement import place_integers
from edgec.passes.contract import nodes_of

ROLE = "recurrence"
STORED = WeightScheme(8, group_size=0, activation_bits=0)


@dataclass(frozen=True)
class QuantizeRecurrent:
    """Store the recurrent matrices of LSTM and GRU layers as integers; approximate.

    Attributes:
        rules: (pattern on the parameter's name, scheme or None for float); the first match wins.
        default: the scheme of matrices that no rule names; None leaves them in float.
    """

    rules: tuple[SchemeRule, ...] = ()
    default: WeightScheme | None = field(default_factory=WeightScheme)
    name: str = "quantize_recurrent"
    effect: Effect = Effect.APPROXIMATE

    def concerns(self, program: Program) -> bool:
        """Whether there is a recurrent layer."""
        return bool(nodes_of(program.graph, *WEIGHT))

    def requires(self, program: Program) -> None:
        """No requirement: computed weights stay in float."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Round one matrix after the other."""
        for node in nodes_of(graph, *WEIGHT):
            weight = node.args[WEIGHT[node.target]]
            parameter = parameter_of(weight)
            if parameter is not None and isinstance(weight, Node):
                record(graph, [self._quantize(graph, node, weight, parameter)])
        return program.interface

    def _quantize(self, graph: GraphModule, node: Node, old: Node, parameter: Node) -> Decision:
        name, (rows, width) = parameter_name(parameter), matrix(graph, parameter).shape
        scheme = next((own for pattern, own in self.rules if fnmatchcase(name, pattern)), self.default)
        used = STORED if scheme is not None and not scheme.is_table else None
        reason = "edgec's recurrent kernels read 8 bits, with a scale for each row" if scheme else ""
        same = used is not None and scheme is not None and scheme.bits == used.bits
        decision = decide(name, ROLE, (rows, width), scheme, (used, "" if same else reason))
        if used is None:
            return decision
        decision = place_integers(graph, parameter, decision, "rtn")
        with graph.graph.inserting_before(node):
            node.update_arg(WEIGHT[node.target], dequantized(graph, decision))
        drop_if_unused(graph, old, parameter)
        return decision

    def ensures(self, program: Program) -> None:
        """Every matrix that was to be rounded reads integers."""
        count = sum(each.role == ROLE and each.used is not None for each in decisions_of(program.graph))
        weights = [node.args[WEIGHT[node.target]] for node in nodes_of(program.graph, *WEIGHT)]
        assert sum(isinstance(each, Node) and each.target in WEIGHT_FORMS for each in weights) >= count
