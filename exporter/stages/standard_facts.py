"""The facts of a module lowered for a CPU with standard kernels: XNNPACK's delegates, and what is left outside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.bundle.findings import Delegation, Fallback
from edgec.exporter.stages.compiled import Facts, method_info, pass_info
from edgec.exporter.stages.weight_facts import expected_bytes, weight_facts
from edgec.ir.program import Program

if TYPE_CHECKING:
    from edgec.backends.cpu.static_lowering import StaticLowered

_REASON = "XNNPACK has no operator for it in this form; it runs on ExecuTorch's CPU kernels"


def standard_facts(program: Program, lowered: StaticLowered) -> Facts:
    """What the manifest says about the artifact."""
    weights = weight_facts(program, ())
    return Facts(
        passes=[pass_info(change) for change in program.history],
        methods=[method_info(program.interface)],
        states=[],
        limits=None,
        delegation=_delegation(lowered),
        operators=sorted(outside.operator for outside in lowered.outside),
        weights=weights,
        expected_weight_bytes=expected_bytes(weights, program),
    )


def _delegation(lowered: StaticLowered) -> Delegation:
    total = lowered.delegated_macs + sum(each.macs for each in lowered.outside)
    return Delegation(
        backend="xnnpack",
        delegates=lowered.delegates,
        delegated_operators=sum(lowered.delegated.values()),
        delegated_share=lowered.delegated_share(),
        fallbacks=[
            Fallback(operator=o.operator, count=o.count, reason=_REASON, share=o.macs / total if total else 0.0)
            for o in lowered.outside
        ],
    )
