"""Convolutions and recurrent layers that a target leaves in float, although the recipe rounds weights.

Static forms (Core ML, Core AI, ONNX) round linear layers alone. A recipe of 8 bits then says nothing of the size of a
network that consists of convolutions: the report names them. The loops that ExecuTorch's kernels make of recurrent
layers hold the matrix that reads the hidden state in float, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgec.exporter.recipes.recipe import Recipe
from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_name
from edgec.ir.recurrent_layers import WEIGHT
from edgec.ir.weight_decision import Decision, decide
from edgec.passes.contract import nodes_of
from edgec.passes.graph.convolution_call import convolutions

aten = torch.ops.aten
_RECURRENT = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)
_REASON = "this target's recipes round linear layers alone"
_LOOPS = "a loop of ExecuTorch's own kernels holds floats"


def float_layers(program: Program, recipe: Recipe, bits: int) -> list[Decision]:
    """A decision for each such weight.

    Args:
        program: as it is lowered.
        recipe: nothing is left where it rounds none, or where a rule of its own says float.
        bits: of a float in the artifact.
    """
    if recipe.weights is None:
        return []
    return [each for role, node in _weights(program) if (each := _decision(program, recipe, role, node, bits))]


def float_loops(program: Program, recipe: Recipe) -> list[Decision]:
    """A decision for each matrix of LSTM and GRU operators that is in float, with arguments as ``float_layers``."""
    if recipe.weights is None:
        return []
    nodes: list[Any] = [node.args[WEIGHT[node.target]] for node in nodes_of(program.graph, *WEIGHT)]
    decisions = (_decision(program, recipe, "recurrence", node, 32, _LOOPS) for node in dict.fromkeys(nodes))
    return [each for each in decisions if each]


def _weights(program: Program) -> Iterator[tuple[str, Node]]:
    """The float matrices of convolutions and recurrent layers, each once."""
    calls = [("convolution", call.weight) for call in convolutions(program.graph)]
    given: list[Any] = [node.args[2] for node in nodes_of(program.graph, *_RECURRENT)]
    calls += [("recurrence", each) for parameters in given for each in parameters]
    for role, node in dict.fromkeys(calls):
        if node.op == "get_attr" and _value(program, node).is_floating_point() and _value(program, node).dim() > 1:
            yield role, node


def _value(program: Program, node: Node) -> Tensor:
    value: Tensor = attribute(program.graph, str(node.target))
    return value


def _decision(
    program: Program, recipe: Recipe, role: str, node: Node, bits: int, reason: str = _REASON
) -> Decision | None:
    name, shape = parameter_name(node), _value(program, node).shape
    asked = next((scheme for pattern, scheme in recipe.rules if fnmatchcase(name, pattern)), recipe.weights)
    if asked is None:
        return None
    found = decide(name, role, (shape[0], prod(shape[1:])), asked, (None, reason))
    return replace(found, container_bits=bits, bytes=found.bytes * bits // 32)
