"""Judge an executed decoder again with its own roundings, where rounding noise may have moved its logits.

    artifact, lowered again with every activation that it rounds as an output -> activations, logits
    graph, given these activations                                            -> logits, its own activations

Noise also hides faults: on SmolLM2-135M in 4 bits two right executions differ by KL 0.004, and a row of one matrix in
another's place adds less than that. Roundings given so never add up: from one to the next both compute the same few
sums. What is left is the order of these (KL 8e-12 there), and each activation must be the graph's own to within the
last places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import FLOOR, Stage, lowering_rung
from edgec.exporter.parity.probe_calls import ProbeCall
from edgec.exporter.parity.rounded_activations import USUALLY_NEAR, Followed, Outputs, follow
from edgec.ir.program import Program

OWN_ROUNDINGS = {"kl_mean": FLOOR, "top1_agreement": 1.0}


def rung_with_roundings(
    rung: Rung, program: Program, calls: Sequence[ProbeCall], executed: Tensor, lower: Callable[[Program], bytes]
) -> Rung:
    """The rung of an artifact whose graph takes the artifact's activations wherever they are rounded.

    Args:
        rung: of the artifact beside its graph as it is, which missed its budget.
        program: the graph.
        calls: what both are fed.
        executed: the logits [P, V] of the artifact that is judged.
        lower: makes an artifact of a program.

    Returns:
        The rung with these activations; the first one where nothing is rounded. It is failed where the artifact that
        shows its activations is not the one that is judged, or makes others than the graph does.
    """
    followed = follow(program, calls, lambda telling, fed: _execute(lower(telling), fed))
    return rung if followed is None else judged(rung, followed, executed)


def judged(rung: Rung, followed: Followed, executed: Tensor) -> Rung:
    """The rung of a graph that took an artifact's activations.

    Args:
        rung: of the artifact beside its graph as it is.
        followed: the graph beside an artifact that was lowered again, with its activations.
        executed: the logits [P, V] of the artifact that is judged.
    """
    same = float((followed.artifact_logits - executed).abs().max()) <= FLOOR * float(executed.abs().max())
    usual = max(float(rows.median()) for rows in followed.apart)
    told = f"its activations are usually within {usual:.0e} of the graph's"
    if not same or not usual < USUALLY_NEAR:
        why = told if same else "lowered again it computes other numbers"
        return rung.model_copy(update={"note": "; ".join(filter(None, [rung.note, why])), "passed": False})
    before, after = Stage(rung.reference, followed.logits), Stage(rung.stage, followed.artifact_logits)
    note = f"with the artifact's own roundings, KL {rung.kl_mean or 0:.2g} without; {told}"
    return lowering_rung(before, after, OWN_ROUNDINGS, note="; ".join(filter(None, [rung.note, note])))


def _execute(artifact: bytes, calls: Sequence[ProbeCall]) -> Outputs:
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    with TemporaryDirectory() as folder:
        file = Path(folder) / "telling.pte"
        file.write_bytes(artifact)
        method = TorchMethod(file)
        return [method(call.inputs) for call in calls]
