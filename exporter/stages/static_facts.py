"""The description of an artifact of static methods."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.backends.static_artifact import StaticArtifact
from edgec.bundle.manifest import Limits, LintFinding
from edgec.exporter.stages.compiled import Facts, WeightFact, method_info, pass_info, state_info
from edgec.exporter.stages.weight_facts import expected_bytes
from edgec.ir.program import Program


def static_facts(
    methods: Mapping[str, Program],
    lowered: StaticArtifact,
    limits: Limits | None,
    weights: list[WeightFact],
    found: list[LintFinding],
) -> Facts:
    """What manifest and ledger tell of it.

    Args:
        methods: the graphs that were lowered.
        lowered: what the backend says.
        limits: of a decoder; None for other models.
        weights: what it should hold.
        found: by the linter.
    """
    first = next(iter(methods.values()))
    states = next(iter(lowered.interfaces.values())).states
    return Facts(
        passes=[pass_info(change) for change in first.history],
        methods=[method_info(interface, name) for name, interface in lowered.interfaces.items()],
        states=[state_info(state) for state in states],
        limits=limits,
        delegation=lowered.delegation,
        operators=list(lowered.operators),
        weights=weights,
        expected_weight_bytes=expected_bytes(weights, first),
        lint=found,
    )
