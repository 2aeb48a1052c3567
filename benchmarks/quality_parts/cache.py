"""The cost of an int8 or int4 KV cache at each position of the context: errors of early keys reach all later tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from benchmarks.quality_parts.measure import Reference
    from edgec.ir.program import Program

DTYPES = ("float32", "float16", "int8", "int4")
BUCKETS = ((0, 32), (32, 64), (64, 128), (128, 256), (256, 384), (384, 512))
CONTEXT, CHUNK, _SEQUENCES = 512, 64, 24


@dataclass(frozen=True)
class CacheRow:
    """The figures of one cache in one range of positions, all measured.

    Attributes:
        dtype: dtype of the kept keys and values.
        bytes: bytes of keys and values per token, grids included.
        positions: first and last, inclusive.
        more_nats: negative log-likelihood per token above that of the float32 cache.
        error: standard error of ``more_nats``, over sequences.
        kl: divergence from the float32 cache's predictions, nats per token.
        tokens: number of predicted tokens.
    """

    model: str
    dtype: str
    bytes: float
    positions: tuple[int, int]
    more_nats: float
    error: float
    kl: float
    tokens: int


HEADER = "| KV cache | bytes/token | positions | more nats/token | ± | KL, nats | tokens |"


def line(row: CacheRow) -> str:
    """The row as a line of Markdown."""
    positions = f"{row.positions[0]}-{row.positions[1]}"
    return (
        f"| {row.dtype} | {row.bytes:,.0f} | {positions} | {row.more_nats:+.5f} | {row.error:.5f} | "
        f"{row.kl:.6f} | {row.tokens:,} |"
    )


def rows(reference: Reference) -> list[CacheRow]:
    """Measure every cache against the float32 one."""
    subject = reference.subject
    sequences = list(subject.joined[: len(subject.joined) // CONTEXT * CONTEXT].view(-1, CONTEXT))[:_SEQUENCES]
    program = subject.program
    plain = _log_probabilities(program, sequences, DTYPES[0])[0]
    return [row for dtype in DTYPES[1:] for row in _rows(subject.name, program, sequences, plain, dtype)]


def chart(measured: Sequence[CacheRow]) -> str:
    """Plot the divergence over positions, one line for each cache, as SVG."""
    from edgec.svg import Series, line_chart, stack

    series = []
    for dtype in dict.fromkeys(row.dtype for row in measured):
        own = [row for row in measured if row.dtype == dtype]
        series.append(Series(dtype, tuple(float(row.positions[1]) for row in own), tuple(row.kl for row in own)))
    title = f"{measured[0].model}: divergence from a float32 cache (measured)"
    return stack([line_chart(title, "up to position", "KL, nats per token", series)])


def _rows(
    model: str, program: Program, sequences: Sequence[Tensor], plain: Sequence[Tensor], dtype: str
) -> Iterator[CacheRow]:
    import torch

    cached, size = _log_probabilities(program, sequences, dtype)
    for first, stop in BUCKETS:
        more, kl = [], []
        for ids, a, b in zip(sequences, plain, cached, strict=True):
            place = torch.arange(max(first, 1), stop)
            labels = ids[place, None]
            more.append((a[place - 1].gather(1, labels) - b[place - 1].gather(1, labels)).mean())
            kl.append((a[place - 1].exp() * (a[place - 1] - b[place - 1])).sum(-1).mean())
        each = torch.stack(more)
        error = float(each.std()) / math.sqrt(len(each))
        tokens = len(sequences) * (stop - max(first, 1))
        kl_mean = float(torch.stack(kl).mean())
        yield CacheRow(model, dtype, size, (first, stop - 1), float(each.mean()), error, kl_mean, tokens)


def _log_probabilities(program: Program, sequences: Sequence[Tensor], dtype: str) -> tuple[list[Tensor], float]:
    """The log-probabilities of each sequence, float32 [S, V], fed in chunks; and the cache's bytes per token."""
    import torch

    from edgec.ir.attributes import attribute
    from edgec.ir.graph_run import run_calls
    from edgec.passes.contract import run_pass
    from edgec.passes.kv.kv_cache import KvCache

    cached = run_pass(program, KvCache(CONTEXT, CHUNK, dtype))
    states: list[Tensor] = [attribute(cached.graph, state.buffer) for state in cached.interface.states]
    size = sum(value.numel() * value.element_size() for value in states) / CONTEXT
    logprobs = []
    for ids in sequences:
        calls = [[ids[None, at : at + CHUNK], torch.arange(at, at + CHUNK)] for at in range(0, CONTEXT, CHUNK)]
        with torch.no_grad():
            outputs = run_calls(cached, calls)
        logits = torch.cat([(out[0] if isinstance(out, (tuple, list)) else out)[0] for out in outputs])
        logprobs.append(logits.float().log_softmax(-1))
    return logprobs, size
