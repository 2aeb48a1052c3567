"""Whether an artifact says other tokens than its graph only because activations were rounded the other way.

    artifact:        x -> choose_qparams, quantize -> ...    lowered again, with every x as an output
    followed graph:  artifact's x -> choose_qparams, quantize -> ...    its own x is an output

Activations are rounded to 8 bits before matrices of integers. Where one lies midway between two of them, the order of a
sum decides, and in a row of 64 values this moves what follows by a percent; where two experts nearly tie, another one
is read. The graph that takes the artifact's activations shows whether anything else differs: layer by layer, and in the
logits at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.fx import Node

from edgec.exporter.parity.divergence import with_outputs
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.ir.graph_run import run_calls
from edgec.ir.program import Program
from edgec.ir.quantized_form import QUANTIZE
from edgec.passes.contract import clone, last_placeholder, nodes_of

Outputs = Sequence[Sequence[Tensor]]
# Of a row's largest value. A key or value that the cache rounds to float16 the other way moves what attention gives by
# up to 2^-11 of it, in few rows; what is computed otherwise differs in most (a GELU by tanh by 3e-4).
NEAR, USUALLY_NEAR = 1e-3, 5e-5
Execute = Callable[[Program, Sequence[ProbeCall]], Outputs]


@dataclass(frozen=True)
class Followed:
    """A graph that took the activations of an artifact wherever they are rounded.

    Attributes:
        logits: float32 [P, V], of each call's compared rows.
        artifact_logits: the same of the artifact.
        apart: how far each activation that is rounded is from the artifact's, relative to the largest of the row, [R]
            for the rows of all calls.
    """

    logits: Tensor
    artifact_logits: Tensor
    apart: Sequence[Tensor]


def follow(program: Program, calls: Sequence[ProbeCall], execute: Execute) -> Followed | None:
    """Run an artifact, and its graph with the activations of the artifact; None where nothing is rounded.

    Args:
        program: the graph, which returns the logits of chosen rows.
        calls: what both are fed.
        execute: lowers a program and runs its artifact.
    """
    count = len(_rounded(program))
    if not count:
        return None
    ran = execute(_exposed(program), calls)
    fed = [[*call.inputs, *outputs[-count:]] for call, outputs in zip(calls, ran, strict=True)]
    with torch.no_grad():
        own: Outputs = run_calls(_given(program), fed)
    return Followed(
        torch.cat([each[0][0] for each in own]),
        torch.cat([each[0][0] for each in ran]),
        [torch.cat([_apart(a[i], b[i]) for a, b in zip(own, ran, strict=True)]) for i in range(-count, 0)],
    )


def _rounded(program: Program) -> list[Node]:
    """The activations that are rounded, in graph order."""
    return list(dict.fromkeys(node.all_input_nodes[0] for node in nodes_of(program.graph, QUANTIZE)))


def _exposed(program: Program) -> Program:
    program = replace(program, graph=clone(program.graph))
    return with_outputs(program, _named(_rounded(program)))


def _given(program: Program) -> Program:
    """The program with its rounded activations as further inputs, and its own as further outputs."""
    graph = clone(program.graph)
    program = replace(program, graph=graph)
    found = _named(_rounded(program))
    for node, name in found.items():
        with graph.graph.inserting_after(last_placeholder(graph)):
            given = graph.graph.placeholder(name)
        node.replace_all_uses_with(given)
    return with_outputs(program, found)


def _named(activations: Sequence[Node]) -> dict[Node, str]:
    return {node: f"activation_{index}" for index, node in enumerate(activations)}


def _apart(own: Tensor, told: Tensor) -> Tensor:
    difference = (own - told).abs().flatten(0, -2).amax(-1)
    return difference / told.abs().flatten(0, -2).amax(-1).clamp(min=1e-12)
