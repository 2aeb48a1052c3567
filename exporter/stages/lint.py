"""The Neural Engine's rules, checked on the graphs that are about to be converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from edgec.backends.coreml.activation_ranges import activation_ranges
from edgec.backends.coreml.lint import lint_methods
from edgec.bundle.manifest import LintFinding
from edgec.errors import InputError
from edgec.exporter.stages.compiled import WeightFact
from edgec.ir.program import Program

Calls = Mapping[str, Sequence[Sequence[Tensor]]]


def findings(methods: Mapping[str, Program], weights: Sequence[WeightFact], calls: Calls) -> list[LintFinding]:
    """What keeps operators off the Neural Engine.

    Args:
        methods: the graphs, after all passes.
        weights: what the artifact will hold.
        calls: inputs of some calls by method, on which values are measured against float16's range.

    Raises:
        InputError: E406, Core ML has no form for something.
    """
    ranges = {name: activation_ranges(_held(methods[name]), each) for name, each in calls.items()}
    found = lint_methods(methods, stored_bytes=sum(weight.bytes for weight in weights), ranges=ranges)
    for finding in found:
        if finding.severity == "refused":
            raise InputError(
                what=f"Core ML has no form for {finding.found}",
                where=finding.place,
                why=f"the linter's rule {finding.rule}",
                fix=finding.fix,
                code="E406",
            )
    return [LintFinding.model_validate(finding.to_json()) for finding in found]


def _held(program: Program) -> Program:
    """The program with those states only that it holds itself; others are inputs."""
    inside = tuple(state for state in program.interface.states if hasattr(program.graph, state.buffer))
    return replace(program, interface=replace(program.interface, states=inside))
