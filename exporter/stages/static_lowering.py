"""Lower static methods to an artifact: lint them for Apple's units, call the backend, describe the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from edgec.backends.coreml.activation_ranges import activation_ranges
from edgec.backends.coreml.lint import lint_methods
from edgec.backends.coreml.mlpackage import describe_packages
from edgec.backends.static_artifact import Chip, StaticArtifact, backend_of, chip_backend_of
from edgec.bundle.entry_points import Limits
from edgec.bundle.findings import LintFinding
from edgec.errors import InputError
from edgec.exporter.parity.half_range import Ranges, largest_value, refuse_overflow
from edgec.exporter.parity.stored_tables import check_stored_tables
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.stages.compiled import Facts, WeightFact, method_info, passes_of, save_facts, state_info
from edgec.exporter.stages.weight_facts import expected_bytes, static_weight_facts
from edgec.ir.program import Program
from edgec.ir.static_methods import STATIC_METHODS, function_name

MethodCalls = Mapping[str, Sequence[Sequence[Tensor]]]


def lower_methods(
    request: ExportRequest,
    methods: Mapping[str, Program],
    folder: Path,
    progress: Progress,
    calls: MethodCalls,
    examples: Sequence[Sequence[Tensor]] = (),
    groups: Mapping[str, Mapping[str, Program]] | None = None,
) -> None:
    """Lower methods; leave the artifact and its facts in ``folder``.

    Args:
        request: names the target and its form.
        methods: the last graphs, by name.
        folder: the stage's folder.
        progress: told of each step of the backend.
        calls: inputs of some calls by method, on which values are measured against float16's range.
        examples: inputs of a non-decoder model, one tuple per call; a chip's ranges are measured on them.
        groups: the methods that were made of one program each, by its name; None where all were made of one.

    Raises:
        InputError: E406, Core ML cannot express something; E830, float16 does not hold what the model computes.
        BudgetError: E840, the artifact stores another matrix than its graph has.
    """
    form, groups = request.form, groups or {"": methods}
    progress.enter("lower")
    held = {name: static_weight_facts(group, form.half, form.index_bits) for name, group in groups.items()}
    weights = [fact for facts in held.values() for fact in facts]
    ranges = measured_ranges(methods, calls) if form.apple_unit or form.computed_in_half else {}
    lint = lint_findings(methods, weights, ranges, form.apple_unit) if form.apple_unit else []
    largest = largest_value(methods, ranges) if form.computed_in_half else None
    if largest is not None:
        refuse_overflow(largest)
    artifact = lower_artifact(request, methods, folder / form.artifact, progress, examples)
    if form.described:
        describe_packages(folder / form.artifact, request.card)
    read_back = check_stored_tables(folder / form.artifact, methods) if form.plain_weights else 0
    limits = request.limits if request.source.kind == "decoder" else None
    under = {function_name(method, lora.name) for lora in request.loras for method in STATIC_METHODS}
    own = {name: each for name, each in artifact.interfaces.items() if name not in under}
    expected = sum(expected_bytes(held[name], _first(group)) for name, group in groups.items())
    facts = _facts(groups, replace(artifact, interfaces=own), limits, lint)
    found: dict[str, Any] = {
        "read_back": read_back,
        "weights": weights,
        "expected_weight_bytes": expected,
        "largest": str(largest or ""),
    }
    save_facts(folder, facts.model_copy(update=found))


def _first(group: Mapping[str, Program]) -> Program:
    """The program whose passes are told of a group's methods."""
    return next(iter(group.values()))


def measured_ranges(methods: Mapping[str, Program], calls: MethodCalls) -> Mapping[str, Ranges]:
    """The largest magnitude of every value on the inputs of some calls, by method and node."""
    return {name: activation_ranges(_with_own_states(methods[name]), each) for name, each in calls.items()}


def lint_findings(
    methods: Mapping[str, Program], weights: Sequence[WeightFact], ranges: Mapping[str, Ranges], unit: str
) -> list[LintFinding]:
    """What keeps operators off a unit of Apple's, as the linter says.

    Args:
        methods: the graphs, after all passes.
        weights: the tensors that the artifact will hold.
        ranges: ``measured_ranges``.
        unit: ``npu`` or ``gpu``.

    Raises:
        InputError: E406, Core ML cannot express something.
    """
    breaches = lint_methods(methods, unit=unit, stored_bytes=sum(weight.bytes for weight in weights), ranges=ranges)
    for breach in breaches:
        if breach.severity == "refused":
            raise InputError(
                what=f"Core ML cannot express {breach.found}",
                where=breach.place,
                why=f"the linter's rule {breach.rule}",
                fix=breach.fix,
                code="E406",
            )
    return [LintFinding.model_validate(breach.to_json()) for breach in breaches]


def _with_own_states(program: Program) -> Program:
    """The program with only the states that its graph holds; the others are inputs."""
    own = tuple(state for state in program.interface.states if hasattr(program.graph, state.buffer))
    return replace(program, interface=replace(program.interface, states=own))


def lower_artifact(
    request: ExportRequest,
    methods: Mapping[str, Program],
    path: Path,
    progress: Progress,
    examples: Sequence[Sequence[Tensor]],
) -> StaticArtifact:
    """Write the artifact; backends that compile for a single chip are told which one."""
    form = request.form

    def step(name: str, part: int, total: int) -> None:
        progress.step(part / total, name)

    if not form.one_chip:
        return backend_of(form.module).lower(methods, path, step)
    assert request.target.soc_model is not None  # refused before any work (check_chip)
    text = () if examples else (request.calibration or request.probe.tokens)[: request.limits.context]
    chip = Chip(request.target.soc_model, tuple(text), tuple(examples))
    return chip_backend_of(form.module).lower_for(methods, path, step, chip)


def _facts(
    groups: Mapping[str, Mapping[str, Program]],
    artifact: StaticArtifact,
    limits: Limits | None,
    lint: list[LintFinding],
) -> Facts:
    """What manifest and ledger say about the artifact, but its weights."""
    states = {state.buffer: state for interface in artifact.interfaces.values() for state in interface.states}
    return Facts(
        passes=[info for name, group in groups.items() for info in passes_of(_first(group), name)],
        methods=[method_info(interface, name) for name, interface in artifact.interfaces.items()],
        states=[state_info(state) for state in states.values()],
        limits=limits,
        delegation=artifact.delegation,
        operators=list(artifact.operators),
        weights=[],
        expected_weight_bytes=0,
        lint=lint,
    )
