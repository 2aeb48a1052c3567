"""Put convolutions on 8 bits: weights with a scale for each output channel, activations in fixed ranges.

    x -> conv(W) -> relu -> max_pool
    ==>
    x -> int8 -> conv(dequantize_affine(W_int, scale [out], 0)) -> relu -> int8 -> max_pool -> int8

Ranges are what the judged inputs give in float. A batch norm is folded into the convolution before it
(fold_batch_norm.py), else it becomes a convolution of one value (norm_to_convolution.py). 8 bits are kept through what
XNNPACK computes in integers beside convolutions (convolution_regions.py).

Legality: a weight that is a parameter, one or two dimensions of fixed sizes, one group where it is transposed. Other
convolutions stay in float, and the decision says why; so do those that a rule names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import prod

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import owner_of, set_buffer
from edgec.ir.fixed_ranges import FixedRange, quantized, read_by
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import (
    DEQUANTIZE,
    WEIGHT_FORMS,
    decisions_of,
    drop_if_unused,
    parameter_name,
    parameter_of,
    record,
)
from edgec.ir.weight_decision import Decision, decide
from edgec.ir.weight_scheme import SchemeRule, WeightScheme
from edgec.passes.compress.convolution_regions import StoredValue, held_values, held_where_rounded, is_output
from edgec.passes.contract import last_placeholder
from edgec.passes.fuse.norm_to_convolution import norms_to_convolutions
from edgec.passes.graph.calibration import Calibration
from edgec.passes.graph.convolution_call import ConvolutionCall, convolutions
from edgec.passes.graph.observed_ranges import Seen, observed_ranges
from edgec.passes.graph.weight_edits import constant, is_constant

ROLE = "convolution"
STORED = WeightScheme(8, group_size=0, activation_bits=8, activation_group=0)
"""What XNNPACK's convolutions read: 8 bits with a scale for each output channel."""
_HIGH = 127
# [B, C, T] and [B, C, H, W].
_RANKS = (3, 4)
# A bias becomes an integer of the input's scale times the weight's, and must leave room for sums in 32 bits.
_MOST_BIAS = float(1 << 30)
# Of 255: a channel of an output that varies by fewer says nothing any more.
_FEWEST_STEPS = 8
# Of all weights of convolutions.
_FEW_WEIGHTS = 0.05
# Of an end of a range, beyond what the judged inputs gave.
_MARGIN = 0.1
# Of the largest scale: a channel of zeros has one, too, and XNNPACK's multipliers must not vanish.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class QuantizeConvolutions:
    """Store the weights of convolutions as integers, and compute with integers; approximate.

    Attributes:
        calibration: inputs on which ranges are observed.
        rules: (pattern on the parameter's name, scheme or None for float); the first match wins.
        default: the scheme of convolutions that no rule names; None leaves them in float.
    """

    calibration: Calibration
    rules: tuple[SchemeRule, ...] = ()
    default: WeightScheme | None = field(default_factory=WeightScheme)
    name: str = "quantize_convolutions"
    effect: Effect = Effect.APPROXIMATE

    def concerns(self, program: Program) -> bool:
        """Whether there is a convolution."""
        return bool(convolutions(program.graph))

    def requires(self, program: Program) -> None:
        """No requirement: what is not legal stays in float."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Observe ranges, then put one value after the other on 8 bits, and each weight with the value it reads."""
        open_calls = [call for call in convolutions(graph) if call.weight.target not in WEIGHT_FORMS]
        asked = {call.node: self._decision(graph, call) for call in open_calls}
        if not any(decision.used for decision in asked.values()):
            record(graph, asked.values())
            return program.interface
        for node in norms_to_convolutions(graph):
            asked[node] = self._decision(graph, ConvolutionCall.of(node))
        wanted = [ConvolutionCall.of(node) for node, decision in asked.items() if decision.used]
        values = held_values(graph, wanted)
        calls = self.calibration.calls(program)
        seen = observed_ranges(graph, program, [value.node for value in values], calls)
        ranges = _ranges(values, seen)
        left = {call.node: reason for call in wanted if (reason := _why_left(call, values, ranges, seen))}
        left |= dict.fromkeys(_small_outputs(asked, values), "an output of few weights")
        rounded = {call.node for call in wanted if call.node not in left}
        for call in (call for call in wanted if call.node in rounded):
            asked[call.node] = _round(graph, call, asked[call.node], ranges[_input(call, values)])
        _hold(graph, held_where_rounded(values, rounded), ranges)
        record(graph, [_left(each, left[node]) if node in left else each for node, each in asked.items()])
        return program.interface

    def _decision(self, graph: GraphModule, call: ConvolutionCall) -> Decision:
        """How a convolution's weight will be stored, if its activations have ranges."""
        parameter = parameter_of(call.weight)
        name = call.node.name if parameter is None else parameter_name(parameter)
        scheme = next((own for pattern, own in self.rules if fnmatchcase(name, pattern)), self.default)
        reason = _why_not(call, scheme) if scheme else ""
        used = None if scheme is None or reason else STORED
        if used is not None and scheme is not None and scheme.bits != used.bits:
            reason = "XNNPACK's convolutions read 8 bits, with a scale for each output channel"
        shape = tuple(constant(graph, call.weight).shape) if is_constant(call.weight) else (1, 0)
        return decide(name, ROLE, _as_matrix(call, shape), scheme, (used, reason))

    def ensures(self, program: Program) -> None:
        """Every convolution that was to be rounded reads integers."""
        names = {d.buffers[0] for d in decisions_of(program.graph) if d.role == ROLE and d.used}
        weights = [call.weight for call in convolutions(program.graph) if call.weight.target is DEQUANTIZE]
        assert names == {str(each.all_input_nodes[0].target) for each in weights}


