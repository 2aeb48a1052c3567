"""Further positions, where the quality of a rounded model is measured and nothing else.

    text -> prefill of chunks, logits of every token -> KL of each position: the mean's error falls with their number

The probe's calls are those of a phone, and most of them give few logits: 87 positions of 256 tokens on a CPU, 35 in
fixed shapes. Their mean is off by a quarter or more. A prefill that gives the logits of all its tokens costs a graph as
much as twice the probe, once for the float model and once for the rounded graph. An artifact is not asked again: it is
its graph but for what the lowering rung measures, so its divergence is the graph's at all positions, plus what it has
more than the graph where both were executed.
"""

from __future__ import annotations

import math
from pathlib import Path

from torch import Tensor

from edgec.bundle.encoding import token_ids
from edgec.bundle.part import JsonPart
from edgec.exporter.parity.metrics import difference, kl_rows
from edgec.ir.call_plan import Call

TEXT = Path(__file__).parent / "further_text.txt"
POSITIONS = 512
# 256 MiB in float32; the logits of the float model are held while its graph is rounded.
_MOST_LOGITS = 1 << 26


class FurtherFigures(JsonPart):
    """The quality of a graph at the further positions: KL of each, nats, and the share with the same top token.

    There is no KL where the graph gives numbers that are not finite.
    """

    kl: list[float]
    top1_agreement: float

    @classmethod
    def of(cls, reference: Tensor, logits: Tensor, epsilon: float = 0.25) -> FurtherFigures:
        """Compare logits [Q, V] with the float model's; top tokens as ``difference`` does."""
        gap = difference(reference, logits, epsilon)
        kl = kl_rows(reference, logits).tolist() if math.isfinite(gap.kl_mean) else []
        return cls(kl=kl, top1_agreement=gap.top1_agreement)


def further_tokens(tokenizer: object, vocabulary: int, context: int) -> tuple[int, ...]:
    """The tokens of the built-in further text: as many as the context takes, and their logits fit into 256 MiB."""
    known = [token for token in token_ids(tokenizer, TEXT.read_text()) if token < vocabulary]
    return tuple(known[: most_positions(vocabulary, context)])


def most_positions(vocabulary: int, context: int) -> int:
    """How many further positions there are at most."""
    return min(POSITIONS, context, max(1, _MOST_LOGITS // vocabulary))


def further_plan(length: int, chunk: int) -> tuple[Call, ...]:
    """Calls of whole chunks, which give the logits of all their tokens."""
    sizes = [min(chunk, length - start) for start in range(0, length, chunk)]
    return tuple(Call(index * chunk, size, size) for index, size in enumerate(sizes))
