"""Integers and truth values that scores decide, as class maps and masks hold: judged by the artifact's own scores.

    image -> ... -> scores [1, C, H, W] -> argmax, or > 0.5 -> classes [1, H, W]
                    the artifact's      -> the same rule    -> what its scores say

Where scores nearly tie, the last bits of a sum decide otherwise. That is rounding if the artifact's scores are the
graph's to within rounding, and if its integers are what its own scores say wherever the last bit of these does not
decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.bundle.findings import Rung
from edgec.exporter.parity.divergence import showing, shown_values
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import OutputForm, forms_of
from edgec.exporter.parity.outputs import flatten_outputs, judge_again
from edgec.ir.program import Program
from edgec.passes.contract import clone, last_placeholder, output_node

aten = torch.ops.aten
# Floats that are whole numbers already.
_STEPS = frozenset({aten.round.default, aten.floor.default, aten.ceil.default, aten.trunc.default, aten.sign.default})
# A score on a boundary falls to the same side in all of them once in 65,536 times.
_DRAWS = 16


def deciding_scores(program: Program) -> list[Node]:
    """The floats that the integers among a program's outputs are made from, each once."""
    graph = program.graph.graph
    found = dict.fromkeys(score for value in _counted_outputs(program.graph) for score in _scores_of(value))
    return [node for node in graph.nodes if node in found]


def has_decisions(program: Program) -> bool:
    """Whether scores decide an output of integers or truth values."""
    return bool(deciding_scores(program))


def expose_scores(program: Program) -> Program:
    """The program with all deciding scores after its own outputs."""
    program = replace(program, graph=clone(program.graph))
    return showing(program, {node: f"scores_{i}" for i, node in enumerate(deciding_scores(program))})


def rung_with_decisions(
    rung: Rung,
    program: Program,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    exposed: Sequence[Tensor],
    forms: Sequence[OutputForm],
    compare: Callable[[Stage, Stage], Rung],
) -> Rung:
    """Judge an executed artifact again, its integers by its own scores.

    Args:
        rung: of the artifact beside its graph as it is.
        program: the graph.
        inputs: of both.
        outputs: of the artifact.
        exposed: of another artifact, lowered from ``expose_scores(program)``.
        forms: of the outputs.
        compare: makes a rung of two stages.

    Returns:
        The rung by these scores where it passes, the scores judged like outputs; else the first one.
    """
    own, scores = list(outputs), deciding_scores(program)
    if not torch.equal(flatten_outputs(own), flatten_outputs(exposed[: len(own)])):
        return rung
    told = shown_values(program, scores, exposed)
    with torch.no_grad():
        graph_outputs = expose_scores(program).graph(*inputs)
    wanted, others = _allowed(graph_outputs[: len(own)], own, forms, said_by_scores(program, inputs, told))
    before = Stage(rung.reference, flatten_outputs([*wanted, *shown_values(program, scores, graph_outputs)]))
    after = Stage(rung.stage, flatten_outputs([*own, *told]))
    note = f"{others} values decided otherwise, by scores that nearly tie"
    return judge_again(rung, before, after, [*forms, *forms_of(told, inputs)], compare, note)


def _allowed(
    graph: Sequence[Tensor], own: Sequence[Tensor], forms: Sequence[OutputForm], said: Sequence[tuple[Tensor, Tensor]]
) -> tuple[list[Tensor], int]:
    """What the artifact should give: of integers, what its scores say, its own where these do not decide.

    Returns:
        The outputs, and how many integers the artifact has that the graph has not.
    """
    values, wanted, others = iter(said), list(graph), 0
    for index, form in enumerate(forms):
        if form.counts:
            value, known = next(values)
            made = own[index].to(value.dtype)
            others += int((made != graph[index]).sum())
            wanted[index] = torch.where(known, value, made)
    return wanted, others


def said_by_scores(program: Program, inputs: Sequence[Tensor], scores: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """What scores decide, and where their last bit does not; for each output of integers."""
    rule, generator = _rule(program), torch.Generator().manual_seed(0)
    plain = [score.float() for score in scores]
    with torch.no_grad():
        said = list(rule(*inputs, *plain))
        sure = [torch.ones_like(value, dtype=torch.bool) for value in said]
        for _ in range(_DRAWS):
            drawn = [_moved(value, score.dtype, generator) for value, score in zip(plain, scores, strict=True)]
            sure = [known & (one == other) for known, one, other in zip(sure, said, rule(*inputs, *drawn), strict=True)]
    return list(zip(said, sure, strict=True))


def _moved(values: Tensor, held_in: torch.dtype, generator: torch.Generator) -> Tensor:
    """Values up to a unit in the last place away from where their format holds them."""
    step = torch.finfo(held_in).eps * (2 * torch.rand(values.shape, generator=generator) - 1)
    return values + values.abs().clamp_min(torch.finfo(held_in).tiny) * step


def _rule(program: Program) -> GraphModule:
    """The part of a graph that makes integers of scores: it takes the graph's inputs and the scores."""
    graph = clone(program.graph)
    scores = deciding_scores(replace(program, graph=graph))
    for index, node in enumerate(scores):
        with graph.graph.inserting_after(last_placeholder(graph)):
            given = graph.graph.placeholder(f"score_{index}")
        node.replace_all_uses_with(given)
    output_node(graph).args = (tuple(_counted_outputs(graph)),)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _counted_outputs(graph: GraphModule) -> list[Node]:
    """The outputs that hold integers or truth values, in order."""
    own = output_node(graph).args[0]
    values = own if isinstance(own, (tuple, list)) else (own,)
    return [value for value in values if isinstance(value, Node) and not _is_float(value)]


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_floating_point()


def _scores_of(value: Node) -> list[Node]:
    """The floats that a value of integers is made from; constants belong to the rule."""
    found, ahead, seen = list[Node](), [value], set[Node]()
    while ahead:
        node = ahead.pop()
        if node in seen or node.op == "get_attr":
            continue
        seen.add(node)
        if _is_float(node) and node.target not in _STEPS:
            found.append(node)
        else:
            ahead += node.all_input_nodes
    return found