def _why_not(call: ConvolutionCall, scheme: WeightScheme) -> str:
    """Why a convolution stays in float; empty where XNNPACK computes it in integers."""
    x = call.x.meta.get("val")
    sizes = () if x is None else x.shape
    stored = all(each is None or parameter_of(each) is not None for each in (call.weight, call.bias))
    faults = (
        (scheme.is_table, "convolutions read no look-up tables here"),
        (not scheme.activation_bits, "the recipe leaves activations in float"),
        (not stored, "its weight is computed"),
        (x is None or x.dtype is not torch.float32, "its input is not float32"),
        (not all(isinstance(size, int) for size in sizes), "its input varies in size"),
        (len(sizes) not in _RANKS, f"XNNPACK has no convolution over {len(sizes) - 2} dimensions"),
        (call.transposed and call.groups > 1, "XNNPACK has no transposed one in groups with a scale for each channel"),
    )
    return next((reason for wrong, reason in faults if wrong), "")


def _left(decision: Decision, reason: str) -> Decision:
    """The decision on a convolution that stays in float after all."""
    shape = decision.shape
    return replace(
        decision,
        used=None,
        reason=reason,
        bytes=4 * prod(shape),
        container_bits=32,
        information_bits=32,
    )


def _as_matrix(call: ConvolutionCall, shape: Sequence[int]) -> tuple[int, int]:
    """The output channels that have scales, and the values of each."""
    rows = shape[call.channel]
    return rows, prod(shape) // max(1, rows)


def _input(call: ConvolutionCall, values: Sequence[StoredValue]) -> Node:
    """The node whose integers a convolution reads, through padding where there is some."""
    return next(value.node for value in values if call.node in value.convolutions)


def _widened(seen: Sequence[Seen]) -> FixedRange:
    """One range for values, with room for what other inputs give: cut off, it is wrong by far more than a step."""
    low, high = min(each.low for each in seen), max(each.high for each in seen)
    return FixedRange.of(low * (1 + _MARGIN), high * (1 + _MARGIN))


def _small_outputs(asked: Mapping[Node, Decision], values: Sequence[StoredValue]) -> list[Node]:
    """The convolutions whose results are outputs, and whose weights are few: 8 bits would spare next to nothing."""
    total = sum(prod(decision.shape) for decision in asked.values() if decision.used)
    results = {value.result_of: value.node for value in values if value.result_of is not None}
    small = [node for node in results if prod(asked[node].shape) <= _FEW_WEIGHTS * total]
    return [node for node in small if is_output(results[node]) or _ends(results[node])]


