"""A row of the table: a changed model on held-out text, teacher-forced, against the float model window by window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from benchmarks.quality_parts.subjects import Subject
    from edgec.ir.program import Program


@dataclass(frozen=True)
class Row:
    """The cost of one way of storing a model; all figures are measured.

    Attributes:
        model: the subject.
        bits: stored bits per weight of the linear layers, scales and tables included.
        form: how weights are stored.
        algorithm: how they were chosen.
        nats: negative log-likelihood per token.
        increase: increase of perplexity over float, as a share.
        error: standard error of ``increase``, from the spread over windows.
        kl: divergence of the float model's predictions from these, nats per token.
        same_top1: share of positions with the same most likely token.
        tokens: number of predicted tokens.
    """

    model: str
    bits: float
    form: str
    algorithm: str
    nats: float
    increase: float
    error: float
    kl: float
    same_top1: float
    tokens: int


@dataclass(frozen=True)
class Reference:
    """The float model's log-probabilities, float32 [S, V] for each window."""

    subject: Subject
    windows: Sequence[Tensor]

    @classmethod
    def of(cls, subject: Subject) -> Reference:
        """Run the float model on the subject's held-out text."""
        return cls(subject, log_probabilities(subject.program, subject.held_out))

    def row(self, changed: Program, form: str, algorithm: str, bits: float) -> Row:
        """Measure a changed program."""
        return self.compare(log_probabilities(changed, self.subject.held_out), form, algorithm, bits)

    def compare(self, logprobs: Sequence[Tensor], form: str, algorithm: str, bits: float) -> Row:
        """Compare log-probabilities, whatever model they come from, with the float model's."""
        import torch

        ids = self.subject.held_out
        losses = [_losses(each, tokens) for each, tokens in zip(logprobs, ids, strict=True)]
        before = [_losses(each, tokens) for each, tokens in zip(self.windows, ids, strict=True)]
        more = torch.stack([(a - b).mean() for a, b in zip(losses, before, strict=True)])
        pairs = list(zip(self.windows, logprobs, strict=True))
        kl = torch.cat([(a.exp() * (a - b)).sum(-1) for a, b in pairs]).mean()
        same = torch.cat([a.argmax(-1) == b.argmax(-1) for a, b in pairs]).float().mean()
        nats, excess = torch.cat(losses).mean(), torch.cat(losses).mean() - torch.cat(before).mean()
        ratio = math.exp(float(excess))
        error = ratio * float(more.std()) / math.sqrt(len(more))
        tokens = self.subject.evaluated
        return Row(
            self.subject.name, bits, form, algorithm, float(nats), ratio - 1, error, float(kl), float(same), tokens
        )


def log_probabilities(program: Program, windows: Sequence[Tensor]) -> list[Tensor]:
    """The log-probabilities of each window, float32 [S, V]."""
    import torch

    from benchmarks.quality_parts.subjects import calls
    from edgec.ir.graph_run import run_calls

    with torch.no_grad():
        outputs = run_calls(program, calls(windows))
    logits = [out[0] if isinstance(out, (tuple, list)) else out for out in outputs]
    return [each[0].float().log_softmax(-1) for each in logits]


def _losses(logprobs: Tensor, ids: Tensor) -> Tensor:
    """The nats of each predicted token, float32 [S - 1]."""
    return -logprobs[:-1].gather(1, ids[0, 1:, None])[:, 0]


HEADER = "| weights | bits/weight | chosen by | nats/token | perplexity | ± | KL, nats | same top-1 |"


def line(row: Row) -> str:
    """The row as a line of Markdown."""
    change = f"{row.increase:+.2%} | {row.error:.2%}"
    return (
        f"| {row.form} | {row.bits:.2f} | {row.algorithm} | {row.nats:.4f} | {change} | {row.kl:.4f} | "
        f"{row.same_top1:.1%} |"
    )
