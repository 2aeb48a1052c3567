"""What the phone's CPU computes for an artifact of the Hexagon processor, so that the manifest reports all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from edgec.backends.onnx.work import OnnxWork
from edgec.bundle.findings import Delegation, Fallback
from edgec.ir.static_methods import DECODE

_REASON = (
    "positions, masks and table rows lose too much in 16-bit fixed point: the CPU runs them from host_*.onnx, "
    "before each call of the context"
)


@dataclass
class HostedWork:
    """The operators of all models, by method and part.

    Attributes:
        hosted: those on the CPU.
        accelerated: those in contexts.
    """

    hosted: dict[str, list[OnnxWork]] = field(default_factory=dict)
    accelerated: dict[str, list[OnnxWork]] = field(default_factory=dict)

    def delegation(self, delegates: int) -> Delegation:
        """Counts over all methods; shares of the arithmetic of one decoded token, or of a model's only method."""
        one = DECODE if DECODE in self.accelerated else next(iter(self.accelerated))
        inside, outside = (_sum(each.get(one, ())).operations for each in (self.accelerated, self.hosted))
        total = max(1, inside.total() + outside.total())
        counts = _sum(each for parts in self.hosted.values() for each in parts).counts
        fallbacks = [Fallback(operator=n, count=c, reason=_REASON, share=outside[n] / total) for n, c in counts.items()]
        return Delegation(
            backend="qnn",
            delegates=delegates,
            delegated_operators=_sum(w for parts in self.accelerated.values() for w in parts).counts.total(),
            delegated_share=inside.total() / total,
            fallbacks=sorted(fallbacks, key=lambda fallback: (-fallback.share, fallback.operator)),
        )


def _sum(work: Iterable[OnnxWork]) -> OnnxWork:
    each = list(work)
    counts, operations = Counter[str](), Counter[str]()
    for one in each:
        counts.update(one.counts)
        operations.update(one.operations)
    return OnnxWork(counts, operations)