def _ends(node: Node) -> bool:
    """Whether a value goes through one more operator, such as a softmax, and then leaves the graph."""
    return all(user.op != "output" and is_output(user) for user in node.users)


def _why_left(
    call: ConvolutionCall,
    values: Sequence[StoredValue],
    ranges: Mapping[Node, FixedRange],
    seen: Mapping[Node, Seen],
) -> str:
    """Why what a convolution reads and gives has no ranges that serve; empty where it has."""
    result = next(value.node for value in values if value.result_of is call.node)
    if result not in ranges or _input(call, values) not in ranges:
        return "its activations are not finite on the judged inputs"
    few = 0 < seen[result].narrowest < _FEWEST_STEPS * ranges[result].scale
    return "an output whose channels differ too much in size to share a range" if few and is_output(result) else ""


def _ranges(values: Sequence[StoredValue], seen: Mapping[Node, Seen]) -> dict[Node, FixedRange]:
    """The range of each value: one for all that are tied, wide enough for each; none where one of them has none."""
    tied: dict[Node, frozenset[Node]] = {value.node: frozenset({value.node}) for value in values}
    for value in values:
        group = tied[value.node].union(*(tied[each] for each in value.like))
        tied |= dict.fromkeys(group, group)
    return {node: _widened([seen[each] for each in group]) for node, group in tied.items() if group <= seen.keys()}


def _hold(graph: GraphModule, values: Sequence[StoredValue], ranges: Mapping[Node, FixedRange]) -> None:
    """Let the readers of each value read its integers."""
    for value in values:
        node = value.node
        readers = [*node.users] if value.every_reader else value.readers
        after = last_placeholder(graph) if node.op == "placeholder" else node
        with graph.graph.inserting_after(after):
            integers = quantized(graph.graph, node, ranges[node])
        read_by(graph.graph, integers, node, ranges[node], readers)


def _round(graph: GraphModule, call: ConvolutionCall, decision: Decision, read: FixedRange) -> Decision:
    """Let a convolution read its weight's integers."""
    parameter = parameter_of(call.weight)
    assert parameter is not None
    stem = str(parameter.target)
    decision = decision.placed((f"{stem}_int", f"{stem}_scale", f"{stem}_zero_point"), "rtn")
    weight = constant(graph, call.weight)
    if not hasattr(*owner_of(graph, decision.buffers[0])):
        bias = None if call.bias is None else constant(graph, call.bias)
        scale = _scales(call, weight, bias, read)
        integers = torch.round(weight / scale).clamp(-_HIGH, _HIGH).to(torch.int8)
        zeros = torch.zeros(scale.numel(), dtype=torch.int8)
        for name, value in zip(decision.buffers, (integers, scale.flatten().contiguous(), zeros), strict=True):
            set_buffer(graph, name, value)
    block = [1 if dim == call.channel else size for dim, size in enumerate(weight.shape)]
    with graph.graph.inserting_before(call.node):
        parts = [graph.graph.get_attr(name) for name in decision.buffers]
        made = graph.graph.call_function(DEQUANTIZE, (parts[0], block, *parts[1:], torch.int8, -_HIGH, _HIGH))
    made.meta = {"val": call.weight.meta["val"]} if "val" in call.weight.meta else {}
    old = call.weight
    call.node.update_arg(1, made)
    drop_if_unused(graph, old, parameter)
    return decision


def _scales(call: ConvolutionCall, weight: Tensor, bias: Tensor | None, read: FixedRange) -> Tensor:
    """The scale of each output channel, float32 [out] beside the weight's other dimensions of 1."""
    others = [dim for dim in range(weight.dim()) if dim != call.channel]
    scale = weight.abs().amax(others, keepdim=True) / _HIGH
    least = max(float(scale.max()) * _LEAST_SHARE, 1e-30)
    if bias is None:
        return scale.clamp(min=least)
    room = bias.abs().reshape(scale.shape) / (read.scale * _MOST_BIAS)
    return torch.maximum(scale.clamp(min=least), room)
