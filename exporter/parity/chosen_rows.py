"""Modules that choose rows by their scores, as detectors of two stages do: a graph is run with its artifact's choice.

    scores [..., N] -> topk -> indices [..., k] -> gather -> decoder -> outputs
                               the artifact's

Where scores nearly tie, the last bits of a sum choose another row, and all outputs after it differ. That is rounding if
the artifact's scores are the graph's to within rounding, if it chose the best of its own, and if the graph computes the
same outputs of these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.fx import Node

from edgec.bundle.findings import Rung
from edgec.exporter.parity.divergence import showing, shown_values, with_outputs
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import OutputForm, forms_of
from edgec.exporter.parity.outputs import flatten_outputs, judge_again
from edgec.ir.program import Program
from edgec.passes.contract import clone, last_placeholder

TOPK = torch.ops.aten.topk.default


@dataclass(frozen=True)
class Choice:
    """One choice of an artifact.

    Attributes:
        scores: of all rows, float [..., N].
        indices: of the chosen ones, int [..., k].
    """

    scores: Tensor
    indices: Tensor

    @property
    def is_of_the_best(self) -> bool:
        """Whether they are rows, each chosen once, and none that was left out has a higher score."""
        ordered = self.indices.sort(-1).values
        known = bool((ordered >= 0).all() and (ordered < self.scores.shape[-1]).all())
        if not known or not bool((ordered.diff(dim=-1) > 0).all()):
            return False
        chosen = self.scores.gather(-1, self.indices)
        return torch.equal(chosen.sort(-1).values, self.scores.topk(self.indices.shape[-1]).values.flip(-1))


def row_choices(program: Program) -> list[Node]:
    """The nodes that choose along the last dimension, in order, whose indices are read."""
    nodes = [node for node in program.graph.graph.nodes if node.target is TOPK and _is_last(node)]
    return [node for node in nodes if any(user.args[1] == 1 for user in node.users)]


def chooses_rows(program: Program) -> bool:
    """Whether a program chooses rows by their scores, along the last dimension."""
    return bool(row_choices(program))


def expose_choices(program: Program) -> Program:
    """The program with the scores of all its choices, then their indices, after its own outputs."""
    program = replace(program, graph=clone(program.graph))
    scores, indices = _shown(program)
    named = {node: f"scores_{i}" for i, node in enumerate(scores)}
    return showing(program, named | {node: f"chosen_{i}" for i, node in enumerate(indices)})


def _shown(program: Program) -> tuple[list[Node], list[Node]]:
    """The scores of all choices, and their indices."""
    found = row_choices(program)
    return [topk.all_input_nodes[0] for topk in found], [_indices(topk) for topk in found]


def given_choices(program: Program) -> Program:
    """The program with the indices of all its choices as further inputs, and their scores as further outputs."""
    graph = clone(program.graph)
    program = replace(program, graph=graph)
    found = row_choices(program)
    scores = {topk.all_input_nodes[0]: f"scores_{i}" for i, topk in enumerate(found)}
    for index, topk in enumerate(found):
        with graph.graph.inserting_after(last_placeholder(graph)):
            chosen = graph.graph.placeholder(f"chosen_{index}")
        with graph.graph.inserting_before(topk):
            values = graph.graph.call_function(torch.ops.aten.gather.default, (topk.args[0], -1, chosen))
        for user in list(topk.users):
            user.replace_all_uses_with(chosen if user.args[1] else values)
            graph.graph.erase_node(user)
        graph.graph.erase_node(topk)
    return with_outputs(program, scores)


def read_choices(program: Program, outputs: Sequence[Tensor]) -> list[Choice]:
    """The choices among the outputs of what ``expose_choices`` made of a program."""
    scores, indices = _shown(program)
    told, count = shown_values(program, [*scores, *indices], outputs), len(scores)
    return [Choice(values.float(), rows.long()) for values, rows in zip(told[:count], told[count:], strict=True)]


def rung_with_choices(
    rung: Rung,
    program: Program,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    exposed: Sequence[Tensor],
    forms: Sequence[OutputForm],
    compare: Callable[[Stage, Stage], Rung],
) -> Rung:
    """Judge an executed artifact again, beside its graph with the artifact's choice of rows.

    Args:
        rung: of the artifact beside its graph as it is.
        program: the graph.
        inputs: of both.
        outputs: of the artifact.
        exposed: of another artifact, lowered from ``expose_choices(program)``.
        forms: of the outputs.
        compare: makes a rung of two stages.

    Returns:
        The rung with these choices where it passes, its scores judged like an output; else the first one, as where the
        other artifact computes other outputs, or one did not choose the best of its own scores.
    """
    choices = read_choices(program, exposed)
    same = torch.equal(flatten_outputs(outputs), flatten_outputs(exposed[: len(outputs)]))
    if not (same and all(choice.is_of_the_best for choice in choices)):
        return rung
    wanted, scores = run_with_choices(program, inputs, choices)
    told = [choice.scores for choice in choices]
    before = Stage(rung.reference, torch.cat([wanted, flatten_outputs(scores)], 1))
    after = Stage(rung.stage, flatten_outputs([*outputs, *told]))
    others, chosen = sum(map(_others, scores, choices)), sum(choice.indices.numel() for choice in choices)
    note = f"{others} of {chosen} rows chosen otherwise; the graph is given this choice"
    return judge_again(rung, before, after, [*forms, *forms_of(told, inputs)], compare, note)


def _others(scores: Tensor, choice: Choice) -> int:
    """How many rows the graph would not have chosen."""
    k = choice.indices.shape[-1]
    own = torch.zeros_like(scores).scatter(-1, scores.topk(k).indices, 1)
    return int((own.gather(-1, choice.indices) == 0).sum())


def run_with_choices(
    program: Program, inputs: Sequence[Tensor], choices: Sequence[Choice]
) -> tuple[Tensor, list[Tensor]]:
    """Run a program that is given its choices; returns its outputs, float32 [1, values], and its scores."""
    with torch.no_grad():
        outputs = given_choices(program).graph(*inputs, *(choice.indices for choice in choices))
    own = len(outputs) - len(choices)
    return flatten_outputs(outputs[:own]), list(outputs[own:])


def _is_last(node: Node) -> bool:
    dimension = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1)
    return dimension in (-1, node.args[0].meta["val"].dim() - 1)  # type: ignore[union-attr]


def _indices(topk: Node) -> Node:
    return next(user for user in topk.users if user.args[1] == 1)
