"""The quality of an executed artifact, at more positions than it was executed for.

    KL(float, artifact) = mean over P + Q positions of KL(float, graph)
                        + mean over P positions of KL(float, artifact) - KL(float, graph)

The first mean varies with the text, the second hardly: both terms of the difference are of the same positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.further import FurtherFigures
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.metrics import error_of_mean, kl_rows
from edgec.exporter.parity.refusals import keeps_budget


def with_further(rung: Rung, reference: Stage, final: Stage, executed: Stage, further: FurtherFigures) -> Rung:
    """A quality rung of an executed artifact at the further positions, too.

    Args:
        rung: of the artifact against the float model, at P positions.
        reference: the float model there, or what the last semantic pass made of it.
        final: the graph that the artifact was lowered from.
        executed: the artifact.
        further: the graph's figures at Q further positions.
    """
    if rung.kl_mean is None or rung.top1_agreement is None or not further.kl:
        return rung
    mean, error = joined_kl(reference.logits, final.logits, executed.logits, further.kl)
    own, more = rung.positions, len(further.kl)
    agreement = (own * rung.top1_agreement + more * further.top1_agreement) / (own + more)
    figures = {"kl_mean": mean, "kl_error": error, "top1_agreement": agreement, "positions": own + more}
    note = f"executed at {own} positions; the graph's figures at {more} more"
    told = rung.model_copy(update={**figures, "note": "; ".join(filter(None, [rung.note, note]))})
    return told.model_copy(update={"passed": keeps_budget(told)})


def joined_kl(reference: Tensor, graph: Tensor, artifact: Tensor, further: Sequence[float]) -> tuple[float, float]:
    """The divergence of an artifact at all positions, from what it has more than its graph at some; and its error.

    Args:
        reference: the float model's logits [P, V].
        graph: the rounded graph's.
        artifact: the executed artifact's.
        further: the graph's divergence at Q further positions, nats.

    Returns:
        The mean over P + Q positions, and two standard errors of it, nats.
    """
    own = kl_rows(reference, graph)
    more = kl_rows(reference, artifact) - own
    everywhere = torch.cat([own, torch.tensor(list(further), dtype=own.dtype)])
    mean = max(0.0, float(everywhere.mean() + more.mean()))
    return mean, math.hypot(error_of_mean(everywhere), error_of_mean(more))
