"""Whether an artifact says other tokens than its graph only because its routers chose between nearly equal experts.

    artifact:        scores -> topk -> chosen             lowered again, with scores and choices as outputs
    followed graph:  scores -> gather(chosen) -> ...      the graph with the artifact's experts in place of its own

An expert is read or not: where two scores nearly tie, the last bits of a sum decide, and what follows differs by far
more than these. The graph that takes the artifact's experts shows whether anything else differs, and its own scores
show how near each choice was.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from edgec.exporter.parity.chosen_rows import TOPK, expose_choices, given_choices
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.ir.graph_run import run_calls
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
# What may lie between a router's choice and the experts that read it.
_MOVES = (aten.index_select.default, aten.reshape.default, aten.view.default, aten.to.dtype, aten.alias.default)

Outputs = Sequence[Sequence[Tensor]]
Execute = Callable[[Program, Sequence[ProbeCall]], Outputs]


@dataclass(frozen=True)
class Routed:
    """What a graph and its artifact scored in all calls, and what the artifact chose.

    Attributes:
        scores: of the graph, [N, E]; N is tokens times routers.
        artifact_scores: the same of the artifact.
        chosen: the artifact's experts, int64 [N, K].
    """

    scores: Tensor
    artifact_scores: Tensor
    chosen: Tensor

    def margins(self) -> Tensor:
        """How far the graph's own K-th score lies over the least of those chosen, relative to the largest, [N].

        Zero where the graph would have chosen the same.
        """
        own = self.scores.topk(self.chosen.shape[1]).values[:, -1]
        return (own - self.scores.gather(1, self.chosen).amin(1)).clamp(min=0) / _largest(self.scores)

    def noise(self) -> Tensor:
        """The largest difference of a score between graph and artifact, relative to the largest score, [N]."""
        return (self.artifact_scores - self.scores).nan_to_num().abs().amax(1) / _largest(self.scores)


def _largest(scores: Tensor) -> Tensor:
    # Scores of experts that a group leaves out may be minus infinity.
    return scores.abs().masked_fill(scores.isinf(), 0).amax(1)


@dataclass(frozen=True)
class Followed:
    """A graph that took the experts of an artifact.

    Attributes:
        logits: float32 [P, V], of each call's compared rows.
        artifact_logits: the same of the artifact.
        routed: the scores and choices of all routers, one after the other.
    """

    logits: Tensor
    artifact_logits: Tensor
    routed: Sequence[Routed]


def follow(program: Program, calls: Sequence[ProbeCall], execute: Execute) -> Followed | None:
    """Run an artifact, and its graph with the experts that the artifact chose; None where no router is known.

    Args:
        program: the graph, which returns the logits of chosen rows.
        calls: what both are fed.
        execute: lowers a program and runs its artifact.
    """
    count = len(routers(program))
    if not count:
        return None
    ran = execute(expose_choices(program, routers), calls)
    fed = [[*call.inputs, *outputs[-count:]] for call, outputs in zip(calls, ran, strict=True)]
    with torch.no_grad():
        own: Outputs = run_calls(given_choices(program, routers), fed)
    scored = [_rows(own, i - count) for i in range(count)]
    told = [(_rows(ran, i - 2 * count), _rows(ran, i - count)) for i in range(count)]
    routed = [Routed(scores, *theirs) for scores, theirs in zip(scored, told, strict=True)]
    return Followed(torch.cat([each[0][0] for each in own]), torch.cat([each[0][0] for each in ran]), routed)


def _rows(outputs: Outputs, index: int) -> Tensor:
    """One output of all calls, a row for each token."""
    return torch.cat([each[index].flatten(0, -2) for each in outputs])


def routers(program: Program) -> list[Node]:
    """The choices of experts in a graph: every ``topk`` whose indices experts read, in graph order."""
    found = (_choice(ExpertsCall.of(node).index) for node in nodes_of(program.graph, EXPERTS))
    return list(dict.fromkeys(node for node in found if node is not None))


def _choice(index: Node) -> Node | None:
    """The ``topk`` that an index comes from."""
    while index.target in _MOVES:
        index = index.all_input_nodes[0]
    if index.target is not operator.getitem or index.args[1] != 1:
        return None
    source = index.all_input_nodes[0]
    return source if source.target is TOPK else None
